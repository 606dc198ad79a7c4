//! Decisions of people, expiry, timers, the dispatch gate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::approval::{Ending, Phase as Yes, Status as Approval, Verdict};
use protocol::call::{OutcomeStatus, State};
use protocol::code::Code;
use protocol::command::{Act, Admit, Answer, Command, Decide, Due, Edit, Progress, Timer};
use protocol::delivery::{Cause, Mode};
use protocol::journal::Entry;
use protocol::rows::NewBody;
use protocol::run::Status;

use super::admission::futures;
use super::world::{World, canonical, refused};

pub async fn a_verdict_returns_the_run_in_its_own_commit(world: World) {
    let (run, asked) = world.parked().await;
    let commits = world.ledger.commits();
    let decided = world.decide(world.verdict(&asked, Verdict::Approve, "bo")).await.unwrap();
    assert_eq!(world.ledger.commits(), commits + 1); // R-165
    assert!(decided.changed && decided.approval.is_open_yes());
    assert_eq!((decided.run.status(), decided.run.seq), (Status::Queued, run.seq + 1)); // R-165
    let delivery = decided.run.delivery().unwrap();
    assert_eq!((delivery.mode, delivery.cause), (Mode::Resume, Cause::Return)); // R-73
    let shown = world.shown(run.id).await;
    assert_eq!(shown.run, decided.run);
    assert_eq!(shown.approvals, [decided.approval]);
    assert!(shown.waits[0].is_ended());
}

pub async fn a_verdict_may_hand_the_run_to_a_worker(world: World) {
    let (run, asked) = world.parked().await;
    let decide = Decide { taker: Some(world.taker()), ..world.verdict(&asked, Verdict::Approve, "bo") };
    let decided = world.decide(decide).await.unwrap();
    assert_eq!((decided.run.status(), decided.run.fence), (Status::Running, run.fence + 1)); // R-116
    assert!(world.ledger.claimable(0, 10).await.unwrap().0.is_empty()); // R-116
}

/// The verdict is sent while the question is still on its way, of runs with few rows and of runs with many labels.
pub async fn a_verdict_may_be_in_the_batch_of_its_question(world: World) {
    for labels in [0, 40] {
        let labels: BTreeMap<String, String> = (0..labels).map(|n| (format!("label-{n}"), String::new())).collect();
        let admit = Admit { labels, taker: Some(world.taker()), ..world.admission() };
        let run = world.admit(admit).await.unwrap().0;
        let (progress, asked) = world.asks(&run);
        let told = futures(2, |command| {
            let (world, run, asked, progress) = (&world, &run, &asked, progress.clone());
            async move {
                match command {
                    0 => world
                        .step(run, progress.clone(), world.park(run, &progress, "checkpoint"))
                        .await
                        .map(|run| run.seq),
                    _ => {
                        world.decide(world.verdict(asked, Verdict::Approve, "bo")).await.map(|decided| decided.run.seq)
                    }
                }
            }
        });
        let told: Vec<u32> = told.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(told, [run.seq, run.seq + 1]);
        let shown = world.shown(run.id).await;
        assert_eq!((shown.run.status(), shown.run.checkpoint.is_some()), (Status::Queued, true)); // R-168
    }
}

pub async fn a_second_verdict_is_told_the_first(world: World) {
    let (run, asked) = world.parked().await;
    let approve = world.verdict(&asked, Verdict::Approve, "bo");
    world.decide(approve.clone()).await.unwrap();
    let events = world.ledger.events(run.id, None, 100).await.unwrap().unwrap().len();
    let again = world.decide(approve).await.unwrap();
    assert!(!again.changed); // R-166
    assert_eq!(world.ledger.events(run.id, None, 100).await.unwrap().unwrap().len(), events); // R-3
    let reject = world.decide(world.verdict(&asked, Verdict::Reject, "ana")).await;
    assert_eq!(refused(reject), Code::AlreadyDecided); // R-166
    let after = world.ledger.approval(asked.approval).await.unwrap().unwrap();
    assert!(after.approval.is_open_yes()); // C-161
    assert_eq!(after.run.seq, run.seq + 1); // R-30
}

pub async fn a_verdict_before_the_park_returns_the_run_at_the_park(world: World) {
    let run = world.running().await;
    let (progress, asked) = world.asks(&run);
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    let decided = world.decide(world.verdict(&asked, Verdict::Approve, "bo")).await.unwrap();
    assert_eq!(decided.run.status(), Status::Running);
    let act = world.park(&run, &Progress::default(), "checkpoint");
    let parked = world.step(&run, Progress::default(), act).await.unwrap();
    assert_eq!((parked.status(), parked.seq), (Status::Queued, run.seq + 1)); // R-175
}

pub async fn commands_on_one_run_are_serial(world: World) {
    let run = world.running().await;
    let (mut progress, asked) = world.asks(&run);
    Arc::make_mut(&mut progress.asks[0].obligation).quorum = 8;
    let act = world.park(&run, &progress, "checkpoint");
    world.step(&run, progress, act).await.unwrap();
    let events = world.ledger.run(run.id).await.unwrap().unwrap().events.len;
    let voters: Vec<String> = (0..8).map(|n| format!("voter {n}")).collect();
    let verdicts: Vec<Decide> = voters.iter().map(|who| world.verdict(&asked, Verdict::Approve, who)).collect();
    // All at once, with a pass, a claim and the same people a second time in between.
    let told = futures(24, async |i| match i % 3 {
        0 | 1 => world.decide(verdicts[i / 3].clone()).await.map(|decided| decided.changed).unwrap_or(false),
        _ => {
            world.recover(run.id, crate::Reach::Lapsed).await;
            world.claim(run.id, 7, world.taker()).await.is_ok()
        }
    })
    .await;
    assert_eq!(told.iter().filter(|changed| **changed).count(), 8); // R-4: each vote counted once
    let after = world.ledger.approval(asked.approval).await.unwrap().unwrap();
    let mut counted: Vec<&str> = after.approval.votes.iter().map(|vote| vote.principal.as_str()).collect();
    counted.sort_unstable();
    assert_eq!(counted, voters.iter().map(String::as_str).collect::<Vec<_>>()); // R-4: none was lost
    assert_eq!((after.run.status(), after.run.seq), (Status::Queued, run.seq + 1)); // R-4: one return
    assert_eq!(after.run.events.len, events + 9); // R-4: seven votes, the eighth ends it and queues the run
}

pub async fn an_approval_expires_by_nobodys_hand(world: World) {
    let (run, asked) = world.parked().await;
    let due = |world: &World| {
        let (ledger, now) = (world.ledger.clone(), world.ledger.now());
        async move { ledger.due(now, crate::Reach::Lapsed, 0, 10).await.unwrap().waits }
    };
    assert!(due(&world).await.is_empty());
    let (_, early) = world.settle(Command::Expire { run: run.id, wait: asked.wait }).await.unwrap();
    assert!(!early);
    world.pass(Duration::from_secs(86_400));
    assert_eq!(due(&world).await, [(asked.wait, run.id)]); // R-38
    let (returned, changed) = world.settle(Command::Expire { run: run.id, wait: asked.wait }).await.unwrap();
    assert!(changed && returned.status() == Status::Queued); // R-170 R-290
    assert!(due(&world).await.is_empty());
    let approval = world.ledger.approval(asked.approval).await.unwrap().unwrap().approval;
    assert_eq!(approval.status, Approval::Expired { at: world.ledger.now() }); // R-169
    let late = world.decide(world.verdict(&asked, Verdict::Approve, "bo")).await;
    assert_eq!(refused(late), Code::ApprovalExpired); // R-169
}

pub async fn an_edit_and_a_reason_are_kept(world: World) {
    let (run, asked) = world.parked().await;
    let arguments = canonical(r#"{"amount":5,"note":"half"}"#);
    let edit = Edit { arguments: arguments.clone(), judged_by: world.tool.digest, fault: None, operands: Vec::new() };
    let reason = NewBody::new(&b"half is enough"[..]);
    let decide =
        Decide { edit: Some(edit), reason: Some(reason.clone()), ..world.verdict(&asked, Verdict::Approve, "bo") };
    let decided = world.decide(decide).await.unwrap();
    let stored = world.ledger.approval(asked.approval).await.unwrap().unwrap().approval;
    assert_eq!(stored, decided.approval); // C-176
    assert_eq!(stored.arguments.digest, arguments.digest());
    assert_ne!(stored.asked_arguments, stored.arguments.digest);
    assert_eq!(stored.binding.revision, 2); // C-183
    assert_eq!(stored.votes.len(), 1);
    assert_eq!(stored.votes[0].reason, Some(reason.body)); // C-176
    let call = world.ledger.call(asked.call).await.unwrap().unwrap().call;
    assert!(call.edited && call.asked == asked.arguments.body.digest && call.arguments == stored.arguments);
    for (body, bytes) in [(stored.arguments, arguments.as_bytes()), (reason.body, &reason.bytes[..])] {
        assert_eq!(world.ledger.body(run.id, body.digest).await.unwrap().unwrap(), bytes);
    }
}

pub async fn an_approved_write_passes_its_gate_once(world: World) {
    let (_, asked) = world.parked().await;
    let decide = Decide { taker: Some(world.taker()), ..world.verdict(&asked, Verdict::Approve, "bo") };
    let run = world.decide(decide).await.unwrap().run;
    let passed = world.dispatch(&run, &asked).await.unwrap();
    assert!(matches!(passed, Answer::Dispatched { attempt: 1 })); // C-103
    let shown = world.shown(run.id).await;
    assert!(matches!(shown.calls[0].state, State::Dispatched(_))); // C-103
    assert!(matches!(shown.approvals[0].status, Approval::Approved { phase: Yes::Gated { .. }, .. }));
    assert!(shown.waits.is_empty());
    assert_eq!(refused(world.dispatch(&run, &asked).await), Code::AlreadyDispatched); // C-117
    let result = NewBody::new(&b"{\"refund\":\"R-1\"}"[..]);
    let conclusions = vec![world.outcome(asked.call, OutcomeStatus::Ok, Some(&result))];
    let progress = Progress { conclusions, bodies: vec![result], ..Progress::default() };
    world.step(&run, progress, Act::Record).await.unwrap();
    let shown = world.shown(run.id).await;
    let outcome = shown.calls[0].outcome().unwrap();
    assert_eq!((outcome.status, outcome.gate.as_ref().map(|gate| gate.attempt)), (OutcomeStatus::Ok, Some(1)));
    let ended = |status: &Approval| match status {
        Approval::Approved { phase: Yes::Ended { gate_at, how, .. }, .. } => Some((gate_at.is_some(), *how)),
        _ => None,
    };
    assert_eq!(ended(&shown.approvals[0].status), Some((true, Ending::Ok))); // C-155
    let done = world.step(&run, Progress::default(), world.finish("{}")).await.unwrap();
    assert_eq!(done.status(), Status::Done);
}

pub async fn a_timer_returns_its_run(world: World) {
    let run = world.running().await;
    let arguments = NewBody::new(&b"{}"[..]);
    let call = world.call(&run, 1, &arguments);
    let timer = Timer { wait: world.id(), call: call.id, due: Due::In(Duration::from_secs(60)) };
    let progress = Progress {
        entries: vec![Entry::Call(Box::new(call))],
        timers: vec![timer],
        bodies: vec![arguments],
        ..Progress::default()
    };
    let act = world.park(&run, &progress, "asleep");
    let parked = world.step(&run, progress, act).await.unwrap();
    assert_eq!(parked.status(), Status::AwaitingTimer); // R-183
    world.pass(Duration::from_secs(60));
    let due = world.ledger.due(world.ledger.now(), crate::Reach::Lapsed, 0, 10).await.unwrap();
    assert_eq!(due.waits, [(timer.wait, run.id)]); // R-38
    let (returned, _) = world.settle(Command::Expire { run: run.id, wait: timer.wait }).await.unwrap();
    assert_eq!(returned.status(), Status::Queued); // R-241 R-290
    let (_, changed) = world.settle(Command::Expire { run: run.id, wait: timer.wait }).await.unwrap();
    assert!(!changed); // R-3
}
