//! Two models that do not fit together, and runs that need one each.

use super::House;
use crate::desk::eventually;
use protocol::event::Kind;
use protocol::run::Status;

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_take_turns_and_both_get_their_model() {
    let house = House::open().await;
    let (small, large) = (house.ask("small", 2).await, house.ask("large", 2).await);
    eventually("a run that waits for hardware", async || house.read(small).await.status() == Status::AwaitingHardware)
        .await;
    let (small, large) = (house.desk.ended(small).await, house.desk.ended(large).await);
    assert_eq!((small.status(), large.status()), (Status::Done, Status::Done), "{small:?} {large:?}");
    assert_eq!(house.desk.result(&small).await, r#"["HELLO","HELLO"]"#);
    // In place all the time: the first claim, the first hop (R-142).
    assert_eq!((small.seq, small.fence, large.seq, large.fence), (0, 1, 0, 1)); // R-142
    for (run, name) in [(&small, "chat:small"), (&large, "chat:large")] {
        let made = &run.budget.hardware;
        assert!((1..=2).contains(&made.total) && made.in_row(name) == made.total, "{made:?}"); // R-144
        assert!(run.clocks.hold > 0, "{:?}", run.clocks); // R-373
        let kinds = house.kinds(run.id).await;
        let count = |kind: Kind| kinds.iter().filter(|known| **known == kind).count();
        assert_eq!(count(Kind::Run(Status::AwaitingHardware)), made.total as usize); // R-353
        assert_eq!(
            (count(Kind::NodeWaiting), count(Kind::NodeEntered)),
            (made.total as usize, made.total as usize + 1)
        ); // R-134
    }
    // Never both at once: what was there ended before the other was started.
    let told = house.told();
    for (at, line) in told.iter().enumerate().filter(|(_, line)| line.starts_with("start ")) {
        let open = told[..at].iter().filter(|line| line.starts_with("start ")).count();
        let ended = told[..at].iter().filter(|line| line.starts_with("end ")).count();
        assert_eq!(open, ended, "{line}: {told:?}"); // R-156 R-158
    }
    assert!(house.desk.engine.resources().iter().all(|resource| resource.leases.is_empty())); // C-84 R-153
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_it_warm_waits_for_nothing_and_counts_nothing() {
    let house = House::open().await;
    let first = house.ask("small", 1).await;
    assert_eq!(house.desk.ended(first).await.budget.hardware.total, 1); // R-146
    let second = house.ask("small", 2).await;
    let second = house.desk.ended(second).await;
    assert_eq!((second.status(), second.budget.hardware.total), (Status::Done, 0)); // R-146
    assert_eq!(house.told(), ["start small", "ready small"]); // R-155
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_batch_that_need_both_go_one_after_the_other() {
    let house = House::open().await;
    let source = "done = stasis.parallel(small.ask.later(text='a'), large.ask.later(text='b'))\nresult = [d['reply'] for d in done]";
    let run = house.desk.run(source, "{}").await;
    let run = house.desk.ended(run.id).await;
    assert_eq!(run.status(), Status::Done, "{:?}", run.failure());
    assert_eq!(house.desk.result(&run).await, r#"["A","B"]"#);
    assert_eq!(run.budget.hardware.total, 2); // R-150: one hold at a time, each of its own
    house.close().await;
}
