//! Runs that were kept long enough, and what stays of them.

use std::time::Duration;

use protocol::approval::{Kind as Question, Verdict};
use protocol::code::Code;
use protocol::command::{Admit, Command, Decide, Progress, Reach};
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::rows::{Debt, NewBody};
use protocol::run::{Run, Status};

use super::world::{World, refused};
use crate::Removed;

pub(super) const KEPT: Duration = Duration::from_secs(90 * 86_400);

impl World {
    pub(super) async fn remove(&self, run: RunId) -> bool {
        self.settle(Command::Remove { run, retention: KEPT }).await.expect("a removal is accepted").1
    }

    async fn done(&self) -> Run {
        let run = self.running().await;
        self.step(&run, Progress::default(), self.finish("{}")).await.expect("it ends")
    }
}

pub async fn a_run_goes_whole_once_it_was_kept_long_enough(world: World) {
    let keyed = || Admit { idempotency_key: Some("k".to_owned()), taker: Some(world.taker()), ..world.admission() };
    let (run, _) = world.admit(keyed()).await.unwrap();
    let (progress, asked) = world.asks(&run);
    let act = world.park(&run, &progress, "checkpoint");
    world.step(&run, progress, act).await.unwrap();
    let decide = Decide { taker: Some(world.taker()), ..world.verdict(&asked, Verdict::Reject, "bo") };
    let run = world.decide(decide).await.unwrap().run;
    let ended = world.step(&run, world.denied(asked.call), world.finish("{\"ok\":true}")).await.unwrap();
    let result = ended.result().unwrap().digest;
    let other = world.running().await;
    world.pass(KEPT - Duration::from_micros(1));
    assert!(!world.remove(ended.id).await && !world.remove(other.id).await); // it was not kept long enough
    world.pass(Duration::from_micros(1));
    assert!(!world.remove(other.id).await); // it has not ended
    let (commits, figures) = (world.ledger.commits(), world.ledger.counts().await.unwrap());
    assert!(world.remove(ended.id).await);
    assert_eq!(world.ledger.commits(), commits + 1); // as a whole
    assert!(world.ledger.run(ended.id).await.unwrap().is_none());
    assert!(world.ledger.events(ended.id, None, 10).await.unwrap().is_none());
    assert!(world.ledger.body(ended.id, result).await.unwrap().is_none());
    assert!(world.ledger.approval(asked.approval).await.unwrap().is_none());
    assert!(world.ledger.call(asked.call).await.unwrap().is_none());
    let kept = Removed {
        run: ended.id,
        namespace: ended.namespace.clone(),
        status: Status::Done,
        finished_at: ended.finished_at().unwrap(),
        head: ended.events,
        removed_at: world.ledger.now(),
    };
    assert_eq!(world.ledger.removed(ended.id).await.unwrap(), Some(kept)); // id, status and head digest
    assert_eq!(world.ledger.removed(other.id).await.unwrap(), None);
    let done = |counts: &crate::Counts| counts.statuses.iter().find(|(status, _)| *status == Status::Done).unwrap().1;
    let now = world.ledger.counts().await.unwrap();
    assert_eq!((now.runs, done(&now)), (figures.runs, done(&figures) - 1));
    // Nothing brings it back: not its id, and its key is another run's now.
    let remove = Command::Remove { run: ended.id, retention: KEPT };
    assert_eq!(refused(world.settle(remove).await), Code::NotFound);
    let again = Admit { run: ended.id, ..world.admission() };
    assert_eq!(refused(world.admit(again.clone()).await), Code::RunTerminal); // R-251 R-247
    let foreign = Admit { by: world.foreign("eve"), ..again };
    assert_eq!(refused(world.admit(foreign).await), Code::NotFound);
    let (fresh, created) = world.admit(Admit { request_digest: Digest::of("another"), ..keyed() }).await.unwrap();
    assert!(created && fresh.id != ended.id);
    // What others have of the same is untouched.
    assert!(world.ledger.body(other.id, other.input.digest).await.unwrap().is_some());
}

pub async fn what_somebody_may_still_come_for_stays(world: World) {
    let run = world.running().await;
    let (progress, _) = world.asks(&run);
    let act = world.park(&run, &progress, &"large".repeat(16 * 1024));
    world.step(&run, progress, act).await.unwrap();
    let owing = world.cancel(run.id).await.unwrap().0;
    let (asking, asked) = world.dispatched().await;
    world.cancel(asking.id).await.unwrap();
    world.pass(Duration::from_secs(100));
    let (asking, _) = world.recover(asking.id, Reach::Lapsed).await;
    assert!(asking.status().is_final());
    let last = world.done().await;
    world.pass(KEPT);
    assert!(!world.remove(owing.id).await); // not with debt
    world.settle(Command::Clean { run: owing.id, debt: Debt::Checkpoint }).await.unwrap();
    assert!(world.remove(owing.id).await);
    assert!(!world.remove(asking.id).await); // not with an open settle approval
    let shown = world.shown(asking.id).await;
    let question = shown.approvals.iter().find(|approval| approval.kind() == Question::Settle).unwrap();
    let reason = Some(NewBody::new(&b"the bank says so"[..]));
    let decide = Decide { approval: question.id, reason, ..world.verdict(&asked, Verdict::DidNotHappen, "bo") };
    world.decide(decide).await.unwrap();
    // The last event of the ledger is now of this run, and the last run is the other one: their numbers count on.
    assert!(!world.remove(asking.id).await && !world.remove(last.id).await);
    world.done().await;
    assert!(world.remove(asking.id).await && world.remove(last.id).await);
}

pub async fn old_runs_are_found_page_by_page(world: World) {
    let mut ended = Vec::new();
    for _ in 0..3 {
        ended.push(world.done().await.id);
        world.parked().await;
    }
    let before = world.ledger.now();
    world.pass(Duration::from_secs(1));
    let (late, _) = world.parked().await;
    world.cancel(late.id).await.unwrap();
    let (mut found, mut after, mut looks) = (Vec::new(), None, 0);
    loop {
        let page = world.ledger.old(after, before, 2).await.unwrap();
        (looks, after) = (looks + 1, page.next);
        found.extend(page.runs);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, looks), (ended, 4)); // R-251 R-39: two runs a look, and none that was admitted later
    assert!(world.ledger.old(None, before - Duration::from_secs(1), 10).await.unwrap().runs.is_empty());
}
