//! The built-in tools that answer at once (C-268).

use crate::inner::fill;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::builtin;
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::json::{Canonical, Value, to_canonical};
use protocol::time::Time;

/// Answers a built-in read or pure tool; `None` for any other tool, built-in waits included.
pub(crate) fn instant(tool: &str, arguments: &Value, now: Time) -> Option<Result<Canonical, (Code, String)>> {
    let text = |text: String| Ok(to_canonical(&text).expect("a text"));
    match tool {
        builtin::NOW => Some(text(now.to_string())),
        builtin::RANDOM_BYTES => {
            let n = arguments.get("n").and_then(Value::as_u64).unwrap_or_default();
            let mut bytes = vec![0; n as usize];
            fill(&mut bytes);
            Some(text(STANDARD.encode(bytes)))
        }
        builtin::SHA256 => {
            let data = arguments.get("base64").and_then(Value::as_str).unwrap_or_default();
            Some(match STANDARD.decode(data) {
                Ok(bytes) => text(Digest::of(bytes).hex()),
                Err(error) => Err((Code::HandlerError, format!("`base64`: {error}"))),
            })
        }
        _ => None,
    }
}
