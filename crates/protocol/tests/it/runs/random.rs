//! Random commands, late and double ones too: whatever is given, the invariants of runs.md section 2 hold after each
//! (they are asserted by the world that carries the commands out).

use crate::world::{World, args, denied, expiring, failure, obligation, ok};
use proptest::prelude::*;
use protocol::approval::Verdict;
use protocol::call::{Outcome, OutcomeStatus, RecoveryClass};
use protocol::code::Code;
use protocol::command::{Act, AwaitSignal, Command, Concluded, Due, Progress, Timer};
use protocol::journal::Entry;
use protocol::pause::Shared;
use protocol::policy::{Obligation, OnExpiry};
use protocol::run::{Charge, WaitMode};
use protocol::signal::{self, Awaited};
use protocol::tool::Effect;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Move {
    Claim(u64),
    Enter {
        write: bool,
        recovery: u8,
    },
    Ask {
        index: usize,
        quorum: u32,
        fails: bool,
    },
    Sleep {
        index: usize,
        seconds: u8,
    },
    /// A call waits for a signal, perhaps with a limit.
    Await {
        index: usize,
        name: u8,
        schema: bool,
        limit: u8,
    },
    Send {
        name: u8,
        id: u8,
        number: bool,
        wait: bool,
    },
    Delegate {
        index: usize,
        seconds: u8,
    },
    /// What an agent does with a job; with a token that is not its own, perhaps.
    Agent {
        index: usize,
        who: u8,
        verb: u8,
        token: u32,
    },
    ExpireJob(usize),
    Dispatch(usize),
    Conclude {
        index: usize,
        end: u8,
    },
    Park(WaitMode),
    Hold(bool),
    Warm,
    HandBack,
    Finish,
    Fail,
    Acknowledge,
    Vote {
        who: u8,
        index: usize,
        verdict: u8,
        edit: bool,
    },
    Expire(usize),
    Cancel,
    /// Sets or clears the pause of the run, of its workflow, or of its queue.
    Pause {
        scope: u8,
        on: bool,
    },
    Recover,
    Pass(u16),
    /// The same with a token that is not the present one.
    Zombie(u8),
    /// A claim of a hop that the run has left.
    Burned(u32),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..4_u64).prop_map(Move::Claim),
        6 => (any::<bool>(), 0..4_u8).prop_map(|(write, recovery)| Move::Enter { write, recovery }),
        6 => (0..4_usize, 1..3_u32, any::<bool>()).prop_map(|(index, quorum, fails)| Move::Ask { index, quorum, fails }),
        6 => (0..4_usize).prop_map(Move::Dispatch),
        4 => (0..4_usize, 0..2_u8, any::<bool>(), 0..3_u8)
            .prop_map(|(index, name, schema, limit)| Move::Await { index, name, schema, limit }),
        5 => (0..2_u8, any::<u8>(), any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(name, id, number, wait)| Move::Send { name, id: id % 12, number, wait }),
        5 => (0..4_usize, 0..200_u8).prop_map(|(index, seconds)| Move::Delegate { index, seconds }),
        10 => (0..3_usize, 0..2_u8, 0..8_u8, prop_oneof![4 => Just(1_u32), 1 => Just(2)])
            .prop_map(|(index, who, verb, token)| Move::Agent { index, who, verb, token }),
        1 => (0..3_usize).prop_map(Move::ExpireJob),
        2 => (0..4_usize, 0..200_u8).prop_map(|(index, seconds)| Move::Sleep { index, seconds }),
        6 => (0..4_usize, 0..6_u8).prop_map(|(index, end)| Move::Conclude { index, end }),
        5 => prop_oneof![Just(WaitMode::Any), Just(WaitMode::All), Just(WaitMode::First)].prop_map(Move::Park),
        3 => any::<bool>().prop_map(Move::Hold),
        2 => Just(Move::Warm),
        1 => Just(Move::HandBack),
        1 => Just(Move::Finish),
        1 => Just(Move::Fail),
        2 => Just(Move::Acknowledge),
        8 => (0..4_u8, 0..4_usize, 0..6_u8, any::<bool>())
            .prop_map(|(who, index, verdict, edit)| Move::Vote { who, index, verdict, edit }),
        2 => (0..4_usize).prop_map(Move::Expire),
        1 => Just(Move::Cancel),
        2 => (0..3_u8, prop::bool::weighted(0.3)).prop_map(|(scope, on)| Move::Pause { scope, on }),
        3 => Just(Move::Recover),
        3 => (0..200_u16).prop_map(Move::Pass),
        2 => (0..4_u8).prop_map(Move::Zombie),
        1 => (0..8_u32).prop_map(Move::Burned),
    ]
}

fn play(world: &mut World, step: Move) {
    // Every answer is legal here, refusals too; what must hold is asserted after each command.
    match step {
        Move::Claim(n) => drop(world.claim(n)),
        Move::Enter { write, recovery } => {
            let class = [RecoveryClass::Manual, RecoveryClass::Idempotent, RecoveryClass::Lookup, RecoveryClass::Retry]
                [usize::from(recovery)];
            let (effect, class) = match write {
                true if class != RecoveryClass::Retry => (Effect::Write, class),
                _ => (Effect::Read, RecoveryClass::Retry),
            };
            let call = world.call(effect, class);
            let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
            drop(world.record(progress));
        }
        Move::Ask { index, quorum, fails } => {
            let Some(call) = world.calls.values().nth(index).cloned() else { return };
            let rule = Obligation { quorum, ..obligation() };
            let rule = if fails { expiring(rule, OnExpiry::Fail) } else { rule };
            let ask = world.ask(&call, rule);
            drop(world.record(Progress { asks: vec![ask], ..Progress::default() }));
        }
        Move::Sleep { index, seconds } => {
            let Some(call) = world.calls.keys().nth(index).copied() else { return };
            let timer = Timer { wait: world.mint(), call, due: Due::In(Duration::from_secs(u64::from(seconds))) };
            drop(world.record(Progress { timers: vec![timer], ..Progress::default() }));
        }
        Move::Await { index, name, schema, limit } => {
            let Some(call) = world.calls.keys().nth(index).copied() else { return };
            let schema = schema.then(|| protocol::json::canonicalize(br#"{"type":"number"}"#).expect("JSON"));
            let awaited = Awaited { name: format!("name {name}"), schema };
            let signals = vec![AwaitSignal { wait: world.mint(), call, awaited: awaited.into() }];
            let limit = Duration::from_secs(u64::from(limit.saturating_sub(1)) * 30);
            let timer = Timer { wait: world.mint(), call, due: Due::In(limit) };
            let timers = (!limit.is_zero()).then_some(timer).into_iter().collect();
            drop(world.record(Progress { signals, timers, ..Progress::default() }));
        }
        Move::Send { name, id, number, wait } => {
            let payload = if number { "7" } else { r#""seven""# };
            let (name, id) = (format!("name {name}"), format!("id {id}"));
            let known = world.signals.values().filter_map(|signal| match signal.state {
                signal::State::Taken(wait) => Some(wait),
                signal::State::Kept | signal::State::SetAside => None,
            });
            let waits: Vec<_> = world.rows().waits.iter().map(|wait| wait.id).chain(known).collect();
            match waits.first().filter(|_| wait) {
                Some(wait) => drop(world.send_to(*wait, &id, payload)),
                None => drop(world.send(&name, &id, payload)),
            }
        }
        Move::Delegate { index, seconds } => {
            let Some(call) = world.calls.keys().nth(index).copied() else { return };
            let timeout = (seconds > 20).then(|| Duration::from_secs(u64::from(seconds)));
            let jobs = vec![world.submit(call, timeout)];
            drop(world.record(Progress { jobs, ..Progress::default() }));
        }
        Move::Agent { index, who, verb, token } => {
            let Some(job) = world.jobs.keys().nth(index).copied() else { return };
            let who = ["ana", "ben"][usize::from(who)];
            let before = world.rows.clone();
            let foreign = world.jobs[&job].agent.as_ref().is_none_or(|a| a.token != token || a.principal != who);
            let code = match verb {
                0 | 1 => return drop(world.claim_job(who, job)),
                2 => world.heartbeat(who, job, token),
                3 => world.complete(who, job, token, "7"),
                4 => world.complete(who, job, token, "8"),
                5 => world.complete(who, job, token, "\"no number\""),
                6 => world.fail_job(who, job, token),
                _ => world.ack_cancel(who, job, token),
            };
            if foreign {
                assert_eq!(code.expect_err("not its own").code, Code::JobNotOwner); // R-219
                assert_eq!(world.rows, before); // R-219
            }
        }
        Move::ExpireJob(index) => {
            if let Some(job) = world.jobs.keys().nth(index).copied() {
                drop(world.give(Command::ExpireJob { run: world.run().id, job }));
            }
        }
        Move::Dispatch(index) => {
            if let Some(call) = world.calls.keys().nth(index).copied() {
                drop(world.dispatch(call));
            }
        }
        Move::Conclude { index, end } => {
            let Some(id) = world.calls.keys().nth(index).copied() else { return };
            let end = match end {
                0 => Concluded::Ended(ok()),
                1 => Concluded::Ended(denied(Code::ApprovalRejected)),
                2 => Concluded::Ended(Outcome { status: OutcomeStatus::Error, ..denied(Code::HandlerError) }),
                3 => Concluded::Ambiguous { ask: false, seen: None },
                4 => Concluded::Ambiguous { ask: true, seen: None },
                _ => Concluded::Attempt,
            };
            drop(world.concluded(id, end));
        }
        Move::Park(mode) => {
            let progress = Progress { charge: Charge { active: 1, person: 1 }, ..Progress::default() };
            let checkpoint = world.checkpoint(&progress);
            drop(world.hop(progress, Act::Park { checkpoint, mode, taker: None }));
        }
        Move::Hold(a) => {
            let checkpoint = world.checkpoint(&Progress::default());
            let resource = if a { "a" } else { "b" }.to_owned();
            drop(world.hop(Progress::default(), Act::Hold { resource, checkpoint }));
        }
        Move::Warm => drop(world.hop(Progress::default(), Act::Warm)),
        Move::HandBack => drop(world.hand_back()),
        Move::Finish => drop(world.finish()),
        Move::Fail => drop(world.hop(Progress::default(), Act::Fail(failure()))),
        Move::Acknowledge => drop(world.hop(Progress::default(), Act::Acknowledge)),
        Move::Vote { who, index, verdict, edit } => {
            let Some(approval) = world.approvals.values().nth(index).cloned() else { return };
            let verdict = [
                Verdict::Approve,
                Verdict::Reject,
                Verdict::Abstain,
                Verdict::Happened,
                Verdict::DidNotHappen,
                Verdict::GiveUp,
            ][usize::from(verdict)];
            let who = ["ana", "ben", "cleo", "req"][usize::from(who)];
            let mut decide = world.decision(who, approval.id, verdict);
            if edit && verdict == Verdict::Approve {
                decide = world.edited(who, approval.id, r#"{"amount":1}"#);
            }
            if verdict == Verdict::Happened {
                decide.answer = Some(protocol::command::Answered { body: args("{}"), fault: None });
            }
            drop(world.give(Command::Decide(Box::new(decide))));
        }
        Move::Expire(index) => {
            let wait = world.rows().waits.iter().nth(index).map(|wait| wait.id);
            if let Some(wait) = wait {
                drop(world.give(Command::Expire { run: world.run().id, wait }));
            }
        }
        Move::Cancel => drop(world.cancel()),
        Move::Pause { scope: 0, on: true } => drop(world.pause()),
        Move::Pause { scope: 0, on: false } => drop(world.resume()),
        Move::Pause { scope, on } => {
            let (key, queue) = (world.run().pattern.key.clone(), world.run().queue.clone());
            let scope = if scope == 1 { Shared::Workflow(key) } else { Shared::Queue(queue) };
            world.shade(scope, on).expect("both are there");
        }
        Move::Recover => drop(world.recover()),
        Move::Pass(seconds) => world.pass(Duration::from_secs(u64::from(seconds))),
        Move::Zombie(n) => {
            let token = world.token() + 1 + u64::from(n);
            let before = world.rows.clone();
            let refused = world.hop_as(token, Progress::default(), Act::Finish { result: args("2") });
            assert_eq!(refused.expect_err("not the present token").code, Code::StaleClaim); // R-98
            assert_eq!(world.rows, before); // R-99
        }
        Move::Burned(back) => {
            if let Some(seq) = world.run().seq.checked_sub(back + 1) {
                assert_eq!(world.claim_seq(9, seq).expect_err("burned").code, Code::Skipped); // R-72
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_under_any_sequence_of_commands(steps in prop::collection::vec(moves(), 1..60), writes in any::<bool>()) {
        let mut world = World::new();
        if writes {
            world.allow_writes();
        }
        world.admit();
        for step in steps {
            play(&mut world, step);
        }
    }
}
