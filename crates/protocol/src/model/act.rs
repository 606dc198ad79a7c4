//! Moves as the commands that a worker, a person, a server would give, and what they learn from the answer.

use super::home::{self, Home, TTL, arguments, body, caller};
use super::moves::{Act, Move};
use super::state::{Given, State, Worker};
use super::world::{Script, World};
use crate::able::Able;
use crate::approval::Verdict;
use crate::call::{self, Applied, Call, Outcome, OutcomeStatus, RecoveryClass};
use crate::code::Code;
use crate::command::{
    self, Answer, Answered, AwaitSignal, Cancel, Claim, Command, Concluded, Conclusion, Decide, Due, Edit, Found, Hop,
    NewCheckpoint, Patience, PauseRun, Progress, Reach, Recover, Renew, Renewed, SendSignal, Taker, Target, Timer,
};
use crate::journal::{Entropy, Entry, Other};
use crate::refusal::Refusal;
use crate::run::Failure;
use crate::signal::Awaited;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// What signals are sent to and waited for by.
const SIGNAL: &str = "go";
const PATIENCE: Patience =
    Patience { continuations: 3, beyond_tool_limit: Duration::from_secs(60), pin_grace: Duration::ZERO };

/// When a call that is in flight has had all its time.
pub(super) fn over_time(call: &Call) -> Option<Time> {
    let limit = Duration::from_millis(u64::from(call.timeout_ms)) + PATIENCE.beyond_tool_limit;
    call.gate().filter(|_| call.in_flight()).map(|gate| gate.at + limit)
}

/// Gives the command of a move.
pub(super) fn act(home: &Home, world: &World, state: &mut State, by: Move) -> Given {
    match by {
        Move::Claim { worker } => claim(home, state, worker, state.run().seq),
        Move::OldMessage { worker, before } => {
            let seq = i64::from(state.run().seq) - i64::from(before);
            claim(home, state, worker, u32::try_from(seq).unwrap_or(u32::MAX))
        }
        Move::Renew { worker } => renew(home, state, worker),
        Move::Hop { worker, act } => hop(home, world, state, worker, act),
        Move::Vote { .. } | Move::Edit { .. } | Move::Settle { .. } => {
            let decide = decision(world, state, by);
            state.give(home, Command::Decide(Box::new(decide)))
        }
        Move::Send { signal } => {
            let send = SendSignal {
                by: caller("ana"),
                to: Target::Name { run: state.run().id, name: SIGNAL.to_owned() },
                id: signal.to_string(),
                payload: body("{}"),
                text: arguments(false),
                taker: None,
            };
            state.give(home, Command::Send(Box::new(send)))
        }
        Move::Cancel => {
            let cancel = Cancel { by: caller("ana"), run: state.run().id, reason: None };
            state.give(home, Command::Cancel(cancel))
        }
        Move::Pause => state.give(home, Command::Pause(pause(state))),
        Move::Resume => state.give(home, Command::Resume(pause(state))),
        Move::Expire { call } => {
            let id = state.calls[usize::from(call)].id;
            let wait = state.rows.waits.iter().find(|wait| wait.call == id).expect("offered for a wait").id;
            state.give(home, Command::Expire { run: state.run().id, wait })
        }
        Move::Recover => {
            let recover =
                Recover { run: state.run().id, reach: Reach::Lapsed, patience: PATIENCE, able: Able::Everything };
            state.give(home, Command::Recover(recover))
        }
        Move::Lookup { call } => {
            let found = found(state, usize::from(call));
            state.give(home, Command::Found(Box::new(found)))
        }
        Move::Tick | Move::Policy(_) | Move::Crash { .. } | Move::Land { .. } | Move::Miss { .. } => {
            unreachable!("{by} is no command")
        }
    }
}

fn claim(home: &Home, state: &mut State, worker: u8, seq: u32) -> Given {
    let taker = Taker { worker: home::worker(worker), ttl: TTL, able: Able::Everything };
    let given = state.give(home, Command::Claim(Claim { run: state.run().id, seq, taker }));
    if given.answer.is_ok() {
        let token = Some(state.run().fence);
        state.workers[usize::from(worker)] = Worker { token, ..Worker::default() };
    }
    given
}

/// A renewal changes a claim or nothing, and writes no event.
fn renew(home: &Home, state: &mut State, worker: u8) -> Given {
    let token = state.workers[usize::from(worker)].token.expect("offered to whoever has one");
    let renew = Renew { worker: home::worker(worker), ttl: TTL, claims: vec![(state.run().id, token)] };
    let (registry, now) = (home.registry(state.policy), state.now);
    let before = state.rows.run.claim().map(|claim| claim.deadline);
    let answer = match crate::decide::renew(&mut state.rows.run, token, &renew, registry, now) {
        Renewed::Until { .. } => Ok(Answer::Stored { run: Box::new(state.run().clone()) }),
        Renewed::StaleClaim => Err(Refusal::new(Code::StaleClaim, "renewed in vain")),
    };
    let saved = state.rows.run.claim().map(|claim| claim.deadline) != before;
    Given { answer, entered: Vec::new(), saved }
}

fn hop(home: &Home, world: &World, state: &mut State, worker: u8, act: Act) -> Given {
    let token = state.workers[usize::from(worker)].token.expect("offered to whoever has one");
    let mut progress = match act {
        Act::Enter => enter(home, world, state),
        _ => Progress::default(),
    };
    progress.base = state.run().journal.len;
    progress.conclusions = conclusion(world, state, act).into_iter().collect();
    progress.taken = taken(state, act);
    let does = match act {
        Act::Dispatch { call, edited } => command::Act::Dispatch {
            call: state.calls[usize::from(call)].id,
            arguments: arguments(edited),
            operands: Vec::new(),
            grant: home::grant(),
        },
        Act::Hold { resource } => command::Act::Hold { resource: resource.to_string(), checkpoint: checkpoint(state) },
        Act::Warm => command::Act::Warm,
        Act::Park => command::Act::Park { checkpoint: checkpoint(state), mode: world.mode, taker: None },
        Act::HandBack => command::Act::HandBack { checkpoint: None },
        Act::Finish => command::Act::Finish { result: body("2") },
        Act::Fail => command::Act::Fail(Failure { code: Code::StepFailed, message: "no".to_owned(), detail: None }),
        Act::Acknowledge => command::Act::Acknowledge,
        _ => command::Act::Record,
    };
    let run = state.run().id;
    let given = state.give(home, Command::Hop(Box::new(Hop { run, token, progress, act: does })));
    let passed = match (act, &given.answer) {
        (Act::Dispatch { call, .. }, Ok(Answer::Dispatched { .. })) | (Act::Again { call }, Ok(_)) => Some(call),
        _ => None,
    };
    if let (Act::Hold { resource }, Ok(_)) = (act, &given.answer) {
        state.manager.call(resource);
    }
    if let Some(call) = passed.map(usize::from) {
        state.outside[call].start();
        state.workers[usize::from(worker)].started[call] = true;
    }
    given
}

/// The whole program is one batch of calls.
fn enter(home: &Home, world: &World, state: &mut State) -> Progress {
    let (run, now) = (state.run().clone(), state.now);
    let entropy = Entropy([7; 32]);
    let start = Other::Start { pattern: run.pattern.digest, input: run.input.digest, now, entropy };
    let mut progress = Progress { entries: vec![Entry::Other(start)], ..Progress::default() };
    for (n, script) in world.calls.iter().enumerate() {
        let class = match script {
            Script::Write { class, .. } => Some(*class),
            Script::Sleep { .. } | Script::Signal => None,
        };
        let call = home.call(run.id, n as u32, class, now, &mut state.ids);
        match *script {
            Script::Write { ask: Some(ask), .. } => progress.asks.push(home.question(&call, ask, &mut state.ids)),
            Script::Write { ask: None, .. } => {}
            Script::Signal => progress.signals.push(AwaitSignal {
                wait: state.ids.mint(),
                call: call.id,
                awaited: Arc::new(Awaited { name: SIGNAL.to_owned(), schema: None }),
            }),
            Script::Sleep { seconds } => progress.timers.push(Timer {
                wait: state.ids.mint(),
                call: call.id,
                due: Due::In(Duration::from_secs(seconds)),
            }),
        }
        progress.entries.push(Entry::Call(Box::new(call)));
    }
    progress
}

fn conclusion(world: &World, state: &State, act: Act) -> Option<Conclusion> {
    let (call, end) = match act {
        Act::Report { call } => {
            let landed = state.outside[usize::from(call)].landed > 0;
            (call, Concluded::Ended(if landed { ok() } else { error(Code::HandlerError) }))
        }
        Act::Unsure { call } => {
            let row = &state.calls[usize::from(call)];
            let manual = matches!(world.calls[usize::from(call)], Script::Write { class: RecoveryClass::Manual, .. });
            let ask = manual || matches!(row.state, call::State::Ambiguous(_));
            (call, Concluded::Ambiguous { ask, seen: None })
        }
        Act::Again { call } => (call, Concluded::Attempt),
        Act::Ask { call } => (call, Concluded::Ended(truth(state, usize::from(call)))),
        Act::Deny { call } => (call, Concluded::Ended(denied())),
        Act::Wake { call } => (call, Concluded::Ended(ok())),
        _ => return None,
    };
    Some(Conclusion { call: state.calls[usize::from(call)].id, end })
}

fn taken(state: &State, act: Act) -> Vec<crate::id::WaitId> {
    let over = |id| state.calls.iter().any(|call| call.id == id && call.is_ended());
    match act {
        Act::Take => state.rows.waits.keys(|wait| wait.is_ended() && over(wait.call)),
        Act::Wake { call } => state.rows.waits.keys(|wait| wait.call == state.calls[usize::from(call)].id),
        _ => Vec::new(),
    }
}

/// What the tool says when it is asked.
fn truth(state: &State, call: usize) -> Outcome {
    if state.outside[call].landed > 0 { ok() } else { error(Code::EffectNotExecuted) }
}

fn ok() -> Outcome {
    let body = Some(body("{}").body);
    Outcome { status: OutcomeStatus::Ok, code: None, applied: Applied::Yes, body, gate: None, at: Time::EPOCH }
}

fn error(code: Code) -> Outcome {
    Outcome { status: OutcomeStatus::Error, code: Some(code), applied: Applied::No, body: None, ..ok() }
}

fn denied() -> Outcome {
    Outcome { status: OutcomeStatus::Denied, code: Some(Code::ApprovalRejected), applied: Applied::No, ..ok() }
}

fn checkpoint(state: &State) -> NewCheckpoint {
    let journal = state.run().journal;
    NewCheckpoint { schema: "stasis.script.v1".to_owned(), body: body("checkpoint"), journal, snapshot: None }
}

fn pause(state: &State) -> PauseRun {
    PauseRun { by: caller("ana"), run: state.run().id, reason: None }
}

fn decision(world: &World, state: &State, by: Move) -> Decide {
    let (person, call, verdict, edited) = match by {
        Move::Vote { person, call, verdict } => (person, call, verdict, false),
        Move::Edit { person, call } => (person, call, Verdict::Approve, true),
        Move::Settle { call, verdict } => (0, call, verdict, false),
        _ => unreachable!("{by} is no decision"),
    };
    let at = usize::from(call);
    let question = if matches!(by, Move::Settle { .. }) { state.settling(at) } else { state.question(at) };
    let question = question.expect("offered for a question");
    let edit = edited.then(|| Edit {
        arguments: arguments(true),
        judged_by: question.binding.tool_digest,
        fault: None,
        operands: Vec::new(),
    });
    let answer = (verdict == Verdict::Happened).then(|| Answered { body: body("{}"), fault: None });
    Decide {
        by: caller(world.people[usize::from(person)]),
        approval: question.id,
        verdict,
        arguments_digest: Some(question.arguments.digest),
        edit,
        answer,
        reason: Some(body("because")),
        unrenderable: false,
        taker: None,
    }
}

/// What a server finds out about a call whose hop is gone; nothing while a handler may still run.
fn found(state: &State, call: usize) -> Found {
    let known = state.calls[call].recovery == RecoveryClass::Lookup && state.outside[call].running == 0;
    let outcome = known.then(|| truth(state, call));
    let (run, call) = (state.run().id, state.calls[call].id);
    Found { run, call, by: None, outcome, patience: PATIENCE, bodies: Vec::new() }
}
