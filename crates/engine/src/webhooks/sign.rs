//! Signatures of messages, as the Standard Webhooks specification has them: HMAC-SHA256 over id, time and body.

use super::SECRET_PREFIX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::id::MessageId;
use protocol::webhook::SigningSecret;
use ring::hmac;

/// The bytes of a secret.
pub(super) fn key(secret: &str) -> Result<Vec<u8>, String> {
    let text = secret.strip_prefix(SECRET_PREFIX).ok_or_else(|| format!("it does not begin with `{SECRET_PREFIX}`"))?;
    let bytes = STANDARD.decode(text).map_err(|_| "what follows the prefix is not base64".to_owned())?;
    match bytes.len() {
        24..=64 => Ok(bytes),
        n => Err(format!("it has {n} bytes, and 24 to 64 are asked for")),
    }
}

/// The value of `webhook-signature` for a message that is sent at `at`, in seconds since 1970.
pub(super) fn signature(secret: &SigningSecret, id: MessageId, at: i64, body: &str) -> Result<String, String> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key(&secret.0)?);
    let signed = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(signed.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_whsec_and_base64_of_enough_bytes() {
        assert_eq!(key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").map(|key| key.len()), Ok(24)); // I-34
        for bad in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_AAAA", "whsec_no base64"] {
            assert!(key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signature_covers_id_time_and_body() {
        let secret = SigningSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let id = |n| MessageId::mint(protocol::time::Time::from_millis(1), 0, n);
        let sign = |id, at, body: &str| signature(&secret, id, at, body).unwrap();
        let one = sign(id(1), 1_614_265_330, "{\"test\": 2432232314}");
        assert!(one.starts_with("v1,") && one.len() == 3 + 44, "{one}"); // I-34
        for other in [
            sign(id(2), 1_614_265_330, "{\"test\": 2432232314}"),
            sign(id(1), 1, "{\"test\": 2432232314}"),
            sign(id(1), 1_614_265_330, "{}"),
        ] {
            assert_ne!(one, other);
        }
    }
}
