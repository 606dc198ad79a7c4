//! What became of one dispatched call.
//!
//! Owns the three ends (C-113) and the text that goes with them. An ambiguous end exists only for a `write`; an error
//! says whether the world changed (C-120).

use protocol::call::Applied;
use protocol::code::Code;
use protocol::json::Canonical;

use super::secret::Redactor;

/// Longest detail of an outcome (C-90).
pub const DETAIL_BYTES: usize = 2_048;

/// The end of a call that passed its dispatch gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The other side did it. The result is strict JSON within the tool's limit; its schema is not checked here.
    Ok {
        /// Canonical result, secrets replaced.
        result: Canonical,
    },
    /// It failed, and it is known whether anything was changed.
    Error {
        /// One of `handler_error`, `handler_timeout`, `connector_unreachable`, `redirect_refused`, `invalid_result`,
        /// `result_too_large`, `invalid_arguments`, `tool_unavailable`.
        code: Code,
        /// Scrubbed text of the other side, at most [`DETAIL_BYTES`].
        detail: String,
        /// `Yes` or `No`.
        applied: Applied,
    },
    /// A `write` that may or may not have happened (C-121).
    Ambiguous {
        /// As above.
        detail: String,
    },
}

impl Outcome {
    pub(super) fn error(code: Code, detail: impl Into<String>, applied: Applied) -> Self {
        Self::Error { code, detail: cut(detail.into()), applied }
    }

    pub(super) fn ambiguous(detail: impl Into<String>) -> Self {
        Self::Ambiguous { detail: cut(detail.into()) }
    }
}

/// A detail no longer than it may be.
pub(super) fn cut(mut detail: String) -> String {
    detail.truncate(detail.floor_char_boundary(DETAIL_BYTES));
    detail
}

/// An outcome with what is kept beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What became of the call.
    pub outcome: Outcome,
    /// What a command wrote to stderr, secrets replaced, cut at 64 KiB; kept as a body (C-266).
    pub stderr: Option<Vec<u8>>,
    /// A child of a command left its process group and could still be running (C-267).
    pub escaped: bool,
}

impl Ended {
    pub(super) fn plain(outcome: Outcome) -> Self {
        Self { outcome, stderr: None, escaped: false }
    }
}

/// Text of the other side as it may be shown and stored: secrets replaced, control characters and what JSON refuses
/// shown as U+FFFD, cut at a character boundary.
pub(super) fn scrub(bytes: &[u8], redactor: &Redactor) -> String {
    let clean = redactor.clean(bytes);
    let text = String::from_utf8_lossy(&clean);
    let mut out = String::with_capacity(text.len().min(DETAIL_BYTES));
    for c in text.trim().chars() {
        let c = if is_harmless(c) { c } else { char::REPLACEMENT_CHARACTER };
        if out.len() + c.len_utf8() > DETAIL_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

fn is_harmless(c: char) -> bool {
    let noncharacter = matches!(u32::from(c), 0xfdd0..=0xfdef) || u32::from(c) & 0xfffe == 0xfffe;
    !noncharacter && (!c.is_control() || c == '\n' || c == '\t')
}

/// A detail made of our own words and text of the other side.
pub(super) fn detail(ours: &str, theirs: &[u8], redactor: &Redactor) -> String {
    let theirs = scrub(theirs, redactor);
    if theirs.is_empty() {
        return ours.to_owned();
    }
    cut(format!("{ours}: {theirs}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_short_and_harmless() {
        let redactor = Redactor::default();
        assert_eq!(scrub(b" a\x1b[31m\x00b\n", &redactor), "a\u{fffd}[31m\u{fffd}b");
        assert_eq!(scrub(&[b'x'; 5_000], &redactor).len(), DETAIL_BYTES); // C-90
        assert_eq!(detail("status 500", "\u{e9}".repeat(5_000).as_bytes(), &redactor).len(), DETAIL_BYTES);
    }
}
