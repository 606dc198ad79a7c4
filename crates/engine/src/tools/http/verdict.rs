//! What an HTTP status means (C-255 to C-258), and what it means that there is none.
//!
//! Owns the two tables: for a `write`, where only a definite answer is an answer, and for a tool that changes nothing.

use protocol::tool::{Effect, Meaning};

/// What is to be done about a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Read the body: it is the result.
    Ok,
    /// The other side refused; nothing was changed.
    Error,
    /// A redirect that is not followed; nothing was changed.
    RedirectRefused,
    /// A redirect that may be followed.
    Follow(Again),
    /// No definite answer to a `write`.
    Ambiguous,
}

/// How a followed redirect asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// The same request at the other place.
    Same,
    /// A request without body.
    Get,
}

/// The verdict on a status. `said` is the tool's own meaning for it, which wins (I-64).
pub(super) fn verdict(effect: Effect, status: u16, said: Option<Meaning>) -> Verdict {
    match (effect, said) {
        (_, Some(Meaning::Ok)) => Verdict::Ok,
        (_, Some(Meaning::Error)) => Verdict::Error,
        (Effect::Write, Some(Meaning::Ambiguous)) => Verdict::Ambiguous,
        // A tool that changes nothing has no ambiguous end (C-120).
        (Effect::Pure | Effect::Read, Some(Meaning::Ambiguous)) => Verdict::Error,
        (Effect::Write, None) => of_write(status),
        (Effect::Pure | Effect::Read, None) => of_read(status),
    }
}

fn of_write(status: u16) -> Verdict {
    match status {
        200..=299 => Verdict::Ok,
        307 | 308 => Verdict::RedirectRefused,
        408 => Verdict::Ambiguous,
        400..=499 => Verdict::Error,
        _ => Verdict::Ambiguous,
    }
}

fn of_read(status: u16) -> Verdict {
    match status {
        200..=299 => Verdict::Ok,
        301..=303 => Verdict::Follow(Again::Get),
        307 | 308 => Verdict::Follow(Again::Same),
        _ => Verdict::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_definite_answer_to_a_write_is_an_answer() {
        for status in 100..=999 {
            let expected = match status {
                200..=299 => Verdict::Ok,                // C-255
                307 | 308 => Verdict::RedirectRefused,   // C-256
                400..=407 | 409..=499 => Verdict::Error, // C-257
                _ => Verdict::Ambiguous,                 // C-258, C-121
            };
            assert_eq!(verdict(Effect::Write, status, None), expected, "{status}");
        }
    }

    #[test]
    fn a_tool_may_say_what_a_status_means() {
        // I-64
        assert_eq!(verdict(Effect::Write, 409, Some(Meaning::Ok)), Verdict::Ok);
        assert_eq!(verdict(Effect::Write, 503, Some(Meaning::Error)), Verdict::Error);
        assert_eq!(verdict(Effect::Write, 404, Some(Meaning::Ambiguous)), Verdict::Ambiguous);
        assert_eq!(verdict(Effect::Read, 404, Some(Meaning::Ambiguous)), Verdict::Error); // C-120
    }
}
