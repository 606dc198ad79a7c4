//! A person's word that something of a stopping run has stopped.
//!
//! Invariant: what a person vouches for is never told as acknowledged, and nothing is made up of what it did: a write in
//! flight becomes ambiguous, and a job is lost, since its agent said nothing.

use super::{Cx, Decision, admit::not_permitted, hop, job, settle, step};
use crate::code::Code;
use crate::command::{Answer, Attest};
use crate::event::{Facts, Kind};
use crate::obligation::{State, Subject};
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::rows::{Change, NewBody, Rows};
use crate::tool::Effect;

/// E-17, E-18 follow with the last obligation. One that is open no more, or of a final run, is answered with what stands.
pub(super) fn attest(attest: Attest, rows: Box<Rows>, cx: &mut Cx<'_>) -> Decision {
    if let Err(refusal) = may(&attest, &rows) {
        return refusal.into();
    }
    if !rows.obligations.get(attest.subject).is_some_and(|row| row.is_open()) {
        return Decision::stands(Answer::Settled { run: Box::new(rows.run), changed: false, repaired: false });
    }
    let mut change = Change::of(rows, cx.now);
    let subject = attest.subject;
    told(&mut change, attest);
    match subject {
        // What it writes from here on has an old claim.
        Subject::Hop(_) => hop::release_claim(&mut change),
        Subject::Call(id) => {
            let row = change.rows.calls.get(id);
            if row.is_some_and(|call| call.in_flight() && call.effect == Effect::Write) {
                settle::unknown(&mut change, id, cx);
            }
        }
        Subject::Job(id) => job::give_up(&mut change, id),
    }
    step::contain(&mut change, cx);
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Settled { run, changed: true, repaired: false })
}

fn may(attest: &Attest, rows: &Rows) -> Result<(), Refusal> {
    let run = &rows.run;
    if run.namespace != attest.by.principal.namespace {
        return Err(Refusal::new(Code::NotFound, format!("there is no run {}", attest.run)));
    }
    if !attest.by.principal.rights.has(Right::RunsAttest) {
        return Err(not_permitted(&attest.by, Right::RunsAttest));
    }
    if attest.reason.trim().is_empty() {
        return Err(Refusal::new(Code::ReasonRequired, "an attestation needs a reason").hint("--reason TEXT"));
    }
    let status = run.status();
    if !status.is_stopping() && !status.is_final() {
        let detail = format!("{} is {status} and nothing of it was asked to stop", run.id);
        return Err(Refusal::new(Code::IllegalTransition, detail));
    }
    Ok(())
}

/// Records whose word it is.
fn told(change: &mut Change, attest: Attest) {
    let Attest { by, subject, reason, .. } = attest;
    let (who, at) = (by.principal.id, change.now);
    let body = NewBody::new(reason.clone().into_bytes());
    let facts = Facts::new().with("kind", subject.kind()).with("ref", subject.to_string()).with("by", &who);
    let facts = facts.with("request", by.request).with("reason_digest", body.body.digest);
    change.bodies.push(body);
    let row = change.rows.obligations.edit(subject).expect("looked at before");
    row.state = State::Attested { by: who, at, reason };
    change.event(Kind::ContainmentAttested, facts);
}
