//! Every command, as somebody gives it to a run of any status.
//!
//! [`named`] takes commands and acts apart: a new one is a compile error there until it has a row.

use super::statuses::{DEADLINE, Scene};
use crate::world::{TTL, World, args, caller, denied, failure, grant, ok, person, result, worker};
use protocol::able::Able;
use protocol::approval::Verdict;
use protocol::call::RecoveryClass;
use protocol::code::Code;
use protocol::command::{
    Act, Answer, AskToStop, Cancel, Claim, Command, Concluded, Conclusion, Extend, Found, Hop, JobAct, JobCommand,
    Opened, Progress, Reach, Read, Recover, Renew, Renewed, Reported, StopGate, Taker, Target,
};
use protocol::decide;
use protocol::journal::Entry;
use protocol::json::canonicalize;
use protocol::obligation::Subject;
use protocol::refusal::Refusal;
use protocol::rows::Debt;
use protocol::run::{Status, WaitMode};
use protocol::tool::Effect;
use std::time::Duration;

/// A command with what has to be so before it.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Its row in the specification's table of commands, if it may make edges.
    pub(super) spec: Option<&'static str>,
    pub(super) ready: fn(&mut World, &Scene),
    pub(super) give: Give,
    pub(super) stopping: Stopping,
}

type Give = fn(&mut World, &Scene) -> Given;

pub(super) enum Given {
    Command(Box<Command>),
    /// A renewal is decided beside the commands (R-101).
    Renewed(Result<Answer, Refusal>),
}

/// What a stopping status makes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopping {
    /// R-20
    Refuses,
    /// R-21
    Takes,
    /// It is not about hops.
    Either,
}

impl Row {
    const fn new(name: &'static str, spec: &'static str, give: Give) -> Row {
        Row { name, spec: Some(spec), ready: |_, _| (), give, stopping: Stopping::Either }
    }

    /// One that the table of commands does not have.
    const fn beside(name: &'static str, give: Give) -> Row {
        Row { name, spec: None, ready: |_, _| (), give, stopping: Stopping::Either }
    }

    const fn after(self, ready: fn(&mut World, &Scene)) -> Row {
        Row { ready, ..self }
    }

    const fn stopping(self, stopping: Stopping) -> Row {
        Row { stopping, ..self }
    }
}

const CALLS: &str = "intend, dispatch gate, outcome";
const PARKS: &str = "park; hand back";
const ENDS: &str = "finish; fail";
const HOLDS: &str = "hold, warm";
const STOPS: &str = "acknowledge, attest";
const JOBS: &str = "submit, claim, heartbeat, complete, fail, ack-cancel (job)";
const WAITS: &str = "send (signal); fire (timer)";

pub(super) const COMMANDS: &[Row] = &[
    Row::beside("admit, again", again),
    Row::new("claim", "claim; renew", claim).stopping(Stopping::Refuses),
    Row::beside("renew", renew).stopping(Stopping::Takes),
    Row::new("intend", CALLS, intend).stopping(Stopping::Refuses),
    Row::new("dispatch gate", CALLS, gate).stopping(Stopping::Refuses),
    Row::new("outcome", CALLS, outcome).stopping(Stopping::Takes),
    Row::new("hold", HOLDS, hold).stopping(Stopping::Refuses),
    Row::new("warm", HOLDS, warm).stopping(Stopping::Refuses),
    Row::new("park", PARKS, park).stopping(Stopping::Refuses),
    Row::new("park, answered before", PARKS, park).after(approve_if_active).stopping(Stopping::Refuses),
    Row::new("hand back", PARKS, hand_back).stopping(Stopping::Refuses),
    Row::new("finish", ENDS, finish).stopping(Stopping::Refuses),
    Row::new("fail", ENDS, fail).stopping(Stopping::Refuses),
    Row::new("fail, a call in flight", ENDS, fail).after(dispatch_if_running).stopping(Stopping::Refuses),
    Row::new("cancel tool", CALLS, cancel_tool).stopping(Stopping::Takes),
    Row::new("acknowledge", STOPS, acknowledge).stopping(Stopping::Takes),
    Row::new("acknowledge, the last", STOPS, acknowledge).after(end_if_stopping).stopping(Stopping::Takes),
    Row::new("attest", STOPS, attest).stopping(Stopping::Takes),
    Row::new("decide", "decide", approve),
    Row::beside("extend", extend),
    Row::new("fire, due", WAITS, fire).after(|world, _| world.pass(MINUTE)),
    Row::new("fire, early", WAITS, fire),
    Row::new("send", WAITS, send).stopping(Stopping::Refuses),
    Row::new("submit", JOBS, submit).stopping(Stopping::Refuses),
    Row::new("claim a job", JOBS, claim_job),
    Row::new("heartbeat", JOBS, |world, _| agent(world, JobAct::Heartbeat { token: 1, progress: None })),
    Row::new("complete", JOBS, complete),
    Row::new("ack-cancel", JOBS, |world, _| agent(world, JobAct::AckCancel { token: 1 })),
    Row::new("miss, due", JOBS, miss).after(|world, _| world.pass(MINUTE)),
    Row::new("miss, early", JOBS, miss),
    Row::new("cancel", "cancel", cancel),
    Row::new("pause", "pause, resume; move", |world, _| command(Command::Pause(world.pausing()))),
    Row::new("resume", "pause, resume; move", |world, _| command(Command::Resume(world.pausing())))
        .after(|world, _| drop(world.pause())),
    Row::new("move", "pause, resume; move", |world, _| command(Command::Move(Box::new(world.moving(2))))),
    Row::new("move, paused", "pause, resume; move", |world, _| command(Command::Move(Box::new(world.moving(2)))))
        .after(|world, _| drop(world.pause())),
    Row::new("recover", "recover", recover),
    Row::new("recover, lapsed", "recover", recover).after(|world, _| world.pass(TTL)),
    Row::new("recover, lapsed, asked alone", "recover", recover).after(lapse_asked_alone),
    Row::new("recover, lapsed, in flight", "recover", recover).after(lapse_in_flight),
    Row::new("recover, due", "recover", recover).after(|world, _| world.pass(MINUTE * 2)),
    Row::new("recover, past the deadline", "recover", recover).after(|world, _| world.pass(DEADLINE)),
    Row::beside("found", found).after(lapse_stopping),
    Row::beside("read", read),
    Row::new("clean", "clean", clean),
    Row::beside("remove", remove),
];

const MINUTE: Duration = Duration::from_secs(60);

fn command(command: Command) -> Given {
    let name = named(&command);
    assert!(COMMANDS.iter().any(|row| row.name.split(',').next() == Some(name)), "`{name}` has no row");
    Given::Command(Box::new(command))
}

/// The row of a command.
fn named(command: &Command) -> &'static str {
    match command {
        Command::Admit(_) => "admit",
        Command::Claim(_) => "claim",
        Command::Hop(hop) => match &hop.act {
            Act::Record if !hop.progress.jobs.is_empty() => "submit",
            Act::Record if hop.progress.conclusions.is_empty() => "intend",
            Act::Record => "outcome",
            Act::Dispatch { .. } => "dispatch gate",
            Act::Hold { .. } => "hold",
            Act::Warm => "warm",
            Act::Park { .. } => "park",
            Act::HandBack { .. } => "hand back",
            Act::Finish { .. } => "finish",
            Act::Fail(_) => "fail",
            Act::AskToStop(_) => "cancel tool",
            Act::Acknowledge => "acknowledge",
        },
        Command::Decide(_) => "decide",
        Command::Extend(_) => "extend",
        Command::Expire { .. } => "fire",
        Command::Send(_) => "send",
        Command::Job(job) => match &job.act {
            JobAct::Claim { .. } => "claim a job",
            JobAct::Heartbeat { .. } => "heartbeat",
            JobAct::Report { .. } => "complete",
            JobAct::AckCancel { .. } => "ack-cancel",
        },
        Command::ExpireJob { .. } => "miss",
        Command::Cancel(_) => "cancel",
        Command::Attest(_) => "attest",
        Command::Pause(_) => "pause",
        Command::Resume(_) => "resume",
        Command::Move(_) => "move",
        Command::Recover(_) => "recover",
        Command::Found(_) => "found",
        Command::AskToStop(_) => "cancel tool",
        Command::Read(_) => "read",
        Command::Clean { .. } => "clean",
        Command::Remove { .. } => "remove",
    }
}

fn again(world: &mut World, _: &Scene) -> Given {
    command(world.admission(Some("key")))
}

fn claim(world: &mut World, _: &Scene) -> Given {
    let taker = Taker { worker: worker(2), ttl: TTL, able: Able::Everything };
    command(Command::Claim(Claim { run: world.run().id, seq: world.run().seq, taker }))
}

fn renew(world: &mut World, scene: &Scene) -> Given {
    let renew = Renew { worker: worker(1), ttl: TTL, claims: vec![(world.run().id, scene.token)] };
    let now = world.now + Duration::from_secs(1);
    let rows = world.rows.as_mut().expect("admitted");
    Given::Renewed(match decide::renew(&mut rows.run, scene.token, &renew, &world.registry, now) {
        Renewed::Until { .. } => Ok(Answer::Stored { run: Box::new(rows.run.clone()) }),
        Renewed::StaleClaim => Err(Refusal::new(Code::StaleClaim, "not this claim")),
    })
}

/// A write of the last hop, whatever became of it.
fn hop(world: &World, scene: &Scene, mut progress: Progress, act: Act) -> Given {
    progress.base = world.run().journal.len;
    command(Command::Hop(Box::new(Hop { run: world.run().id, token: scene.token, progress, act })))
}

fn act(world: &World, scene: &Scene, act: Act) -> Given {
    hop(world, scene, Progress::default(), act)
}

fn intend(world: &mut World, scene: &Scene) -> Given {
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let entries = vec![Entry::Call(Box::new(call))];
    hop(world, scene, Progress { entries, ..Progress::default() }, Act::Record)
}

fn gate(world: &mut World, scene: &Scene) -> Given {
    let arguments = canonicalize(br#"{"amount":5}"#).expect("JSON");
    act(world, scene, Act::Dispatch { call: scene.free, arguments, operands: Vec::new(), grant: grant() })
}

/// What became of the free call: it happened if it was in flight, else it never ran.
fn outcome(world: &mut World, scene: &Scene) -> Given {
    let ran = world.calls[&scene.free].in_flight();
    let end = Concluded::Ended(if ran { ok() } else { denied(Code::PolicyDenied) });
    let conclusions = vec![Conclusion { call: scene.free, end }];
    hop(world, scene, Progress { conclusions, ..Progress::default() }, Act::Record)
}

fn hold(world: &mut World, scene: &Scene) -> Given {
    let checkpoint = world.checkpoint(&Progress::default());
    act(world, scene, Act::Hold { resource: "gpu".to_owned(), checkpoint })
}

fn warm(world: &mut World, scene: &Scene) -> Given {
    act(world, scene, Act::Warm)
}

fn park(world: &mut World, scene: &Scene) -> Given {
    let checkpoint = world.checkpoint(&Progress::default());
    act(world, scene, Act::Park { checkpoint, mode: WaitMode::Any, taker: None })
}

fn hand_back(world: &mut World, scene: &Scene) -> Given {
    act(world, scene, Act::HandBack { checkpoint: None })
}

fn finish(world: &mut World, scene: &Scene) -> Given {
    act(world, scene, Act::Finish { result: result() })
}

fn fail(world: &mut World, scene: &Scene) -> Given {
    act(world, scene, Act::Fail(failure()))
}

/// The other side is asked to stop the free call, which is in flight where the run stops.
fn cancel_tool(world: &mut World, scene: &Scene) -> Given {
    let by = world.call(Effect::Write, RecoveryClass::Manual);
    let gate = StopGate::Pass { arguments: canonicalize(br#"{"amount":5}"#).expect("JSON"), grant: grant() };
    act(world, scene, Act::AskToStop(Box::new(AskToStop { call: scene.free, by, gate })))
}

fn acknowledge(world: &mut World, scene: &Scene) -> Given {
    act(world, scene, Act::Acknowledge)
}

fn approve(world: &mut World, scene: &Scene) -> Given {
    command(Command::Decide(Box::new(world.decision("ana", scene.asked.id, Verdict::Approve))))
}

fn extend(world: &mut World, scene: &Scene) -> Given {
    let (by, approval, until) = (caller(person("ana")), scene.asked.id, world.now + MINUTE * 2);
    command(Command::Extend(Box::new(Extend { by, approval, until, reason: None })))
}

fn fire(world: &mut World, scene: &Scene) -> Given {
    command(Command::Expire { run: world.run().id, wait: scene.due })
}

fn send(world: &mut World, _: &Scene) -> Given {
    let to = Target::Name { run: world.run().id, name: "paid".to_owned() };
    command(Command::Send(Box::new(world.signal(to, "a", "1"))))
}

fn submit(world: &mut World, scene: &Scene) -> Given {
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let jobs = vec![world.submit(call.id, None)];
    let entries = vec![Entry::Call(Box::new(call))];
    hop(world, scene, Progress { entries, jobs, ..Progress::default() }, Act::Record)
}

/// A verb on the job of the run; on one that nobody knows, if it has none.
fn agent(world: &mut World, act: JobAct) -> Given {
    let job = world.jobs.keys().next().copied().unwrap_or_else(|| world.mint());
    let command = JobCommand { by: caller(person("ana")), job, act, taker: None };
    self::command(Command::Job(Box::new(command)))
}

fn claim_job(world: &mut World, _: &Scene) -> Given {
    agent(world, JobAct::Claim { worker: "w-2".to_owned(), lease: MINUTE, claim_id: "another".to_owned() })
}

fn complete(world: &mut World, _: &Scene) -> Given {
    let text = canonicalize(b"7").expect("JSON");
    agent(world, JobAct::Report { token: 1, reported: Reported::Succeeded { result: args("7"), text } })
}

fn miss(world: &mut World, _: &Scene) -> Given {
    let job = world.jobs.keys().next().copied().unwrap_or_else(|| world.mint());
    command(Command::ExpireJob { run: world.run().id, job })
}

fn cancel(world: &mut World, _: &Scene) -> Given {
    command(Command::Cancel(Cancel { by: caller(person("ana")), run: world.run().id, reason: None }))
}

fn attest(world: &mut World, scene: &Scene) -> Given {
    command(Command::Attest(world.attestation(Subject::Call(scene.free))))
}

fn recover(world: &mut World, _: &Scene) -> Given {
    command(Command::Recover(Recover {
        run: world.run().id,
        reach: Reach::Lapsed,
        patience: world.patience,
        able: Able::Everything,
    }))
}

fn found(world: &mut World, scene: &Scene) -> Given {
    let (run, patience) = (world.run().id, world.patience);
    let found = Found { run, call: scene.free, by: None, outcome: Some(ok()), patience, bodies: Vec::new() };
    command(Command::Found(Box::new(found)))
}

fn read(_: &mut World, scene: &Scene) -> Given {
    let (by, opened) = (caller(person("ana")), Opened::Approval(scene.asked.id));
    command(Command::Read(Read { by, opened, reason: Some(args("audit")) }))
}

fn clean(world: &mut World, _: &Scene) -> Given {
    command(Command::Clean { run: world.run().id, debt: Debt::Checkpoint })
}

fn remove(world: &mut World, _: &Scene) -> Given {
    command(Command::Remove { run: world.run().id, retention: Duration::ZERO })
}

/// The hop is gone, and the call in flight has had all its time.
fn lapse_stopping(world: &mut World, _: &Scene) {
    if world.status().is_stopping() {
        world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
    }
    world.pass(MINUTE * 2);
}

fn end_if_stopping(world: &mut World, scene: &Scene) {
    if world.status().is_stopping() {
        world.end(scene.free, ok()).expect("its outcome");
    }
}

fn approve_if_active(world: &mut World, scene: &Scene) {
    if world.status().is_active() {
        world.verdict("ana", scene.asked.id, Verdict::Approve).expect("approved");
    }
}

fn dispatch_if_running(world: &mut World, scene: &Scene) {
    if world.status() == Status::Running {
        world.dispatch(scene.free).expect("dispatched");
    }
}

fn lapse_asked_alone(world: &mut World, scene: &Scene) {
    if world.status().is_active() {
        world.end(scene.free, denied(Code::PolicyDenied)).expect("denied");
    }
    world.pass(TTL);
}

fn lapse_in_flight(world: &mut World, scene: &Scene) {
    dispatch_if_running(world, scene);
    world.pass(TTL);
}
