//! Ends: results, failures, cancels, and what is left after them.

use protocol::approval;
use protocol::call::{OutcomeStatus, State};
use protocol::code::Code;
use protocol::command::{Act, Admit, Command, Decide, Progress, Reach};
use protocol::event::Kind;
use protocol::obligation::Subject;
use protocol::rows::{Debt, NewBody};
use protocol::run::{Run, Status};

use super::world::{Asked, World, refused};

pub async fn a_finished_run_is_frozen(world: World) {
    let run = world.running().await;
    let done = world.step(&run, Progress::default(), world.finish("{\"ok\":true}")).await.unwrap();
    assert_eq!(done.status(), Status::Done);
    assert!(done.finished_at().is_some() && done.claim().is_none());
    let result = world.ledger.body(run.id, done.result().unwrap().digest).await.unwrap().unwrap();
    assert_eq!(result, b"{\"ok\":true}");
    assert_eq!(refused(world.hop(&run, Progress::default(), Act::Fail(world.failure())).await), Code::StaleClaim);
    let (after, changed) = world.cancel(run.id).await.unwrap();
    assert!(!changed && after == done);
    let (after, changed) = world.recover(run.id, Reach::Lapsed).await;
    assert!(!changed && after == done);
    assert_eq!(refused(world.claim(run.id, run.seq, world.taker()).await), Code::Skipped);
    let events = world.ledger.events(run.id, None, 100).await.unwrap().unwrap();
    assert_eq!(events.iter().filter(|event| event.kind.is_terminal()).count(), 1);
    assert_eq!(events.last().map(|event| event.kind), Some(Kind::Run(Status::Done)));
}

pub async fn a_final_commit_is_one_transaction(world: World) {
    let admit = Admit { session: Some("cart 7".to_owned()), taker: Some(world.taker()), ..world.admission() };
    let (run, _) = world.admit(admit).await.unwrap();
    let (progress, first) = world.asks(&run);
    let act = world.park(&run, &progress, "checkpoint");
    world.step(&run, progress, act).await.unwrap();
    let decide = Decide { taker: Some(world.taker()), ..world.verdict(&first, approval::Verdict::Reject, "bo") };
    let run = world.decide(decide).await.unwrap().run;
    let run = world.step(&run, world.denied(first.call), Act::Record).await.unwrap();
    let (progress, open) = world.asks(&run);
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    let commits = world.ledger.commits();
    let done = world.step(&run, Progress::default(), world.finish("{}")).await.unwrap();
    assert_eq!(world.ledger.commits(), commits + 1);
    let shown = world.shown(run.id).await;
    assert_eq!((shown.run.status(), shown.run.finished_at()), (Status::Done, Some(world.ledger.now())));
    assert!(shown.run.result().is_some() && shown.run.claim().is_none() && shown.run.delivery().is_none());
    assert!(shown.waits.is_empty());
    let closed = shown.approvals.iter().find(|a| a.id == open.approval).unwrap();
    assert!(matches!(&closed.status, approval::Status::Cancelled { by, .. } if by == "system:run-ended"));
    assert!(shown.debts.is_empty() && world.ledger.checkpoint(run.id).await.unwrap().is_none());
    let events = world.ledger.events(run.id, None, 100).await.unwrap().unwrap();
    assert_eq!(
        events.last().map(|event| (event.kind, event.digest)),
        Some((Kind::Run(Status::Done), done.events.digest))
    );
    let next = Admit { session: Some("cart 7".to_owned()), ..world.admission() };
    assert!(world.admit(next).await.unwrap().1); // the slot is free
}

pub async fn a_cancel_closes_what_is_open(world: World) {
    let (run, asked) = world.parked().await;
    let (ended, changed) = world.cancel(run.id).await.unwrap();
    assert!(changed && ended.status() == Status::Cancelled);
    let shown = world.shown(run.id).await;
    assert!(shown.waits.is_empty() && shown.obligations.is_empty());
    let cancelled = |by: &str| approval::Status::Cancelled { at: world.ledger.now(), by: by.to_owned() };
    assert_eq!(shown.approvals[0].status, cancelled("system:run-cancelled"));
    assert_eq!(shown.calls[0].outcome().map(|o| o.status), Some(OutcomeStatus::Denied)); // C-125
    let late = world.decide(world.verdict(&asked, approval::Verdict::Approve, "bo")).await;
    assert_eq!(refused(late), Code::ApprovalCancelled);
    let pending = world.ledger.approvals(crate::ApprovalFilter::default(), None, 10).await.unwrap();
    assert!(pending.items.is_empty());
}

pub async fn a_cancel_of_a_busy_run_waits_for_its_hop(world: World) {
    let run = world.running().await;
    let (stopping, changed) = world.cancel(run.id).await.unwrap();
    assert!(changed && stopping.status() == Status::Cancelling);
    assert_eq!(stopping.claim(), run.claim());
    let shown = world.shown(run.id).await;
    assert_eq!(shown.obligations.iter().map(|o| o.subject).collect::<Vec<_>>(), [Subject::Hop(0)]);
    let due = world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap();
    assert_eq!(due.stopping, [run.id]);
    assert_eq!(refused(world.hop(&run, Progress::default(), world.finish("{}")).await), Code::RunStopping);
    let (_, again) = world.cancel(run.id).await.unwrap();
    assert!(!again);
    let ended = world.step(&run, Progress::default(), Act::Acknowledge).await.unwrap();
    assert_eq!(ended.status(), Status::Cancelled);
    assert!(world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap().stopping.is_empty());
}

pub async fn a_failure_with_a_call_in_flight_waits_for_it(world: World) {
    let (run, asked) = world.dispatched().await;
    let failing = world.step(&run, Progress::default(), Act::Fail(world.failure())).await.unwrap();
    assert_eq!(failing.status(), Status::Failing);
    assert_eq!(failing.failure(), Some(&world.failure()));
    let result = NewBody::new(&b"{}"[..]);
    let conclusions = vec![world.outcome(asked.call, OutcomeStatus::Ok, Some(&result))];
    let progress = Progress { conclusions, bodies: vec![result], ..Progress::default() };
    let ended = world.step(&run, progress, Act::Acknowledge).await.unwrap();
    assert_eq!(ended.status(), Status::Failed);
    assert_eq!(ended.failure(), Some(&world.failure()));
    let shown = world.shown(run.id).await;
    assert_eq!(shown.run, ended);
    assert!(matches!(&shown.calls[0].state, State::Ended(outcome) if outcome.status == OutcomeStatus::Ok));
}

pub async fn a_final_run_owes_its_checkpoint_until_it_is_cleaned(world: World) {
    let run = world.running().await;
    let (progress, _) = world.asks(&run);
    let act = world.park(&run, &progress, &"large".repeat(16 * 1024));
    world.step(&run, progress, act).await.unwrap();
    world.cancel(run.id).await.unwrap();
    let due = world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap();
    assert_eq!(due.debts, [(run.id, Debt::Checkpoint)]); // R-246 R-294
    assert!(world.ledger.checkpoint(run.id).await.unwrap().is_some());
    let clean = || Command::Clean { run: run.id, debt: Debt::Checkpoint };
    let (cleaned, _) = world.settle(clean()).await.unwrap();
    assert_eq!(cleaned.status(), Status::Cancelled);
    assert!(world.ledger.checkpoint(run.id).await.unwrap().is_none()); // R-245 R-294
    assert!(world.ledger.due(world.ledger.now(), Reach::Lapsed, 0, 10).await.unwrap().debts.is_empty());
    world.settle(clean()).await.unwrap();
}

impl World {
    /// A run with one call in flight.
    pub async fn dispatched(&self) -> (Run, Asked) {
        let (_, asked) = self.parked().await;
        let decide = Decide { taker: Some(self.taker()), ..self.verdict(&asked, approval::Verdict::Approve, "bo") };
        let run = self.decide(decide).await.expect("a verdict is accepted").run;
        self.dispatch(&run, &asked).await.expect("the gate lets it pass");
        (run, asked)
    }
}
