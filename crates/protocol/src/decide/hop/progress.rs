//! What rides with a hop's durable commands: journal entries, questions, outcomes, charges (R-334, C-99).
//!
//! Invariant: the journal stays a prefix without holes; an entry is durable no later than anything that rests on it.

use crate::approval::{self, Approval, Binding};
use crate::call::{self, Applied, OutcomeStatus, State};
use crate::code::Code;
use crate::command::{Ask, AwaitSignal, Concluded, Conclusion, Member, Progress};
use crate::decide::{Cx, job, settle, signal, step};
use crate::event::{Facts, Kind};
use crate::journal::{Entry, Row};
use crate::refusal::Refusal;
use crate::rows::{Change, LogLine};
use crate::tool::Effect;
use crate::wait::{self, Owner, Wait};
use std::sync::Arc;

/// Applies a hop's progress. Either all of it is legal, or the command is refused whole.
pub(super) fn apply(change: &mut Change, progress: Progress, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let stored = change.run().journal.len;
    if !progress.entries.is_empty() && progress.base != stored {
        let detail = format!("the journal has {stored} entries, the hop goes on from {}", progress.base);
        return Err(Refusal::new(Code::StaleHop, detail));
    }
    change.rows.run.budget.active_us += progress.charge.active;
    for (kind, facts) in progress.nodes {
        if !told_by_steps(kind) {
            return Err(Refusal::new(Code::InvalidRequest, format!("a step does not write `{kind}`")));
        }
        change.event(kind, facts);
    }
    for body in progress.bodies {
        change.rows.run.budget.body_bytes += u64::from(body.body.len);
        change.bodies.push(body);
    }
    for entry in progress.entries {
        enter(change, entry)?;
    }
    for call in progress.engine_calls {
        enter_own(change, call);
    }
    for wait in progress.signals {
        await_signal(change, wait, cx)?;
    }
    for wait in progress.timers {
        open_timer(change, wait, cx)?;
    }
    for submit in progress.jobs {
        may_wait(change, submit.call, false)?;
        // One of its rivals came first.
        if has_ended(change, submit.call) {
            continue;
        }
        if !change.rows.jobs.iter().any(|job| (job.call, job.place) == (submit.call, submit.place)) {
            room_for_a_wait(change, Code::LimitExceeded, cx)?;
        }
        job::submit(change, submit, cx)?;
    }
    for ask in progress.asks {
        if ask.kind == approval::Kind::Settle {
            let detail = "a settle question is asked by what makes its call ambiguous";
            return Err(Refusal::new(Code::InvalidRequest, detail));
        }
        publish(change, ask, cx)?;
    }
    for conclusion in progress.conclusions {
        conclude(change, conclusion, cx)?;
    }
    for wait in progress.taken {
        if change.rows.waits.get(wait).is_some_and(Wait::is_ended) {
            change.rows.waits.remove(wait);
        }
    }
    // Last: a call that ends in this commit waits for nothing of its own any more.
    for rejoin in progress.rejoins {
        job::rejoin(change, rejoin)?;
    }
    log(change, progress.log_base, progress.log);
    Ok(())
}

/// What a step tells of itself. Approvals, waits and ends are told by the decisions about them.
fn told_by_steps(kind: Kind) -> bool {
    matches!(kind, Kind::NodeEntered | Kind::NodeWaiting | Kind::NodeEnded | Kind::NodeFailed | Kind::SnapshotUnused)
}

/// A call that the engine makes itself: no entry of the journal, and not counted (C-235).
pub(in crate::decide) fn enter_own(change: &mut Change, call: call::Call) {
    let facts = Facts::new()
        .with("call", call.id)
        .with("identity", &call.identity)
        .with("tool", &call.tool.name)
        .with("arguments_digest", call.asked);
    change.rows.calls.add(call);
    change.event(Kind::CallEntered, facts);
}

fn enter(change: &mut Change, entry: Entry) -> Result<(), Refusal> {
    let position = change.run().journal.len;
    change.rows.run.journal = entry.extend(change.run().journal);
    match entry {
        Entry::Other(other) => {
            change.journal.push(Row { run: change.run().id, position, entry: other });
        }
        Entry::Call(mut call) => {
            let run = &mut change.rows.run;
            if run.budget.calls >= run.settings.max_calls {
                let detail = format!("calls exceeded: {} > {}", run.budget.calls + 1, run.settings.max_calls);
                return Err(Refusal::new(Code::CallBudgetExceeded, detail));
            }
            run.budget.calls += 1;
            call.position = Some(position);
            // A call that rides with a later commit was made before it, and may have ended before it.
            call.at = call.at.min(change.now);
            call.state = State::Entered;
            let facts = Facts::new()
                .with("call", call.id)
                .with("identity", &call.identity)
                .with("tool", &call.tool.name)
                .with("arguments_digest", call.asked);
            change.rows.calls.add(*call);
            change.event(Kind::CallEntered, facts);
        }
    }
    Ok(())
}

/// Publishes a question: approval, wait and call change together (R-164, C-134).
pub(in crate::decide) fn publish(change: &mut Change, ask: Ask, cx: &Cx<'_>) -> Result<(), Refusal> {
    let Some(call) = change.rows.calls.get(ask.call).cloned() else {
        return Err(Refusal::new(Code::NotFound, format!("there is no open call {}", ask.call)));
    };
    let settles = ask.kind == approval::Kind::Settle;
    // A call has one open question at a time: a second one could be answered otherwise than the first.
    let open =
        call.approval.and_then(|id| change.rows.approvals.get(id)).is_some_and(|a| a.is_pending() || a.is_open_yes());
    let ended = has_ended(change, ask.call);
    let askable = match (&call.state, &ask.member) {
        (State::Entered | State::Asked, None) => !settles && !open && !ended,
        (State::Entered | State::Asked, Some(_)) => {
            ask.kind == approval::Kind::Gate && call.approval.is_none() && call.effect != Effect::Write
        }
        (State::Ambiguous(_), None) => settles && call.settle.is_none(),
        (State::Ambiguous(_), Some(_)) | (State::Dispatched(_) | State::Ended(_), _) => false,
    };
    if !askable {
        return Err(Refusal::new(Code::AlreadyDispatched, format!("{} cannot be asked for", ask.call)));
    }
    // A kept signal for one of its rivals came first, or a time.
    if ask.member.is_some() && ended {
        return Ok(());
    }
    room_for_a_wait(change, Code::ApprovalUnavailable, cx)?;
    let own = Member { tool: call.tool.clone(), arguments: call.arguments };
    let (asked, member) = (ask.member.as_ref().map_or(call.asked, |m| m.arguments.digest), ask.member.is_some());
    let Member { tool, arguments } = ask.member.unwrap_or(own);
    let (run, now) = (change.run(), change.now);
    let lease = (!settles).then(|| ask.obligation.lease.min(crate::limits::APPROVAL_LEASE_MAX));
    // C-194: an approval never outlives its run's deadline.
    let expires_at = lease.map(|lease| (now + lease).min(run.deadline.unwrap_or(now + lease)));
    let binding = Binding {
        schema: Binding::SCHEMA,
        kind: ask.kind,
        run: run.id,
        hop: run.seq,
        call: call.identity.text(run.id),
        parent: None,
        tool: tool.name.clone(),
        tool_version: tool.version,
        tool_digest: tool.digest,
        arguments: arguments.digest,
        revision: 1,
        operands: ask.operands,
        plan: run.plan,
        policy: ask.policy,
        obligation: ask.obligation.digest(),
        requester: run.requester.subject.clone(),
        acts_for: run.requester.acts_for.clone(),
        created_at: now,
        lease: lease.map(|l| l.as_millis() as u64),
    };
    let approval = Approval {
        id: ask.id,
        run: run.id,
        wait: ask.wait,
        call: ask.call,
        binding_digest: binding.digest(),
        binding: Arc::new(binding),
        arguments,
        asked_arguments: asked,
        obligation: ask.obligation,
        claim: ask.claim,
        form: ask.form,
        expires_at,
        unrenderable: ask.unrenderable,
        status: approval::Status::Pending,
        votes: Vec::new(),
        answer: None,
    };
    let facts = Facts::new()
        .with("approval", ask.id)
        .with("kind", ask.kind.as_str())
        .with("call", ask.call)
        .with("tool", &tool.name)
        .with("arguments_digest", arguments.digest)
        .maybe("expires_at", expires_at);
    let wait = Wait {
        id: ask.wait,
        run: run.id,
        owner: Owner::Approval(ask.id),
        call: ask.call,
        state: wait::State::Live,
        since: now,
        due_at: expires_at,
    };
    change.rows.waits.add(wait);
    change.rows.approvals.add(approval);
    let row = change.rows.calls.edit(ask.call).expect("found above");
    if settles {
        row.settle = Some(ask.id);
    } else if member {
        row.state = State::Asked;
    } else {
        row.rounds += u8::from(row.approval.is_some());
        row.approval = Some(ask.id);
        row.state = State::Asked;
    }
    change.event(Kind::ApprovalRequested, facts);
    Ok(())
}

/// what waits for a time or a signal counts as a question does.
fn room_for_a_wait(change: &Change, code: Code, cx: &Cx<'_>) -> Result<(), Refusal> {
    let (open, allowed) = (change.rows.waits.iter().count(), cx.limits.open_waits as usize);
    let detail = || format!("open waits exceeded: {} > {allowed}", open + 1);
    if open < allowed { Ok(()) } else { Err(Refusal::new(code, detail())) }
}

/// Whether one of the call's waits has ended already. A question that is asked anew has its old wait still.
fn has_ended(change: &Change, id: crate::id::CallId) -> bool {
    let question = change.rows.calls.get(id).and_then(|call| call.approval).map(Owner::Approval);
    let mut of_call = change.rows.waits.iter().filter(|wait| wait.call == id);
    of_call.any(|wait| wait.is_ended() && Some(&wait.owner) != question.as_ref())
}

/// Whether a signal or a time may be waited for by this call: all its waits open together, its question last. The
/// question whether an effect happened stands beside the timer of the next look.
fn may_wait(change: &mut Change, id: crate::id::CallId, time: bool) -> Result<(), Refusal> {
    let Some(call) = change.rows.calls.edit(id) else {
        return Err(Refusal::new(Code::NotFound, format!("there is no open call {id}")));
    };
    let refusal = match call.state {
        State::Entered => {
            call.state = State::Asked;
            return Ok(());
        }
        State::Asked if call.approval.is_none() => return Ok(()),
        // A call that waits to be looked up again stays ambiguous (C-236).
        State::Dispatched(_) | State::Ambiguous(_) if time => return Ok(()),
        State::Asked => Refusal::new(Code::WaitUnsafe, format!("{id} waits for a person already")),
        State::Dispatched(_) | State::Ambiguous(_) => {
            Refusal::new(Code::AlreadyDispatched, format!("{id} was dispatched and waits for no signal"))
        }
        State::Ended(_) => Refusal::new(Code::AlreadyCompleted, format!("{id} has its outcome already")),
    };
    Err(refusal)
}

/// Opens a wait for a signal. The oldest kept one that fits ends it at once.
fn await_signal(change: &mut Change, asked: AwaitSignal, cx: &Cx<'_>) -> Result<(), Refusal> {
    may_wait(change, asked.call, false)?;
    // A kept signal for one of its rivals came first.
    if has_ended(change, asked.call) {
        return Ok(());
    }
    room_for_a_wait(change, Code::LimitExceeded, cx)?;
    let (id, call) = (asked.wait, asked.call);
    let facts = Facts::new().with("wait", id).with("call", call).with("name", &asked.awaited.name);
    change.rows.waits.add(Wait {
        id,
        run: change.run().id,
        owner: Owner::Signal(asked.awaited),
        call,
        state: wait::State::Live,
        since: cx.now,
        due_at: None,
    });
    change.event(Kind::WaitOpened, facts);
    signal::take_kept(change, id);
    Ok(())
}

/// A timer is its own owner; its due time is fixed now.
fn open_timer(change: &mut Change, timer: crate::command::Timer, cx: &Cx<'_>) -> Result<(), Refusal> {
    let due_at = match timer.due {
        crate::command::Due::In(span) => cx.now + span,
        crate::command::Due::At(at) => at,
    };
    may_wait(change, timer.call, true)?;
    // What it would limit has ended already.
    if has_ended(change, timer.call) {
        return Ok(());
    }
    room_for_a_wait(change, Code::LimitExceeded, cx)?;
    let wait = Wait {
        id: timer.wait,
        run: change.run().id,
        owner: Owner::Timer(timer.wait),
        call: timer.call,
        state: wait::State::Live,
        since: cx.now,
        due_at: Some(due_at),
    };
    let (id, call) = (wait.id, wait.call);
    change.rows.waits.add(wait);
    change.event(Kind::WaitOpened, Facts::new().with("wait", id).with("call", call).with("due_at", due_at));
    // Due already: it has ended as it begins.
    if cx.now >= due_at {
        step::end_wait(change, id, crate::digest::Digest::of(id.to_string()));
    }
    Ok(())
}

fn conclude(change: &mut Change, conclusion: Conclusion, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let id = conclusion.call;
    let Some(call) = change.rows.calls.get(id) else {
        return Err(Refusal::new(Code::AlreadyCompleted, format!("{id} has its outcome already")));
    };
    match conclusion.end {
        Concluded::Ended(outcome) => {
            check_end(change, call, &outcome)?;
            let gate = call.gate().cloned().or(outcome.gate);
            // What the guest was told is what is kept; a worker's reading of the clock is never ahead of the ledger's, and no
            // call ends before it was made or passed its gate.
            let began = gate.as_ref().map_or(call.at, |gate| gate.at.max(call.at));
            let at = outcome.at.min(change.now).max(began);
            step::conclude(change, id, call::Outcome { gate, at, ..outcome });
        }
        Concluded::Ambiguous { ask, seen } => {
            if call.effect != Effect::Write || !matches!(call.state, State::Dispatched(_) | State::Ambiguous(_)) {
                return Err(Refusal::new(Code::NotDispatched, format!("{id} cannot be ambiguous")));
            }
            settle::ambiguous(change, id, seen);
            if ask {
                settle::ask(change, id, cx)?;
            }
        }
        Concluded::Attempt => attempt(change, id)?,
    }
    Ok(())
}

/// C-118 and the invariant of the call row: of a `write`, an outcome but `denied` only after its dispatch gate; `denied`
/// only before it. An attempt that failed says nothing of the one before it: only one that is known to have done it, or
/// a finding that none did, ends an ambiguous call.
pub(in crate::decide) fn check_end(change: &Change, call: &call::Call, outcome: &call::Outcome) -> Result<(), Refusal> {
    let dispatched = matches!(call.state, State::Dispatched(_) | State::Ambiguous(_));
    let question = call.approval.and_then(|id| change.rows.approvals.get(id));
    let found_out = outcome.applied == Applied::Yes || outcome.code == Some(Code::EffectNotExecuted);
    match outcome.status {
        _ if call.is_ended() => {
            Err(Refusal::new(Code::AlreadyCompleted, format!("{} has its outcome already", call.id)))
        }
        OutcomeStatus::Denied if dispatched => {
            Err(Refusal::new(Code::AlreadyDispatched, format!("{} was dispatched and cannot be denied", call.id)))
        }
        OutcomeStatus::Error if matches!(call.state, State::Ambiguous(_)) && !found_out => {
            Err(Refusal::new(Code::EffectAmbiguous, format!("what became of {} is still unknown", call.id)))
        }
        OutcomeStatus::Ok | OutcomeStatus::Error if !dispatched => {
            let gate_question = question.is_some_and(|a| a.kind() == approval::Kind::Gate && !a.is_pending());
            let waited = change.rows.waits.iter().any(|w| w.call == call.id && w.is_ended());
            let free = call.state == State::Entered || gate_question || (call.approval.is_none() && waited);
            if free && call.effect != Effect::Write {
                Ok(())
            } else {
                Err(Refusal::new(Code::NotDispatched, format!("{} never passed its dispatch gate", call.id)))
            }
        }
        _ => Ok(()),
    }
}

/// One more start under the same key, or one more lookup, recorded before it is made (C-233).
fn attempt(change: &mut Change, id: crate::id::CallId) -> Result<(), Refusal> {
    let row = change.rows.calls.edit(id).expect("found by the caller");
    let (State::Dispatched(gate) | State::Ambiguous(gate)) = &mut row.state else {
        return Err(Refusal::new(Code::NotDispatched, format!("{id} never passed its dispatch gate")));
    };
    gate.attempt = gate.attempt.saturating_add(1);
    let facts =
        Facts::new().with("call", id).number("attempt", gate.attempt).with("arguments_digest", row.arguments.digest);
    change.event(Kind::CallDispatched, facts);
    Ok(())
}

/// Appends the program's log; what a replay prints again is dropped (W-177).
fn log(change: &mut Change, base: u32, lines: Vec<String>) {
    let (run, now) = (change.run().id, change.now);
    for (n, text) in (base..).zip(lines) {
        if n == change.run().log_lines {
            change.log.push(LogLine { run, n, at: now, text });
            change.rows.run.log_lines += 1;
        }
    }
}
