//! The end of a call as the hop tells it: to its guest with the next answer, to the ledger with the next commit.

use super::state::Hop;
use protocol::call::{Applied, Gate, Outcome, OutcomeStatus, State};
use protocol::code::Code;
use protocol::command::{Concluded, Conclusion};
use protocol::id::CallId;
use protocol::json::Canonical;
use serde::Serialize;

/// The call ends well.
pub(super) fn succeed(hop: &mut Hop, id: CallId, result: &Canonical, applied: Applied, gate: Option<Gate>) {
    let body = hop.keep(result.as_bytes());
    end(hop, id, OutcomeStatus::Ok, None, applied, Some(body), gate);
}

/// The handler ran, or a lookup or person found out, and it failed.
pub(super) fn fail(hop: &mut Hop, id: CallId, code: Code, detail: &str, applied: Applied, gate: Option<Gate>) {
    let body = told(hop, code, &code.title(), Some(detail));
    end(hop, id, OutcomeStatus::Error, Some(code), applied, Some(body), gate);
}

/// The same with what a program can look into.
pub(super) fn fail_with(hop: &mut Hop, id: CallId, code: Code, message: &str, detail: impl Serialize) {
    let body = told(hop, code, message, Some(detail));
    end(hop, id, OutcomeStatus::Error, Some(code), Applied::No, Some(body), None);
}

/// Nothing ran and, under this call, nothing ever will (C-88).
pub(super) fn deny(hop: &mut Hop, id: CallId, code: Code, message: &str, detail: Option<impl Serialize>) {
    let body = told(hop, code, message, detail);
    end(hop, id, OutcomeStatus::Denied, Some(code), Applied::No, Some(body), None);
}

/// The body of an outcome that is no result; replay tells it again.
fn told(hop: &mut Hop, code: Code, message: &str, detail: Option<impl Serialize>) -> protocol::run::Body {
    #[derive(Serialize)]
    struct Body<'a, T> {
        code: &'static str,
        message: &'a str,
        detail: Option<T>,
    }
    let body = Body { code: code.as_str(), message, detail };
    let text = protocol::json::to_canonical(&body).unwrap_or_else(|_| Canonical::null());
    hop.keep(text.as_bytes())
}

fn end(
    hop: &mut Hop,
    id: CallId,
    status: OutcomeStatus,
    code: Option<Code>,
    applied: Applied,
    body: Option<protocol::run::Body>,
    gate: Option<Gate>,
) {
    let at = hop.inner.now();
    let outcome = Outcome { status, code, applied, body, gate, at };
    hop.call_mut(id).state = State::Ended(outcome.clone());
    hop.conclude(Conclusion { call: id, end: Concluded::Ended(outcome) });
}
