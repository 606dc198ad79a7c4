//! Replay: a fresh guest is answered from the journal until it stands where the run stands (workflows.md section 3.4).
//!
//! Invariant: while replaying nothing is dispatched, asked, counted or charged, and the first difference ends the
//! run.

use super::state::{Hop, Out};
use super::turn::{HopEntry, Turn};
use crate::broker::{self, Request};
use protocol::call::{Call, Identity, OutcomeStatus};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::json::Canonical;
use protocol::time::Time;
use sandbox::{Answer, End, Event, Guest, Limit, Outcome, Refusal, Replies, Reply};
use serde::{Deserialize, Serialize};

/// What the guest did while it was answered from the journal.
pub(super) enum Replayed {
    /// It is blocked in the last turn, which has still to be answered live.
    Waiting(Guest),
    /// Every turn has been answered; the guest runs on live.
    Caught(Guest),
}

/// Answers `turns` from the journal. The last of them is left to the caller if `answer_last` is false.
pub(super) async fn replay(hop: &mut Hop, mut guest: Guest, answer_last: bool) -> Result<Replayed, Out> {
    let turns = hop.turns.clone();
    let mut counted = 0;
    let mut remaining = turns.iter().peekable();
    while let Some(turn) = remaining.peek().copied() {
        match next_request(hop, turn, &mut guest, counted).await? {
            // Refusals of steps 1 to 6 follow from the request and the counts, so they come again (W-171).
            Step::Refused(answer) => guest.answer(answer),
            Step::Request(request) => {
                compare(hop, turn, &request, counted)?;
                remaining.next();
                counted += turn.calls.len() as u32;
                if remaining.peek().is_none() && !answer_last {
                    return Ok(Replayed::Waiting(guest));
                }
                let answer = answer(hop, turn, counted, None).await?;
                hop.told = answer.now;
                guest.answer(answer);
            }
        }
    }
    Ok(Replayed::Caught(guest))
}

enum Step {
    Request(Request),
    Refused(Answer),
}

async fn next_request(hop: &Hop, turn: &Turn, guest: &mut Guest, counted: u32) -> Result<Step, Out> {
    match guest.next().await {
        Event::Call(bytes) => match request(hop, &bytes, counted) {
            Ok(request) => Ok(Step::Request(request)),
            Err(answer) => Ok(Step::Refused(*answer)),
        },
        Event::Oversized { length } => Ok(Step::Refused(refusal(hop, broker::too_large(length), counted))),
        Event::Ended(End::Limit(Limit::Time { limit, spent })) => {
            let (spent, limit) = (spent.as_millis(), limit.as_millis());
            Err(Out::fail(Code::ReplayTimeout, format!("replay time exceeded: {spent} ms > {limit} ms")))
        }
        Event::Ended(End::Stopped) => Err(super::script::stopped(hop)),
        // W-175: a program that ends while entries are unread has diverged.
        Event::Ended(_) => {
            let unread = hop.call(turn.calls[0]);
            Err(diverged("the program ended before this call", unread, unread.asked, None))
        }
    }
}

/// Steps 1 to 6 of the broker: what is wrong here is neither counted nor journaled.
pub(super) fn request(hop: &Hop, bytes: &[u8], counted: u32) -> Result<Request, Box<Answer>> {
    let request = broker::read(bytes).map_err(|refused| Box::new(refusal(hop, refused, counted)))?;
    for (expected, call) in (u64::from(counted) + 1..).zip(&request.calls) {
        if call.n != expected {
            let detail = format!("the next call is {expected}, not {}", call.n);
            let refused = broker::Refused::new(Code::CallIdentityMismatch, detail);
            return Err(Box::new(refusal(hop, refused, counted)));
        }
    }
    let most = hop.run.settings.max_calls;
    if counted + request.calls.len() as u32 > most {
        let detail = format!("calls exceeded: {} > {most}", counted as usize + request.calls.len());
        let refused = broker::Refused::new(Code::CallBudgetExceeded, detail);
        return Err(Box::new(refusal(hop, refused, counted)));
    }
    Ok(request)
}

/// The answer to a request that is refused whole; it carries the time of the last answer (W-171).
pub(super) fn refusal(hop: &Hop, refused: broker::Refused, counted: u32) -> Answer {
    let denied = matches!(refused.code, Code::CallIdentityMismatch | Code::CallBudgetExceeded);
    let told =
        Refusal { code: refused.code.as_str().to_owned(), message: refused.message, detail: None, applied: None };
    let next = u64::from(counted) + 1;
    Answer {
        now: hop.told,
        entropy: None,
        next,
        replies: Replies::One(Reply {
            n: next,
            call: String::new(),
            approval: None,
            outcome: if denied { Outcome::Denied(told) } else { Outcome::Error(told) },
            edited: None,
        }),
    }
}

/// The first difference, for a person: the journaled call, and the digests of what stands against each other.
#[derive(Serialize)]
struct Difference<'a> {
    what: &'a str,
    call: String,
    journaled: Digest,
    asked: Option<Digest>,
}

fn diverged(what: &str, call: &Call, journaled: Digest, asked: Option<Digest>) -> Out {
    let difference = Difference { what, call: call.identity.text(call.run), journaled, asked };
    Out::fail_with(Code::ReplayDiverged, "replay diverged", &difference)
}

/// Each call must equal its entry in call id, tool, tool digest, arguments digest and batch shape (W-173).
fn compare(hop: &Hop, turn: &Turn, request: &Request, counted: u32) -> Result<(), Out> {
    if turn.batch != request.batch || turn.calls.len() != request.calls.len() {
        let (first, asked) = (hop.call(turn.calls[0]), request.calls[0].arguments.digest());
        return Err(diverged("the batch has another shape", first, first.asked, Some(asked)));
    }
    for ((id, asked), n) in turn.calls.iter().zip(&request.calls).zip(counted + 1..) {
        let call = hop.call(*id);
        let digest = asked.arguments.digest();
        if call.identity != Identity::main(n) {
            return Err(diverged("the call has another number", call, call.asked, Some(digest)));
        }
        if call.tool.name != asked.tool {
            return Err(diverged("another tool was called", call, call.asked, Some(digest)));
        }
        let sealed = hop.pinned.tools.get(&asked.tool).map_or(Digest::ZERO, |tool| tool.spec.digest());
        if call.tool.digest != sealed {
            return Err(diverged("the tool is another", call, call.tool.digest, Some(sealed)));
        }
        if call.asked != digest {
            return Err(diverged("the arguments differ", call, call.asked, Some(digest)));
        }
    }
    Ok(())
}

/// The answer to a turn whose calls have all ended. `hop_entry` is the entry made just now, if this is the hop's first
/// answer; a journaled one stands in the turn.
pub(super) async fn answer(
    hop: &mut Hop,
    turn: &Turn,
    counted: u32,
    hop_entry: Option<HopEntry>,
) -> Result<Answer, Out> {
    let entry = hop_entry.or(turn.hop);
    let mut replies = Vec::with_capacity(turn.calls.len());
    let mut now = Time::EPOCH;
    for id in &turn.calls {
        let call = hop.call(*id).clone();
        now = now.max(call.outcome().map_or(Time::EPOCH, |outcome| outcome.at));
        replies.push(reply(hop, &call).await?);
    }
    let replies = match turn.batch {
        true => Replies::Batch(replies),
        false => Replies::One(replies.pop().expect("a turn has at least one call")),
    };
    Ok(Answer {
        now: entry.map_or(now, |entry| entry.now),
        entropy: entry.map(|entry| entry.entropy.0),
        next: u64::from(counted) + 1,
        replies,
    })
}

async fn reply(hop: &mut Hop, call: &Call) -> Result<Reply, Out> {
    let outcome = call.outcome().expect("only ended turns are answered").clone();
    let body = match outcome.body {
        Some(body) => text(hop, body.digest).await?,
        None => "null".to_owned(),
    };
    let told = match outcome.status {
        OutcomeStatus::Ok => Outcome::Ok { result: body },
        OutcomeStatus::Denied => Outcome::Denied(refused(call, &body, None)),
        OutcomeStatus::Error => Outcome::Error(refused(call, &body, applied(&outcome))),
    };
    let edited = match call.edited {
        true => Some(text(hop, call.arguments.digest).await?),
        false => None,
    };
    Ok(Reply {
        n: u64::from(call.identity.n),
        call: call.whole_id(),
        approval: call.approval.map(|id| id.to_string()),
        outcome: told,
        edited,
    })
}

/// Whether an effect happened although its call failed; none where nobody knows.
pub(super) fn applied(outcome: &protocol::call::Outcome) -> Option<bool> {
    match outcome.applied {
        protocol::call::Applied::Yes => Some(true),
        protocol::call::Applied::No => Some(false),
        protocol::call::Applied::Unknown => None,
    }
}

pub(super) async fn text(hop: &mut Hop, digest: Digest) -> Result<String, Out> {
    let bytes = hop.body(digest).await?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Out::fail(Code::CheckpointInvalid, "checkpoint invalid: a body is no text"))
}

/// A stored refusal, as it was told (W-178).
fn refused(call: &Call, body: &str, applied: Option<bool>) -> Refusal {
    let (code, told) = told(call, body);
    Refusal {
        code: code.as_str().to_owned(),
        message: told.message,
        detail: told.detail.map(|d| d.get().to_owned()),
        applied,
    }
}

/// What was told of a call that ended without a result.
#[derive(Deserialize, Default)]
pub(super) struct Told {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) detail: Option<Box<serde_json::value::RawValue>>,
}

/// Reads the body of such an end.
pub(super) fn told(call: &Call, body: &str) -> (Code, Told) {
    let code = call.outcome().and_then(|outcome| outcome.code).unwrap_or(Code::HandlerError);
    let mut told: Told = serde_json::from_str(body).unwrap_or_default();
    if told.message.is_empty() {
        told.message = code.title();
    }
    (code, told)
}

/// A result as canonical JSON, or why it is none.
pub(super) fn canonical(text: &str) -> Result<Canonical, String> {
    protocol::json::canonicalize(text.as_bytes()).map_err(|fault| fault.to_string())
}
