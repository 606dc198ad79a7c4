//! The host's record of what a call did (calls.md section 9).
//!
//! Owns: the fields, id, digest and chain of receipts. A receipt holds digests and names, never a body, secret, path
//! or handler text (C-129), and is never changed (C-125).

use super::{Applied, Call};
use crate::code::Code;
use crate::digest::Digest;
use crate::id::{ApprovalId, ReceiptId, RunId};
use crate::json::Canonical;
use crate::run::{Head, Run};
use crate::time::Time;
use serde::Serialize;

/// A receipt as stored: its place in the run's chain and its canonical record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub run: RunId,
    /// Place in the run's chain, from 0, in order of commit (C-127).
    pub n: u32,
    pub id: ReceiptId,
    pub digest: Digest,
    /// Every field of C-124, `receipt_digest` included.
    pub record: Canonical,
}

/// What a receipt says of the end of a call; `Ambiguous` is one of four (C-124).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptOutcome {
    Ok,
    Error,
    Denied,
    Ambiguous,
}

/// What is known beside the call's row when a receipt is written.
#[derive(Clone, Debug)]
pub struct ReceiptFacts {
    pub hop: u32,
    pub outcome: ReceiptOutcome,
    pub code: Option<Code>,
    pub applied: Applied,
    pub result: Option<Digest>,
    /// Version of the policy in force when a person was asked.
    pub policy: Option<Digest>,
    pub gate_at: Option<Time>,
    pub attempt: u8,
    pub ended_at: Time,
    /// The receipt this one settles.
    pub settles: Option<Digest>,
}

#[derive(Serialize)]
struct Identity<'a> {
    schema: &'static str,
    run: RunId,
    call: &'a str,
    parent: Option<&'a str>,
    tool: &'a str,
    tool_digest: Digest,
    plan: Digest,
    arguments: Digest,
    approval: Option<ApprovalId>,
    settles: Option<Digest>,
}

#[derive(Serialize)]
struct Record<'a> {
    schema: &'static str,
    receipt_id: ReceiptId,
    run: RunId,
    hop: u32,
    call: &'a str,
    parent: Option<&'a str>,
    tool: &'a str,
    tool_digest: Digest,
    plan: Digest,
    arguments: Digest,
    asked_arguments: Digest,
    approval: Option<ApprovalId>,
    grant: Option<Digest>,
    policy: Option<Digest>,
    attempt: u8,
    key: Digest,
    outcome: ReceiptOutcome,
    code: Option<&'static str>,
    applied: Applied,
    result: Option<Digest>,
    gate_at: Option<Time>,
    ended_at: Time,
    settles: Option<Digest>,
    prev: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt_digest: Option<Digest>,
}

impl Receipt {
    /// Writes the next receipt of `run`'s chain for `call`.
    ///
    /// The id is known before the outcome: outcome and result change the digest, never the id (C-126).
    pub fn write(run: &Run, call: &Call, facts: &ReceiptFacts) -> Receipt {
        let text = call.identity.text(call.run);
        let id = ReceiptId::new(Digest::record(&Identity {
            schema: "stasis.receipt-id.v1",
            run: call.run,
            call: &text,
            parent: None,
            tool: &call.tool.name,
            tool_digest: call.tool.digest,
            plan: run.plan,
            arguments: call.arguments.digest,
            approval: call.approval,
            settles: facts.settles,
        }));
        let mut record = Record {
            schema: "stasis.receipt.v1",
            receipt_id: id,
            run: call.run,
            hop: facts.hop,
            call: &text,
            parent: None,
            tool: &call.tool.name,
            tool_digest: call.tool.digest,
            plan: run.plan,
            arguments: call.arguments.digest,
            asked_arguments: call.asked,
            approval: call.approval,
            grant: None,
            policy: facts.policy,
            attempt: facts.attempt,
            key: Digest::of(call.key().as_bytes()),
            outcome: facts.outcome,
            code: facts.code.map(Code::as_str),
            applied: facts.applied,
            result: facts.result,
            gate_at: facts.gate_at,
            ended_at: facts.ended_at,
            settles: facts.settles,
            prev: (run.receipts.len > 0).then_some(run.receipts.digest),
            receipt_digest: None,
        };
        let digest = Digest::record(&record);
        record.receipt_digest = Some(digest);
        Receipt {
            run: call.run,
            n: run.receipts.len,
            id,
            digest,
            record: crate::json::to_canonical(&record).expect("a record has text keys and finite numbers"),
        }
    }

    /// The chain's head once this receipt is stored.
    pub fn head(&self) -> Head {
        Head { len: self.n + 1, digest: self.digest }
    }
}
