//! Questions, wait sets, and what their ends do (runs.md section 8).

use crate::world::{World, obligation, ok};
use protocol::approval::{self, Verdict};
use protocol::call::{OutcomeStatus, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Command, Due, Progress, Timer};
use protocol::id::WaitId;
use protocol::journal::Entry;
use protocol::limits::APPROVAL_LEASE_MAX;
use protocol::policy::Obligation;
use protocol::run::{Status, WaitMode};
use protocol::tool::Effect;
use protocol::wait;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn state(world: &World, wait: WaitId) -> Option<wait::State> {
    world.rows().waits.get(wait).map(|w| w.state)
}

/// A read that sleeps, beside whatever is open.
fn sleep(world: &mut World, span: Duration) -> Timer {
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let timer = Timer { wait: world.mint(), call: call.id, due: Due::In(span) };
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], timers: vec![timer], ..Progress::default() };
    world.record(progress).expect("asleep");
    timer
}

#[test]
fn an_approval_lease_is_the_least_of_what_bounds_it() {
    let asked = |days: u32, deadline: Option<u32>| {
        let mut world = World::running_with(|admit| {
            let start = protocol::time::Time::from_millis(1_000_000);
            admit.deadline = deadline.map(|days| start + DAY * days);
        });
        let start = world.now;
        let ask = world.hot(Obligation { lease: DAY * days, ..obligation() });
        world.approval(ask.id).expires_at.map(|at| at.since(start))
    };
    assert_eq!(asked(3, None), Some(DAY * 3)); // R-171
    assert_eq!(asked(1_000, None), Some(APPROVAL_LEASE_MAX)); // R-171
    assert_eq!(asked(1_000, Some(2)), Some(DAY * 2)); // R-171 C-194
}

#[test]
fn a_hot_wait_that_becomes_a_park_asks_nothing_again() {
    let mut world = World::running();
    let ask = world.hot(obligation());
    let (asked, events) = (world.approval(ask.id).clone(), world.events.len());
    world.pass(Duration::from_secs(20));
    world.park().expect("parked");
    assert_eq!(*world.approval(ask.id), asked); // R-173 R-171: the same row, digests and expiry
    assert_eq!((world.approvals.len(), state(&world, ask.wait)), (1, Some(wait::State::Parked))); // R-173
    assert_eq!(world.kinds(events), ["run.awaiting_consent"]); // R-173
}

#[test]
fn the_first_answer_returns_the_run_and_the_others_stay_open() {
    let (mut world, asks) = World::batch(3, WaitMode::Any);
    assert_eq!(asks.each(|ask| state(&world, ask.wait)), [Some(wait::State::Parked); 3]); // R-179
    world.verdict("ana", asks[1].id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Queued, 1)); // R-180
    assert_eq!([0, 2].map(|n| state(&world, asks[n].wait)), [Some(wait::State::Live); 2]); // R-180
    world.verdict("ben", asks[2].id, Verdict::Reject).expect("R-180: still decidable");
    assert!(world.is_at(Status::Queued, 1)); // R-184: no second return
    world.claim(2).expect("claimed");
    world.dispatch(asks[1].call).expect("R-186: without waiting for the others");
    world.end(asks[1].call, ok()).expect("ended");
    assert_eq!(world.dispatch(asks[2].call).expect_err("rejected").code, Code::NotApproved); // R-186
    world.end(asks[2].call, crate::world::denied(Code::ApprovalRejected)).expect("told");
    assert!(world.approval(asks[0].id).is_pending()); // R-186
    world.park().expect("parked");
    assert_eq!(world.rows().waits.keys(|_| true), [asks[0].wait]); // R-185
    world.verdict("cleo", asks[0].id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Queued, 2)); // R-180
}

/// What arrays of questions are asked for.
trait Each<T> {
    fn each<U, const N: usize>(&self, what: impl Fn(&T) -> U) -> [U; N];
}

impl<T> Each<T> for Vec<T> {
    fn each<U, const N: usize>(&self, what: impl Fn(&T) -> U) -> [U; N] {
        let all: Vec<U> = self.iter().map(what).collect();
        all.try_into().unwrap_or_else(|all: Vec<U>| panic!("{} of {N}", all.len()))
    }
}

#[test]
fn an_edit_is_of_its_own_call_alone() {
    let (mut world, asks) = World::batch(2, WaitMode::Any);
    let before = asks.each::<_, 2>(|ask| world.approval(ask.id).binding_digest);
    let edit = world.edited("ana", asks[0].id, r#"{"amount":3}"#);
    world.give(Command::Decide(Box::new(edit))).expect("edited");
    let after = asks.each::<_, 2>(|ask| world.approval(ask.id).binding_digest);
    assert!(after[0] != before[0] && after[1] == before[1]); // R-186
    let calls = asks.each::<_, 2>(|ask| world.calls[&ask.call].edited);
    assert_eq!(calls, [true, false]); // R-186 C-187
    world.claim(2).expect("claimed");
    world.dispatch_bytes(asks[0].call, r#"{"amount":3}"#).expect("R-186: what was approved");
}

#[test]
fn all_of_a_set_return_the_run_with_the_last() {
    let (mut world, asks) = World::batch(3, WaitMode::All);
    for ask in [&asks[2], &asks[0]] {
        let events = world.events.len();
        world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
        assert!(world.is_at(Status::AwaitingConsent, 0)); // R-181
        assert_eq!(world.kinds(events), ["approval.approved"]); // R-181
    }
    world.recover();
    assert!(world.is_at(Status::AwaitingConsent, 0)); // R-181
    world.verdict("ana", asks[1].id, Verdict::Reject).expect("rejected");
    assert!(world.is_at(Status::Queued, 1)); // R-181
    // Members of two kinds are no set to wait for all of.
    let mut world = World::running();
    world.hot(obligation());
    sleep(&mut world, DAY);
    assert_eq!(world.park_in(WaitMode::All).expect_err("two kinds").code, Code::WaitUnsafe); // R-181 R-179
    world.park_in(WaitMode::Any).expect("one of them is enough");
    assert_eq!(world.status(), Status::AwaitingConsent); // R-183
}

#[test]
fn the_first_of_a_set_closes_the_others() {
    let (mut world, asks) = World::batch(3, WaitMode::First);
    world.verdict("ana", asks[1].id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Queued, 1)); // R-182
    for n in [0, 2] {
        let status = &world.approval(asks[n].id).status;
        assert!(matches!(status, approval::Status::Cancelled { by, .. } if by == "system:abandoned")); // R-182
        assert_eq!(state(&world, asks[n].wait), None); // R-182
        let late = world.verdict("ben", asks[n].id, Verdict::Approve).expect_err("closed");
        assert_eq!(late.code, Code::ApprovalCancelled); // R-182
    }
}

#[test]
fn a_question_and_its_limit_are_two_waits_of_which_one_ends() {
    let race = || {
        let mut world = World::running();
        let ask = world.hot(obligation());
        let timer = sleep(&mut world, Duration::from_secs(60));
        world.park_in(WaitMode::First).expect("parked");
        (world, ask, timer)
    };
    let (mut world, ask, timer) = race();
    world.verdict("ana", ask.id, Verdict::Approve).expect("in time");
    world.pass(DAY);
    world.give(Command::Expire { run: world.run().id, wait: timer.wait }).expect("answered");
    assert!(world.is_at(Status::Queued, 1)); // R-243
    assert!(!world.kinds(0).contains(&"timer.fired")); // R-243
    let (mut world, ask, timer) = race();
    world.pass(Duration::from_secs(60));
    world.give(Command::Expire { run: world.run().id, wait: timer.wait }).expect("due");
    assert_eq!(world.verdict("ana", ask.id, Verdict::Approve).expect_err("late").code, Code::ApprovalCancelled); // R-243
    assert!(world.is_at(Status::Queued, 1)); // R-243
}

#[test]
fn what_is_no_member_of_the_set_returns_nothing() {
    let mut world = World::running();
    let first = world.hot(obligation());
    // Ended while the run was active, with its hop still to take it.
    world.verdict("ana", first.id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Running, 0)); // R-33 R-184
    world.dispatch(first.call).expect("dispatched");
    world.end(first.call, ok()).expect("ended");
    let second = world.hot(obligation());
    world.park().expect("parked");
    // An earlier wait, answered long ago: neither its repeat nor a pass is a reason to return.
    world.verdict("ana", first.id, Verdict::Approve).expect("the same answer");
    world.give(Command::Expire { run: world.run().id, wait: first.wait }).expect("nothing");
    world.recover();
    assert!(world.is_at(Status::AwaitingConsent, 0)); // R-33 R-193
    world.verdict("ana", second.id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Queued, 1)); // R-33
    world.verdict("ana", second.id, Verdict::Approve).expect("the same answer");
    assert!(world.is_at(Status::Queued, 1)); // R-184
}

#[test]
pub(super) fn a_run_may_have_256_open_waits_each_decided_alone() {
    let mut world = World::running();
    let mut asks: Vec<_> = (0..256).map(|_| world.hot(obligation())).collect(); // R-178
    let (progress, _) = world.question(obligation());
    assert_eq!(world.record(progress).expect_err("one more").code, Code::ApprovalUnavailable); // R-178 R-179
    world.park().expect("R-179: a set of 256");
    let said = world.events.last().expect("parked").facts.canonical().len();
    assert!(said > 4_096 && said <= 8_192, "{said}"); // R-358
    // In any order: every third first.
    asks.sort_by_key(|ask| (world.calls[&ask.call].position.unwrap_or(0) % 3, ask.id));
    for (n, ask) in asks.iter().enumerate() {
        let verdict = if n % 2 == 0 { Verdict::Approve } else { Verdict::Reject };
        world.verdict("ana", ask.id, verdict).expect("R-178: decided alone");
    }
    assert!(world.is_at(Status::Queued, 1)); // R-184: one return, however many end
    assert!(world.approvals.values().all(|a| !a.is_pending())); // R-178
    assert_eq!(world.rows().waits.iter().filter(|w| w.is_ended()).count(), 256); // R-184
}

#[test]
fn a_question_that_ends_while_its_run_is_elsewhere_is_read_by_the_next_hop() {
    let (mut world, asks) = World::batch(2, WaitMode::Any);
    world.verdict("ana", asks[0].id, Verdict::Approve).expect("approved");
    world.claim(2).expect("claimed");
    world.verdict("ana", asks[1].id, Verdict::Approve).expect("approved");
    assert!(world.is_at(Status::Running, 1)); // R-184
    for ask in &asks {
        world.dispatch(ask.call).expect("R-185: all that ended");
        world.end(ask.call, ok()).expect("ended");
    }
    assert!(asks.iter().all(|ask| matches!(world.calls[&ask.call].state, State::Ended(_))));
    world.finish().expect("done");
    let told = asks.iter().map(|ask| world.calls[&ask.call].outcome().map(|o| o.status));
    assert!(told.into_iter().all(|status| status == Some(OutcomeStatus::Ok)));
}

#[test]
fn a_park_whose_set_is_satisfied_already_returns_in_its_commit() {
    let mut world = World::running();
    let asks = [world.hot(obligation()), world.hot(obligation())];
    world.verdict("ana", asks[0].id, Verdict::Reject).expect("rejected");
    let events = world.events.len();
    world.park().expect("parked");
    assert!(world.is_at(Status::Queued, 1)); // R-175
    assert_eq!(world.kinds(events), ["run.awaiting_consent", "run.queued"]); // R-14
    let mut world = World::running();
    let asks = [world.hot(obligation()), world.hot(obligation())];
    world.verdict("ana", asks[0].id, Verdict::Reject).expect("rejected");
    world.park_in(WaitMode::All).expect("parked");
    assert!(world.is_at(Status::AwaitingConsent, 0)); // R-181
    world.verdict("ana", asks[1].id, Verdict::Reject).expect("rejected");
    assert!(world.is_at(Status::Queued, 1)); // R-181
}

#[test]
pub(super) fn a_run_that_may_not_resume_may_not_park() {
    let mut world = World::running_with(|admit| admit.settings.resume = false);
    world.hot(obligation());
    assert_eq!(world.park().expect_err("hot only").code, Code::ResumeDisabled); // R-137
    let failure = protocol::run::Failure {
        code: Code::ResumeDisabled,
        message: Code::ResumeDisabled.title().to_string(),
        detail: None,
    };
    world.hop(Progress::default(), Act::Fail(failure)).expect("failed");
    assert_eq!(world.status(), Status::Failed); // R-137
}
