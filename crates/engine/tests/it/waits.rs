//! Wait sets: questions, signals and times that one program waits for at once, each ended alone, through restarts.

use crate::desk::{Desk, Setting, eventually, local, manual};
use engine::SendSignal;
use protocol::approval::{Approval, Verdict};
use protocol::command::Target;
use protocol::id::RunId;
use protocol::json::canonicalize;
use protocol::run::{Run, Status};
use protocol::wait::Wait;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// Six waits at once; which of them have ended comes out in the order of the list.
const PROGRAM: &str = "
refund, signal = payments.refund.later, stasis.signal.later
told = stasis.parallel(
    refund(order_id='one', amount=150), refund(order_id='two', amount=160), stasis.gate.later('go on?'),
    signal('paid'), signal('late', timeout='1h'), stasis.sleep.later('21d'), errors='return')
result = [getattr(one, 'code', one) for one in told]
";

/// A desk that is closed and opened again on its ledger after every step.
struct Story {
    desk: Desk,
    clock: Arc<AtomicI64>,
    run: RunId,
    seq: u32,
}

impl Story {
    async fn begin() -> Story {
        let (setting, clock) = manual();
        let desk = Desk::with(setting).await;
        let run = desk.run(PROGRAM, "{}").await.id;
        Story { desk, clock, run, seq: 0 }
    }

    fn setting(&self) -> Setting {
        Setting { clock: store::Clock::Manual(self.clock.clone()), ..manual().0 }
    }

    async fn waits(&self) -> (Run, Vec<Wait>) {
        let rows = self.desk.engine.ledger().rows(self.run).await.expect("read").expect("a run");
        (rows.run, rows.waits)
    }

    async fn question(&self, order: &str) -> Approval {
        let pending = self.desk.pending(self.run).await;
        let calls = self.desk.calls(self.run).await;
        let wanted = canonicalize(order.as_bytes()).expect("JSON").digest();
        let of = |approval: &Approval| calls.iter().any(|c| c.id == approval.call && c.arguments.digest == wanted);
        pending.into_iter().find(of).expect("it is asked")
    }

    fn pass(&self, span: Duration) {
        self.clock.fetch_add(span.as_micros() as i64, Ordering::SeqCst);
    }

    /// What ended has brought the run back once, and the other waits are the ones that they were. Then the process is another.
    async fn goes_on(self, before: &[Wait], gone: usize, status: Status) -> (Story, Vec<Wait>) {
        let seq = self.seq + 1;
        eventually("another park", async || {
            let (run, waits) = self.waits().await;
            run.status().is_parked() && run.seq == seq && waits.len() + gone == before.len()
        })
        .await;
        let (run, left) = self.waits().await;
        assert_eq!(run.status(), status); // R-183
        let as_before =
            |now: &Wait| before.iter().any(|b| (b.id, b.since, b.due_at) == (now.id, now.since, now.due_at));
        assert!(left.iter().all(|wait| wait.is_open() && as_before(wait))); // R-180 R-185
        eventually("nothing of it here", async || self.desk.engine.guests().is_empty()).await; // R-174
        let setting = self.setting();
        (Story { desk: self.desk.reopen(setting).await, seq, ..self }, left)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_signals_and_times_wait_together_and_each_ends_alone() {
    let story = Story::begin().await;
    let (run, all) = story.waits().await;
    assert_eq!((run.status(), run.seq, all.len()), (Status::AwaitingConsent, 0, 7)); // R-178 R-183
    // The second question before the first, and the signal before the times.
    let two = story.question(r#"{"amount":160,"order_id":"two"}"#).await;
    story.desk.decide(two.id, Verdict::Approve).await.expect("approved"); // R-178
    let (story, left) = story.goes_on(&all, 1, Status::AwaitingConsent).await;
    assert_eq!(story.desk.payments.applied().len(), 1); // R-186: without waiting for the others
    let to = Target::Name { run: story.run, name: "paid".to_owned() };
    let signal = SendSignal { to, id: Some("a".to_owned()), payload: canonicalize(b"7").expect("JSON") };
    story.desk.engine.send(local(), signal).await.expect("taken");
    let (story, left) = story.goes_on(&left, 1, Status::AwaitingConsent).await;
    story.pass(HOUR);
    let (story, left) = story.goes_on(&left, 2, Status::AwaitingConsent).await; // R-243: the limit, and what it limited
    let gate = story.question(r#"{"title":"go on?"}"#).await;
    story.desk.decide(gate.id, Verdict::Reject).await.expect("rejected");
    let (story, left) = story.goes_on(&left, 1, Status::AwaitingConsent).await;
    let one = story.question(r#"{"amount":150,"order_id":"one"}"#).await;
    story.desk.decide(one.id, Verdict::Approve).await.expect("approved");
    let (story, left) = story.goes_on(&left, 1, Status::AwaitingTimer).await;
    assert_eq!((left.len(), story.desk.payments.applied().len()), (1, 2)); // R-186
    story.pass(HOUR * 24 * 21 - HOUR);
    let run = story.desk.ended(story.run).await;
    let told = story.desk.result(&run).await;
    assert!(told.ends_with(r#""approval_rejected",7,"wait_expired",null]"#), "{told}"); // R-186
    assert_eq!(run.seq, 6); // R-184: one return each
}
