//! The dispatch gate and outcomes (calls.md sections 8, 9 and 12).

use super::lifecycle::{allow_writes, conclude, in_flight, ok_write};
use crate::world::{World, args, obligation};
use protocol::approval::{Ending, Phase, Status as Question, Verdict};
use protocol::call::{Applied, Outcome, OutcomeStatus, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Answer, Concluded, Conclusion, Progress};
use protocol::digest::Digest;
use protocol::id::CallId;
use protocol::journal::Entry;
use protocol::json::canonicalize;
use protocol::policy::Obligation;
use protocol::run::Status;
use protocol::tool::Effect;
use std::time::Duration;

/// An asked write, approved, in the hop that carries it to its gate.
fn approved(world: &mut World, rule: Obligation) -> (CallId, protocol::id::ApprovalId) {
    let ask = world.parked(rule);
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    world.claim(2).expect("claimed");
    (ask.call, ask.id)
}

fn refused(answer: Result<Answer, protocol::refusal::Refusal>) -> Code {
    answer.expect_err("refused").code
}

fn not_dispatched(answer: Result<Answer, protocol::refusal::Refusal>) -> Code {
    match answer {
        Ok(Answer::NotDispatched { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_approval_passes_the_gate_once() {
    let mut world = World::new();
    let (call, approval) = approved(&mut world, obligation());
    assert!(matches!(world.dispatch(call), Ok(Answer::Dispatched { attempt: 1 })));
    let Question::Approved { phase: Phase::Gated { .. }, .. } = world.approvals[&approval].status else {
        panic!("C-153: gated")
    };
    assert_eq!(refused(world.dispatch(call)), Code::AlreadyDispatched); // C-117
    let ended = ok_write(&world, call);
    world.hop(conclude(call, ended.clone()), Act::Record).expect("stored");
    let Question::Approved { phase: Phase::Ended { how, gate_at, .. }, .. } = world.approvals[&approval].status else {
        panic!("C-157: ended")
    };
    assert_eq!((how, gate_at.is_some()), (Ending::Ok, true)); // C-119
    assert_eq!(refused(world.hop(conclude(call, ended), Act::Record)), Code::AlreadyCompleted); // C-118
    assert_eq!(refused(world.dispatch(call)), Code::AlreadyCompleted); // C-117
}

#[test]
fn a_pending_or_rejected_question_lets_nothing_through() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let question = world.ask(&call, obligation());
    let id = call.id;
    let progress =
        Progress { entries: vec![Entry::Call(Box::new(call))], asks: vec![question.clone()], ..Progress::default() };
    world.hop(progress, Act::Record).expect("asked"); // R-172
    assert_eq!(refused(world.dispatch(id)), Code::NotApproved); // C-106
    world.verdict("ana", question.id, Verdict::Reject).expect("rejected");
    assert_eq!(world.status(), Status::Running); // R-172
    assert_eq!(refused(world.dispatch(id)), Code::NotApproved); // C-153
}

#[test]
fn a_yes_lapses_between_decision_and_gate() {
    let mut world = World::new();
    let (call, approval) = approved(&mut world, Obligation { lease: Duration::from_secs(60), ..obligation() });
    world.pass(Duration::from_secs(900));
    renew(&mut world);
    assert_eq!(not_dispatched(world.dispatch(call)), Code::ExpiredBeforeDispatch); // C-107 C-154
    let Question::Approved { phase: Phase::Ended { how, .. }, .. } = world.approvals[&approval].status else {
        panic!("ended")
    };
    assert_eq!(how, Ending::ExpiredBeforeDispatch);
    assert!(matches!(world.calls[&call].state, State::Asked)); // no handler started
}

/// Long waits in these stories are not about claims.
fn renew(world: &mut World) {
    if let Some(protocol::run::Phase::Active { claim, .. }) = world.rows.as_mut().map(|r| &mut r.run.phase) {
        claim.deadline = world.now + Duration::from_secs(30);
    }
}

#[test]
fn a_lapsed_claim_passes_no_gate() {
    let mut world = World::new();
    let (call, _) = approved(&mut world, obligation());
    world.pass(Duration::from_secs(31));
    assert_eq!(refused(world.dispatch(call)), Code::StaleClaim); // R-105 C-104
}

#[test]
fn other_bytes_than_approved_are_never_dispatched() {
    let mut world = World::new();
    let (call, approval) = approved(&mut world, obligation());
    let act = Act::Dispatch {
        call,
        arguments: canonicalize(br#"{"amount":9999}"#).expect("JSON"),
        operands: Vec::new(),
        grant: Digest::of("{}"),
    };
    assert_eq!(not_dispatched(world.hop(Progress::default(), act)), Code::DigestMismatch); // C-108
    let Question::Approved { phase: Phase::Ended { how, .. }, .. } = world.approvals[&approval].status else {
        panic!("ended")
    };
    assert_eq!(how, Ending::InvalidatedBeforeDispatch(Code::DigestMismatch)); // C-155
    assert_eq!(refused(world.dispatch(call)), Code::AlreadyDispatched); // C-106
}

#[test]
fn a_withdrawn_tool_or_revoked_grant_stops_at_the_gate() {
    let mut world = World::new();
    let (call, _) = approved(&mut world, obligation());
    for tool in world.registry.tools.values_mut().flat_map(|versions| versions.values_mut()) {
        tool.withdrawn_at = Some(world.now);
    }
    assert_eq!(not_dispatched(world.dispatch(call)), Code::ToolUnavailable); // C-110
    let mut world = World::new();
    let (call, _) = approved(&mut world, obligation());
    world.registry.revoked_grants.insert(Digest::of("{}"));
    assert_eq!(not_dispatched(world.dispatch(call)), Code::AuthorityUnavailable); // C-110
}

#[test]
fn policy_is_judged_again_at_the_gate() {
    let mut world = World::new();
    let (call, _) = approved(&mut world, obligation());
    let mut policy = (*world.registry.policy).clone();
    policy.default.write = protocol::policy::Outcome::Deny;
    world.registry.policy = std::sync::Arc::new(policy);
    assert_eq!(not_dispatched(world.dispatch(call)), Code::PolicyDenied); // C-111
}

#[test]
fn votes_that_still_meet_the_policy_are_enough() {
    let mut world = World::new();
    let (call, _) = approved(&mut world, obligation());
    world.registry.policy_version = Digest::of("a new version that asks for the same");
    assert!(matches!(world.dispatch(call), Ok(Answer::Dispatched { .. }))); // C-116
}

#[test]
fn an_allowed_write_that_policy_now_asks_for_is_told_so() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let id = call.id;
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    world.hop(progress, Act::Record).expect("entered");
    assert_eq!(not_dispatched(world.dispatch(id)), Code::PolicyChanged); // C-111
    allow_writes(&mut world);
    assert!(matches!(world.dispatch(id), Ok(Answer::Dispatched { .. })));
}

#[test]
fn an_outcome_needs_its_gate() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Write, RecoveryClass::Manual);
    let id = call.id;
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..Progress::default() };
    world.hop(progress, Act::Record).expect("entered");
    let ended = ok_write(&world, id);
    assert_eq!(refused(world.hop(conclude(id, ended), Act::Record)), Code::NotDispatched); // C-118
    let denied = Outcome {
        status: OutcomeStatus::Denied,
        code: Some(Code::PolicyDenied),
        applied: Applied::No,
        body: None,
        gate: None,
        at: world.now,
    };
    world.hop(conclude(id, denied), Act::Record).expect("denied before its gate"); // C-88
    assert_eq!(world.receipts.len(), 1); // C-125
}

#[test]
fn a_dispatched_write_cannot_be_called_denied() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let id = in_flight(&mut world);
    let denied = Outcome {
        status: OutcomeStatus::Denied,
        code: Some(Code::PolicyDenied),
        applied: Applied::No,
        body: None,
        gate: None,
        at: world.now,
    };
    assert_eq!(refused(world.hop(conclude(id, denied), Act::Record)), Code::AlreadyDispatched); // C-88
}

#[test]
fn a_read_needs_no_commit_of_its_own() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let id = call.id;
    let outcome = Outcome {
        status: OutcomeStatus::Ok,
        code: None,
        applied: Applied::No,
        body: Some(args("1").body),
        gate: None,
        at: world.now,
    };
    let progress = Progress { entries: vec![Entry::Call(Box::new(call))], ..conclude(id, outcome) };
    world.hop(progress, Act::Finish { result: args("1") }).expect("done");
    assert_eq!(world.status(), Status::Done); // C-95
    assert!(world.calls[&id].is_ended() && world.receipts.len() == 1); // C-125
}

#[test]
fn an_unknown_outcome_is_ambiguous_until_a_person_says() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let id = in_flight(&mut world);
    let end = Concluded::Ambiguous { ask: true };
    let progress = Progress { conclusions: vec![Conclusion { call: id, end }], ..Progress::default() };
    world.hop(progress, Act::Record).expect("recorded");
    let question = world.calls[&id].settle.expect("asked");
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_))); // C-121
    assert_eq!(world.approvals[&question].expires_at, None); // C-241
    let done = world.hop(Progress::default(), Act::Finish { result: args("1") });
    assert_eq!(refused(done), Code::WaitUnsafe); // R-23
    let progress = Progress::default();
    let checkpoint = world.checkpoint(&progress);
    let mode = protocol::run::WaitMode::Any;
    world.hop(progress, Act::Park { checkpoint, mode, taker: None }).expect("parked");
    assert_eq!(world.status(), Status::AwaitingConsent); // C-237
    world.pass(Duration::from_secs(500 * 86_400));
    world.recover();
    assert!(world.approvals[&question].is_pending()); // C-241: silence settles nothing
    let mut decide = world.decision("ana", question, Verdict::Happened);
    decide.answer = Some(protocol::command::Answered { body: args(r#"{"ok":true}"#), fault: None });
    world.give(protocol::command::Command::Decide(Box::new(decide))).expect("settled");
    let outcome = world.calls[&id].outcome().expect("ended").clone();
    assert_eq!((outcome.status, outcome.applied), (OutcomeStatus::Ok, Applied::Yes)); // C-238
    assert_eq!(world.status(), Status::Queued);
    assert_eq!(world.receipts.len(), 2); // C-125: ambiguous, then settled
    let settled = world.receipts[1].record.value();
    let first = world.receipts[0].digest.to_string();
    assert_eq!(settled.get("settles").and_then(|v| v.as_str()), Some(first.as_str())); // C-124
}

#[test]
fn did_not_happen_sends_nothing_again() {
    let mut world = World::new();
    world.admit();
    world.claim(1).expect("claimed");
    let id = in_flight(&mut world);
    world.pass(Duration::from_secs(31));
    world.recover();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-287
    let question = world.calls[&id].settle.expect("R-287: a settle question");
    world.verdict("ana", question, Verdict::DidNotHappen).expect("settled");
    let outcome = world.calls[&id].outcome().expect("ended").clone();
    assert_eq!((outcome.status, outcome.code), (OutcomeStatus::Error, Some(Code::EffectNotExecuted))); // C-238
    world.claim(2).expect("claimed");
    assert_eq!(refused(world.dispatch(id)), Code::AlreadyCompleted); // C-239 R-306
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
    assert!(!ok.record.as_str().contains("\"amount\"")); // C-129
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
