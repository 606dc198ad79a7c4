//! The dispatch gate and outcomes (calls.md sections 8 and 9).

use crate::world::{World, args, denied, grant, obligation, ok};
use protocol::approval::{Approval, Ending, Phase, Status as Question, Verdict};
use protocol::call::{Applied, Outcome, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Answer, Concluded, Conclusion, Progress};
use protocol::digest::Digest;
use protocol::journal::Entry;
use protocol::json::canonicalize;
use protocol::policy::Obligation;
use protocol::refusal::Refusal;
use protocol::registry::Withdrawal;
use protocol::run::Status;
use protocol::tool::Effect;
use std::sync::Arc;
use std::time::Duration;

fn refused(answer: Result<Answer, Refusal>) -> Code {
    answer.expect_err("refused").code
}

fn not_dispatched(answer: Result<Answer, Refusal>) -> Code {
    match answer {
        Ok(Answer::NotDispatched { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

fn ended(approval: &Approval) -> (Ending, bool) {
    match approval.status {
        Question::Approved { phase: Phase::Ended { how, gate_at, .. }, .. } => (how, gate_at.is_some()),
        ref other => panic!("{other:?}"),
    }
}

#[test]
pub(super) fn an_approval_passes_the_gate_once() {
    let (mut world, call, approval) = World::approved(obligation());
    assert!(matches!(world.dispatch(call), Ok(Answer::Dispatched { attempt: 1 })));
    let Question::Approved { phase: Phase::Gated { .. }, .. } = world.approval(approval).status else {
        panic!("C-153: gated")
    };
    assert_eq!(refused(world.dispatch(call)), Code::AlreadyDispatched); // C-117
    world.end(call, ok()).expect("stored");
    assert_eq!(ended(world.approval(approval)), (Ending::Ok, true)); // C-119
    assert_eq!(refused(world.end(call, ok())), Code::AlreadyCompleted); // C-118
    assert_eq!(refused(world.dispatch(call)), Code::AlreadyCompleted); // C-117
}

#[test]
pub(super) fn a_pending_or_rejected_question_lets_nothing_through() {
    let mut world = World::running();
    let ask = world.hot(obligation()); // R-172
    assert_eq!(refused(world.dispatch(ask.call)), Code::NotApproved); // C-106
    world.verdict("ana", ask.id, Verdict::Reject).expect("rejected");
    assert_eq!(world.status(), Status::Running); // R-172
    assert_eq!(refused(world.dispatch(ask.call)), Code::NotApproved); // C-153
}

#[test]
pub(super) fn a_tool_that_became_another_one_lets_nothing_through() {
    let (mut world, call, approval) = World::approved(obligation());
    let versions = world.registry.tools.get_mut("payments.refund").expect("a tool");
    versions.get_mut("1").expect("its version").digest = Digest::of("another tool under the same version");
    assert_eq!(not_dispatched(world.dispatch(call)), Code::ToolChanged); // R-348 C-110
    let how = Ending::InvalidatedBeforeDispatch(Code::ToolChanged);
    assert_eq!(ended(world.approval(approval)), (how, false)); // C-110
    assert_eq!(world.status(), Status::Running); // R-348: it ends the call and not the run
}

#[test]
pub(super) fn a_yes_lapses_between_decision_and_gate() {
    let (mut world, call, approval) = World::approved(Obligation { lease: Duration::from_secs(60), ..obligation() });
    world.pass(Duration::from_secs(900));
    world.renew();
    assert_eq!(not_dispatched(world.dispatch(call)), Code::ExpiredBeforeDispatch); // C-107 C-154
    assert_eq!(ended(world.approval(approval)), (Ending::ExpiredBeforeDispatch, false));
    assert!(matches!(world.calls[&call].state, State::Asked)); // no handler started
}

#[test]
pub(super) fn a_lapsed_claim_passes_no_gate() {
    let (mut world, call, _) = World::approved(obligation());
    world.pass(Duration::from_secs(31));
    assert_eq!(refused(world.dispatch(call)), Code::StaleClaim); // R-105 C-104
}

#[test]
pub(super) fn other_bytes_than_approved_are_never_dispatched() {
    let (mut world, call, approval) = World::approved(obligation());
    assert_eq!(not_dispatched(world.dispatch_bytes(call, r#"{"amount":9999}"#)), Code::DigestMismatch); // C-108 C-291
    let invalidated = Ending::InvalidatedBeforeDispatch(Code::DigestMismatch);
    assert_eq!(ended(world.approval(approval)), (invalidated, false)); // C-155
    assert_eq!(refused(world.dispatch(call)), Code::AlreadyDispatched); // C-106
}

#[test]
fn a_binding_that_is_not_what_was_approved_runs_nothing() {
    // Whatever is bound; each alone, in an approval that was given for something else.
    let other = Digest::of("something else");
    let changes: [fn(&mut Approval, Digest); 9] = [
        |a, other| Arc::make_mut(&mut a.binding).arguments = other,
        |a, other| Arc::make_mut(&mut a.binding).tool_digest = other,
        |a, other| Arc::make_mut(&mut a.binding).plan = other,
        |a, other| Arc::make_mut(&mut a.binding).policy = other,
        |a, other| Arc::make_mut(&mut a.binding).obligation = other,
        |a, _| Arc::make_mut(&mut a.binding).call.push('0'),
        |a, _| Arc::make_mut(&mut a.binding).requester = "somebody else".to_owned(),
        |a, _| Arc::make_mut(&mut a.binding).revision += 1,
        |a, other| a.binding_digest = other,
    ];
    for change in changes {
        let (mut world, call, id) = World::approved(obligation());
        change(world.approvals.get_mut(&id).expect("approved"), other);
        let rows = world.rows.as_mut().expect("rows");
        change(rows.approvals.edit(id).expect("open"), other);
        assert_eq!(not_dispatched(world.dispatch(call)), Code::DigestMismatch); // R-190
        let invalidated = Ending::InvalidatedBeforeDispatch(Code::DigestMismatch);
        assert_eq!(ended(world.approval(id)), (invalidated, false)); // R-190
        assert_eq!(refused(world.dispatch(call)), Code::AlreadyDispatched); // R-190: fresh consent or nothing
    }
    let (mut world, call, _) = World::approved(obligation());
    let rows = world.rows.as_mut().expect("rows");
    rows.calls.edit(call).expect("open").approval = None;
    assert_eq!(refused(world.dispatch(call)), Code::NotApproved); // R-190: absent
}

#[test]
pub(super) fn a_right_that_is_gone_by_the_time_of_the_gate_is_gone() {
    let (mut world, call, _) = World::approved(obligation());
    for tool in world.registry.tools.values_mut().flat_map(|versions| versions.values_mut()) {
        tool.withdrawn = Some(Withdrawal { at: world.now, by: "ana".to_owned(), reason: None });
    }
    assert_eq!(not_dispatched(world.dispatch(call)), Code::ToolUnavailable); // C-110
    let told = |world: &mut World, call| match world.dispatch(call) {
        Ok(Answer::NotDispatched { code, detail }) => (code, detail),
        other => panic!("{other:?}"),
    };
    let (mut world, call, _) = World::approved(obligation());
    world.registry.revoked_grants.insert(crate::world::grant());
    let revoked = (Code::AuthorityUnavailable, "authority unavailable: revoked".to_owned());
    assert_eq!(told(&mut world, call), revoked); // C-110 R-191
    let (mut world, call, _) = World::approved(obligation());
    let end = world.now;
    world.rows.as_mut().expect("rows").run.settings.not_after = Some(end);
    let expired = (Code::AuthorityUnavailable, "authority unavailable: expired".to_owned());
    assert_eq!(told(&mut world, call), expired); // R-191
}

#[test]
pub(super) fn policy_is_judged_again_at_the_gate() {
    let (mut world, call, _) = World::approved(obligation());
    let mut policy = (*world.registry.policy).clone();
    policy.default.write = protocol::policy::Outcome::Deny;
    world.registry.policy = std::sync::Arc::new(policy);
    assert_eq!(not_dispatched(world.dispatch(call)), Code::PolicyDenied); // C-111 R-341
}

#[test]
fn votes_that_still_meet_the_policy_are_enough() {
    let (mut world, call, _) = World::approved(obligation());
    world.registry.policy_version = Digest::of("a new version that asks for the same");
    assert!(matches!(world.dispatch(call), Ok(Answer::Dispatched { .. }))); // C-116
}

#[test]
pub(super) fn a_policy_that_answers_for_people_makes_no_wait_and_is_asked_again_at_the_gate() {
    let mut world = World::running();
    world.allow_writes();
    let id = world.enter(Effect::Write, RecoveryClass::Manual);
    assert!(matches!(world.dispatch(id), Ok(Answer::Dispatched { .. })));
    assert!(world.approvals.is_empty() && world.rows().waits.iter().next().is_none()); // R-192
    assert_eq!(world.status(), Status::Running); // R-192
    let mut world = World::running();
    let id = world.enter(Effect::Write, RecoveryClass::Manual);
    // Nobody said no: the policy that would have let it pass is not the policy any more.
    assert_eq!(not_dispatched(world.dispatch(id)), Code::PolicyChanged); // C-111 R-192
    world.allow_writes();
    assert!(matches!(world.dispatch(id), Ok(Answer::Dispatched { .. })));
}

#[test]
pub(super) fn an_outcome_needs_its_gate() {
    let mut world = World::running();
    let id = world.enter(Effect::Write, RecoveryClass::Manual);
    assert_eq!(refused(world.end(id, ok())), Code::NotDispatched); // C-118
    world.end(id, denied(Code::PolicyDenied)).expect("denied before its gate"); // C-88
    assert_eq!(world.receipts.len(), 1); // C-125
}

#[test]
fn a_dispatched_write_cannot_be_called_denied() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    assert_eq!(refused(world.end(id, denied(Code::PolicyDenied))), Code::AlreadyDispatched); // C-88
}

#[test]
fn a_read_needs_no_commit_of_its_own() {
    let mut world = World::running();
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let id = call.id;
    let outcome = Outcome { applied: Applied::No, body: Some(args("1").body), at: world.now, ..ok() };
    let conclusions = vec![Conclusion { call: id, end: Concluded::Ended(outcome) }];
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], conclusions, ..Progress::default() };
    world.hop(progress, Act::Finish { result: args("1") }).expect("done");
    assert_eq!(world.status(), Status::Done); // C-95
    assert!(world.calls[&id].is_ended() && world.receipts.len() == 1); // C-125
}

#[test]
fn a_receipts_id_is_known_before_its_outcome() {
    let mut world = World::new();
    world.admit();
    let run = world.run().clone();
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let facts = |outcome, result| protocol::call::ReceiptFacts {
        hop: 0,
        outcome,
        code: None,
        applied: Applied::Yes,
        result,
        policy: None,
        gate_at: None,
        attempt: 1,
        ended_at: world.now,
        settles: None,
    };
    use protocol::call::{Receipt, ReceiptOutcome};
    let ok = Receipt::write(&run, &call, &facts(ReceiptOutcome::Ok, Some(Digest::of("1"))));
    let error = Receipt::write(&run, &call, &facts(ReceiptOutcome::Error, None));
    assert_eq!(ok.id, error.id); // C-126
    assert_ne!(ok.digest, error.digest); // C-126
    assert!(!ok.record.canonical().as_str().contains("\"amount\"")); // C-129
}

#[test]
fn one_key_for_all_attempts_of_a_call_and_no_other() {
    let mut world = World::new();
    world.admit();
    let call = world.call(Effect::Write, RecoveryClass::Idempotent);
    assert!(call.key().starts_with("stasis-") && call.key().len() == 7 + 64); // C-226
    let mut edited = call.clone();
    edited.arguments = args(r#"{"amount":3}"#).body;
    let mut other = call.clone();
    other.identity = protocol::call::Identity::main(2);
    let mut another_run = call.clone();
    another_run.run = world.mint();
    for changed in [edited, other, another_run] {
        assert_ne!(changed.key(), call.key()); // C-227
    }
}

#[test]
pub(super) fn content_that_is_another_than_when_it_was_approved_runs_nothing() {
    let content = |text: &str| ("/file".to_owned(), Digest::of(text));
    let read = |now: Vec<(String, Digest)>| {
        let mut world = World::running();
        let (mut progress, ask) = world.question(obligation());
        progress.asks[0].operands = vec![content("as it was shown")];
        world.record(progress).expect("asked");
        world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
        let arguments = canonicalize(br#"{"amount":5}"#).expect("JSON");
        let gate = Act::Dispatch { call: ask.call, arguments, operands: now, grant: grant() };
        (world.hop(Progress::default(), gate), world, ask)
    };
    let (passed, ..) = read(vec![content("as it was shown")]);
    assert!(matches!(passed, Ok(Answer::Dispatched { attempt: 1 })), "{passed:?}");
    for now in [vec![content("swapped since")], Vec::new()] {
        let (answer, world, ask) = read(now);
        assert_eq!(not_dispatched(answer), Code::OperandChanged); // C-109
        let invalidated = Ending::InvalidatedBeforeDispatch(Code::OperandChanged);
        assert_eq!(ended(world.approval(ask.id)), (invalidated, false)); // C-109
    }
}
