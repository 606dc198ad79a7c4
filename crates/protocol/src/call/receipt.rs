//! The host's record of what a call did (calls.md section 9).
//!
//! Owns: the fields, id, digest and chain of receipts. A receipt holds digests and names, never a body, secret, path
//! or handler text (C-129), and is never changed (C-125).

use super::{Applied, Call};
use crate::code::Code;
use crate::digest::Digest;
use crate::id::{CallId, ReceiptId, RunId};
use crate::json::{Packed, Record};
use crate::run::{Head, Run};
use crate::time::Time;

/// A receipt as stored: its place in the run's chain and its canonical record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub run: RunId,
    pub call: CallId,
    /// Place in the run's chain, from 0, in order of commit (C-127).
    pub n: u32,
    pub id: ReceiptId,
    pub digest: Digest,
    /// Every field of C-124, `receipt_digest` included.
    pub record: Packed,
}

/// What a receipt says of the end of a call; `Ambiguous` is one of four (C-124).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

impl ReceiptOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            ReceiptOutcome::Ok => "ok",
            ReceiptOutcome::Error => "error",
            ReceiptOutcome::Denied => "denied",
            ReceiptOutcome::Ambiguous => "ambiguous",
        }
    }
}

/// What a receipt's record is made of.
struct Source<'a> {
    run: &'a Run,
    call: &'a Call,
    facts: &'a ReceiptFacts,
    /// `<run>/<scope>/<n>`
    identity: String,
}

impl Source<'_> {
    /// Known before the outcome: outcome and result change the digest, never the id (C-126).
    fn id(&self) -> ReceiptId {
        let Source { run, call, facts, identity } = self;
        let mut record = Record::new();
        record.maybe("approval", call.approval).text("arguments", call.arguments.digest).text("call", identity);
        record.maybe("parent", None::<&str>).text("plan", run.plan).text("run", call.run);
        record.text("schema", "stasis.receipt-id.v1").maybe("settles", facts.settles);
        record.text("tool", &call.tool.name).text("tool_digest", call.tool.digest);
        ReceiptId::new(record.digest())
    }

    /// Every field of C-124, written once: the digest of the record without `receipt_digest` is then put in its place.
    fn record(&self, id: ReceiptId) -> (Digest, Packed) {
        let Source { run, call, facts, identity } = self;
        let prev = (run.receipts.len > 0).then_some(run.receipts.digest);
        let mut record = Record::packed();
        record.text("applied", facts.applied.as_str()).maybe("approval", call.approval);
        record.text("arguments", call.arguments.digest).text("asked_arguments", call.asked);
        record.number("attempt", facts.attempt).text("call", identity).maybe("code", facts.code.map(Code::as_str));
        record.text("ended_at", facts.ended_at).maybe("gate_at", facts.gate_at).maybe("grant", None::<Digest>);
        record.number("hop", facts.hop).text("key", Digest::of(call.key())).text("outcome", facts.outcome.as_str());
        record.maybe("parent", None::<&str>).text("plan", run.plan).maybe("policy", facts.policy).maybe("prev", prev);
        let place = record.place();
        record.text("receipt_id", id).maybe("result", facts.result).text("run", call.run);
        record.text("schema", "stasis.receipt.v1").maybe("settles", facts.settles);
        record.text("tool", &call.tool.name).text("tool_digest", call.tool.digest);
        let digest = record.digest();
        record.insert(place, "receipt_digest", digest);
        (digest, record.done())
    }
}

impl Receipt {
    /// Writes the next receipt of `run`'s chain for `call`.
    pub fn write(run: &Run, call: &Call, facts: &ReceiptFacts) -> Receipt {
        let source = Source { run, call, facts, identity: call.identity.text(call.run) };
        let id = source.id();
        let (digest, record) = source.record(id);
        Receipt { run: call.run, call: call.id, n: run.receipts.len, id, digest, record }
    }

    /// The chain's head once this receipt is stored.
    pub fn head(&self) -> Head {
        Head { len: self.n + 1, digest: self.digest }
    }
}
