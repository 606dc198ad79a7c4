//! Verdicts: who may, what counts, what expires (calls.md section 10).

use crate::world::{TTL, World, args, caller, expiring, obligation, person, worker};
use protocol::able::Able;
use protocol::approval::{Status as Question, Verdict};
use protocol::code::Code;
use protocol::command::{Answer, Command, Decide, Progress, Taker};
use protocol::event::Kind;
use protocol::policy::{Edit as EditRule, Obligation, OnExpiry};
use protocol::principal::Rights;
use protocol::run::Status;
use std::time::Duration;

fn quorum(n: u32) -> Obligation {
    Obligation { quorum: n, ..obligation() }
}

#[test]
fn a_decision_and_the_return_are_one_commit() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let events = world.events.len();
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    assert_eq!((world.status(), world.run().seq), (Status::Queued, 1)); // R-165 E-9
    let kinds: Vec<_> = world.events[events..].iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds, ["approval.approved", "run.queued"]);
    assert_eq!(world.run().delivery().map(|d| d.mode), Some(protocol::delivery::Mode::Resume)); // R-73
}

#[test]
fn a_call_has_one_open_question_at_a_time() {
    let mut world = World::running();
    let first = world.hot(obligation());
    let call = world.calls[&first.call].clone();
    for answered in [false, true] {
        if answered {
            world.verdict("ana", first.id, Verdict::Approve).expect("approved");
        }
        let again = world.ask(&call, obligation());
        let refused = world.record(Progress { asks: vec![again], ..Progress::default() });
        assert_eq!(refused.expect_err("open already").code, Code::AlreadyDispatched);
    }
    assert_eq!(world.approvals.len(), 1);
}

#[test]
fn a_decision_can_claim_for_the_local_worker() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let mut decide = world.decision("ana", ask.id, Verdict::Approve);
    decide.taker =
        Some(Taker { worker: crate::world::worker(9), ttl: Duration::from_secs(30), able: Able::Everything });
    let Ok(Answer::Decided(decided)) = world.give(Command::Decide(Box::new(decide))) else { panic!("decided") };
    assert_eq!(decided.run.status(), Status::Running); // R-116
}

#[test]
pub(super) fn the_first_decision_stands() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    let events = world.events.len();
    let Ok(Answer::Decided(again)) = world.verdict("ana", ask.id, Verdict::Approve) else { panic!("the same answer") };
    assert!(!again.changed); // C-168 R-166
    assert_eq!(world.events.len(), events);
    let other = world.verdict("ben", ask.id, Verdict::Reject).expect_err("decided");
    assert_eq!(other.code, Code::AlreadyDecided); // C-169
    assert!(other.truth.expect("the winner").as_str().contains("\"ana\"")); // C-169
    assert_eq!(world.events.last().map(|e| e.kind), Some(Kind::AttemptRefused)); // C-176
    assert_eq!(world.run().seq, 1);
}

#[test]
pub(super) fn only_those_who_may_decide() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let refused = |world: &mut World, f: &dyn Fn(&mut protocol::command::Decide)| {
        let mut decide = world.decision("ana", ask.id, Verdict::Approve);
        f(&mut decide);
        world.give(Command::Decide(Box::new(decide))).expect_err("refused").code
    };
    let requester = |d: &mut protocol::command::Decide| d.by = caller(person("req"));
    assert_eq!(refused(&mut world, &requester), Code::SelfApprovalForbidden); // C-167
    let no_right = |d: &mut protocol::command::Decide| d.by.principal.rights = Rights::none();
    assert_eq!(refused(&mut world, &no_right), Code::NotPermitted); // C-166
    let no_role = |d: &mut protocol::command::Decide| {
        d.by.principal.roles = protocol::principal::Roles::from_iter(["viewer"]);
    };
    assert_eq!(refused(&mut world, &no_role), Code::NotPermitted); // C-166
    let foreign = |d: &mut protocol::command::Decide| d.by.principal.namespace = "other".into();
    assert_eq!(refused(&mut world, &foreign), Code::NotFound); // C-165
    let program = |d: &mut protocol::command::Decide| {
        d.by.principal.kind = protocol::principal::Kind::Program;
    };
    assert_eq!(refused(&mut world, &program), Code::NotPermitted); // C-178
    let weak = |d: &mut protocol::command::Decide| d.by.strength = protocol::policy::Strength::Link;
    assert_eq!(refused(&mut world, &weak), Code::StrengthRequired); // C-166
    assert!(world.approval(ask.id).is_pending());
    assert_eq!(world.status(), Status::AwaitingConsent);
}

#[test]
pub(super) fn a_verdict_names_the_bytes_it_was_given_for() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let mut decide = world.decision("ana", ask.id, Verdict::Approve);
    decide.arguments_digest = Some(protocol::digest::Digest::of("something else"));
    let refused = world.give(Command::Decide(Box::new(decide.clone()))).expect_err("refused");
    assert_eq!(refused.code, Code::ArgsDigestMismatch); // C-171 C-137
    decide.arguments_digest = None;
    assert_eq!(world.give(Command::Decide(Box::new(decide))).expect_err("refused").code, Code::InvalidRequest);
    let mut reject = world.decision("ana", ask.id, Verdict::Reject);
    reject.arguments_digest = None;
    world.give(Command::Decide(Box::new(reject))).expect("C-171: a reject needs no digest");
}

#[test]
pub(super) fn a_reject_needs_its_reason() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let mut decide = world.decision("ana", ask.id, Verdict::Reject);
    decide.reason = None;
    let refused = world.give(Command::Decide(Box::new(decide))).expect_err("refused");
    assert_eq!(refused.code, Code::ReasonRequired); // C-172
    let mut settle = world.decision("ana", ask.id, Verdict::Happened);
    settle.answer = None;
    let refused = world.give(Command::Decide(Box::new(settle))).expect_err("refused");
    assert_eq!(refused.code, Code::InvalidAnswer); // C-131
}

#[test]
fn two_people_are_two_people() {
    let mut world = World::new();
    let ask = world.parked(quorum(2));
    world.verdict("ana", ask.id, Verdict::Approve).expect("a vote");
    assert_eq!(world.status(), Status::AwaitingConsent); // R-168
    world.verdict("ana", ask.id, Verdict::Approve).expect("the same vote");
    assert!(world.approval(ask.id).is_pending()); // C-179
    world.verdict("ben", ask.id, Verdict::Approve).expect("the second");
    assert!(world.approval(ask.id).is_open_yes()); // C-180
    assert_eq!(world.status(), Status::Queued);
}

#[test]
fn the_latest_vote_of_a_person_counts_until_the_end() {
    let mut world = World::new();
    let ask = world.parked(quorum(2));
    world.verdict("ana", ask.id, Verdict::Approve).expect("a vote");
    world.verdict("ana", ask.id, Verdict::Abstain).expect("C-183: an abstain"); // C-150
    assert_eq!(world.approval(ask.id).tally().approve, 0); // C-181
    world.verdict("ben", ask.id, Verdict::Approve).expect("a vote");
    assert!(world.approval(ask.id).is_pending());
    world.verdict("ana", ask.id, Verdict::Approve).expect("again");
    assert!(world.approval(ask.id).is_open_yes()); // C-183
}

#[test]
fn named_people_who_are_too_few_end_it() {
    let mut world = World::new();
    let rule = Obligation {
        roles: Vec::new(),
        principals: vec!["ana".into(), "ben".into()],
        quorum: 2,
        reject_quorum: 2,
        ..obligation()
    };
    let ask = world.parked(rule);
    world.verdict("ana", ask.id, Verdict::Reject).expect("a vote");
    let Question::Rejected { by, .. } = &world.approval(ask.id).status else { panic!("ended") };
    assert_eq!(*by, protocol::approval::Closer::QuorumUnreachable); // C-182
    assert_eq!(world.status(), Status::Queued);
}

#[test]
fn an_edit_voids_earlier_votes() {
    let mut world = World::new();
    let ask = world.parked(quorum(2));
    world.verdict("ana", ask.id, Verdict::Approve).expect("a vote");
    let before = world.approval(ask.id).clone();
    let decide = world.edited("ben", ask.id, r#"{"amount":3}"#);
    world.give(Command::Decide(Box::new(decide))).expect("edited");
    let after = world.approval(ask.id).clone();
    assert_eq!((after.binding.revision, after.tally().approve), (2, 1)); // C-184
    assert_ne!(after.binding_digest, before.binding_digest); // C-137
    assert!(after.expires_at <= before.expires_at); // C-185
    assert_eq!(after.asked_arguments, before.asked_arguments);
    assert!(world.calls[&ask.call].edited); // C-186
    let stale = world.decision("cleo", ask.id, Verdict::Approve);
    let stale = protocol::command::Decide { arguments_digest: Some(before.arguments.digest), ..stale };
    let refused = world.give(Command::Decide(Box::new(stale))).expect_err("old bytes");
    assert_eq!(refused.code, Code::ArgsDigestMismatch); // C-171
    world.verdict("ana", ask.id, Verdict::Approve).expect("the second on the new bytes");
    assert!(world.approval(ask.id).is_open_yes());
}

#[test]
fn an_editors_own_yes_does_not_count_under_second() {
    let mut world = World::new();
    let ask = world.parked(Obligation { edit: EditRule::Second, ..obligation() });
    let decide = world.edited("ben", ask.id, r#"{"amount":3}"#);
    world.give(Command::Decide(Box::new(decide))).expect("edited");
    assert!(world.approval(ask.id).is_pending()); // C-184
    world.verdict("ana", ask.id, Verdict::Approve).expect("the other");
    assert!(world.approval(ask.id).is_open_yes());
}

#[test]
pub(super) fn an_edit_that_the_rule_or_the_schema_forbids_is_refused() {
    let mut world = World::new();
    let ask = world.parked(Obligation { edit: EditRule::No, ..obligation() });
    let decide = world.edited("ana", ask.id, "{}");
    assert_eq!(world.give(Command::Decide(Box::new(decide))).expect_err("no").code, Code::EditRefused); // C-173
    let mut world = World::new();
    let ask = world.parked(obligation());
    let mut decide = world.edited("ana", ask.id, "{}");
    decide.edit.as_mut().expect("edited").fault = Some((Code::InvalidArguments, "`/amount`: missing".into()));
    let refused = world.give(Command::Decide(Box::new(decide))).expect_err("schema");
    assert_eq!(refused.code, Code::EditRefused); // C-173
    assert!(refused.detail.contains("invalid_arguments"));
    assert_eq!(world.approval(ask.id).binding.revision, 1);
}

#[test]
pub(super) fn expiry_is_judged_in_the_deciding_statement() {
    let mut world = World::new();
    let ask = world.parked(expiring(obligation(), OnExpiry::Reject));
    world.pass(Duration::from_secs(60));
    // Nobody swept; the approve comes at the very moment, by a door beside a worker with room. That worker does not take the
    // run: a refusal tells it of none.
    let taker = Some(Taker { worker: worker(1), ttl: TTL, able: Able::Everything });
    let decide = Decide { taker, ..world.decision("ana", ask.id, Verdict::Approve) };
    let late = world.give(Command::Decide(Box::new(decide))).expect_err("expired");
    assert_eq!(late.code, Code::ApprovalExpired); // C-170 C-174
    let approval = &world.approval(ask.id);
    assert!(matches!(approval.status, Question::Expired { .. }) && approval.votes.is_empty()); // C-175
    assert_eq!(world.status(), Status::Queued); // R-170: as a reject does
}

#[test]
fn a_late_no_is_kept_as_said() {
    let mut world = World::new();
    let ask = world.parked(expiring(obligation(), OnExpiry::Reject));
    world.pass(Duration::from_secs(61));
    let late = world.verdict("ana", ask.id, Verdict::Reject).expect_err("expired");
    assert_eq!(late.code, Code::ApprovalExpired); // R-169
    let approval = &world.approval(ask.id);
    assert!(matches!(approval.status, Question::Expired { .. })); // C-148
    assert!(approval.votes.len() == 1 && approval.votes[0].late); // C-175
}

#[test]
fn a_moment_before_the_expiry_is_in_time() {
    let mut world = World::new();
    let ask = world.parked(expiring(obligation(), OnExpiry::Reject));
    world.pass(Duration::from_secs(60) - Duration::from_micros(1));
    world.verdict("ana", ask.id, Verdict::Approve).expect("in time"); // C-174
    let Question::Approved { valid_until, at, .. } = world.approval(ask.id).status else { panic!("approved") };
    assert_eq!(valid_until, Some(at + Duration::from_secs(900))); // C-114
}

#[test]
fn a_timer_makes_the_same_decision_unasked() {
    let mut world = World::new();
    let ask = world.parked(expiring(obligation(), OnExpiry::Reject));
    let early = world.give(Command::Expire { run: world.run().id, wait: ask.wait });
    assert!(matches!(early, Ok(Answer::Settled { changed: false, .. })));
    world.pass(Duration::from_secs(60));
    let Ok(Answer::Settled { changed: true, .. }) = world.give(Command::Expire { run: world.run().id, wait: ask.wait })
    else {
        panic!("expired")
    };
    assert_eq!(world.status(), Status::Queued); // R-170 C-151
    let again = world.give(Command::Expire { run: world.run().id, wait: ask.wait });
    assert!(matches!(again, Ok(Answer::Settled { changed: false, .. }))); // R-3
}

#[test]
fn an_expiry_may_fail_the_run() {
    let mut world = World::new();
    let ask = world.parked(expiring(obligation(), OnExpiry::Fail));
    world.pass(Duration::from_secs(60));
    world.give(Command::Expire { run: world.run().id, wait: ask.wait }).expect("expired");
    assert_eq!(world.status(), Status::Failed); // E-15 E-18 C-191
    assert_eq!(world.run().failure().map(|f| f.code), Some(Code::ApprovalExpired));
}

#[test]
pub(super) fn an_unknown_approval_is_one_answer() {
    let mut world = World::new();
    world.parked(obligation());
    let unknown = world.mint();
    let mut decide = world.decision("ana", unknown, Verdict::Approve);
    decide.arguments_digest = Some(args("{}").body.digest);
    let refused = world.give(Command::Decide(Box::new(decide))).expect_err("unknown");
    assert_eq!(refused.code, Code::NotFound); // R-193 C-165
}

#[test]
fn silence_and_views_decide_nothing() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    for _ in 0..10 {
        world.recover();
    }
    assert!(world.approval(ask.id).is_pending()); // C-159
    assert_eq!((world.status(), world.run().seq), (Status::AwaitingConsent, 0)); // R-316
}

#[test]
fn a_rejected_question_returns_the_run() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    world.verdict("ana", ask.id, Verdict::Reject).expect("rejected");
    assert_eq!(world.status(), Status::Queued); // C-148
    assert!(matches!(world.approval(ask.id).status, Question::Rejected { .. }));
}
