//! What keeps other origins powerless (C-221, C-297, I-52): the comparison of secrets, the check of where a form came
//! from, and the headers that every answer carries.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Uri};
use subtle::ConstantTimeEq;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Pages load nothing from elsewhere, run nothing inline, post nowhere else and cannot be framed.
const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// What is no page does nothing at all.
const DATA: &str = "default-src 'none'; frame-ancestors 'none'";

/// Whether two secrets are equal, in a time that does not tell where they differ.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// Whether a request that changes something came from a page of this server.
///
/// `public` is the origin under which people reach it, where that is not the host they named. With `no-referrer` a
/// browser writes `Origin: null` on a form of the same origin; then its own word on the site counts, which no script and
/// no other page can set.
pub(crate) fn own_origin(headers: &HeaderMap, public: Option<&str>) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match text(&ORIGIN) {
        Some("null") | None => text(&SEC_FETCH_SITE) == Some("same-origin"),
        Some(origin) => {
            let named = origin.parse::<Uri>().ok().and_then(|uri| uri.authority().map(ToString::to_string));
            let host = named.is_some() && named.as_deref() == text(&HOST);
            host || public.is_some_and(|public| public == origin)
        }
    }
}

/// Sets the headers of I-52 and C-221 on an answer, where it does not bring its own.
pub(crate) fn secure(headers: &mut HeaderMap) {
    let page = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let set = [
        (CONTENT_SECURITY_POLICY, if page { PAGE } else { DATA }),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in set {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_pages_of_this_server_may_post() {
        let own = |pairs: &[(&'static str, &'static str)], public| own_origin(&headers(pairs), public);
        let here = ("host", "127.0.0.1:7878");
        assert!(own(&[here, ("origin", "http://127.0.0.1:7878")], None)); // C-221
        assert!(own(&[here, ("origin", "null"), ("sec-fetch-site", "same-origin")], None)); // C-221
        assert!(own(&[here, ("origin", "https://stasis.example")], Some("https://stasis.example"))); // C-221
        for foreign in ["http://evil.example", "http://127.0.0.1:7879", "http://localhost:7878", "null", "", "x"] {
            assert!(!own(&[here, ("origin", foreign)], None), "{foreign}"); // C-297
        }
        assert!(!own(&[here, ("origin", "null"), ("sec-fetch-site", "cross-site")], None)); // C-297
        assert!(!own(&[here], None)); // C-297
    }

    #[test]
    fn every_answer_refuses_frames_and_tells_no_referrer() {
        let mut page = headers(&[("content-type", "text/html; charset=utf-8")]);
        secure(&mut page);
        let policy = page[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}"); // C-221
        let mut data = HeaderMap::new();
        secure(&mut data);
        assert_eq!(data[REFERRER_POLICY], "no-referrer"); // C-221
        assert_eq!(data[CONTENT_SECURITY_POLICY], "default-src 'none'; frame-ancestors 'none'"); // I-52
    }
}
