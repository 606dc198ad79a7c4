//! Outcomes that nobody told (calls.md section 12; runs.md R-301 to R-307).

use crate::world::{TTL, World, args, ok};
use protocol::approval::Verdict;
use protocol::call::{Applied, Identity, Outcome, OutcomeStatus, RecoveryClass, State};
use protocol::code::Code;
use protocol::command::{Act, Answer, Answered, Command, Concluded, Found, Progress};
use protocol::run::Status;
use protocol::tool::Effect;
use std::time::Duration;

#[test]
fn an_unknown_outcome_is_ambiguous_until_a_person_says() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    world.concluded(id, Concluded::Ambiguous { ask: true, seen: None }).expect("recorded");
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_))); // C-121
    let question = world.calls[&id].settle.expect("C-237: asked");
    assert_eq!(world.approval(question).expires_at, None); // C-241
    assert_eq!(world.finish().expect_err("unsettled").code, Code::WaitUnsafe); // R-23
    world.park().expect("parked");
    assert_eq!(world.status(), Status::AwaitingConsent); // C-237
    world.pass(Duration::from_secs(500 * 86_400));
    world.recover();
    assert!(world.approval(question).is_pending()); // C-241: silence settles nothing
    let mut decide = world.decision("ana", question, Verdict::Happened);
    decide.answer = Some(Answered { body: args(r#"{"ok":true}"#), fault: None });
    world.give(Command::Decide(Box::new(decide))).expect("settled");
    let outcome = world.calls[&id].outcome().expect("ended").clone();
    assert_eq!((outcome.status, outcome.applied), (OutcomeStatus::Ok, Applied::Yes)); // C-238
    assert_eq!(world.status(), Status::Queued);
    assert_eq!(world.receipts.len(), 2); // C-125: ambiguous, then settled
    let settled = world.receipts[1].record.value();
    let first = world.receipts[0].digest.to_string();
    assert_eq!(settled.get("settles").and_then(|v| v.as_str()), Some(first.as_str())); // C-124
}

#[test]
fn who_answers_after_the_question_was_given_up_is_told_by_whom() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    world.lapse();
    let question = world.calls[&id].settle.expect("asked");
    world.verdict("ana", question, Verdict::GiveUp).expect("given up");
    let (status, decided_at) = (world.status(), world.now);
    world.pass(Duration::from_secs(5));
    for verdict in [Verdict::DidNotHappen, Verdict::GiveUp] {
        let late = world.verdict("ben", question, verdict).expect_err("ana was first");
        assert_eq!(late.code, Code::AlreadyDecided); // R-166
        let truth = late.truth.expect("who won").value();
        assert_eq!(truth.get("decided_by").and_then(|who| who.as_str()), Some("ana")); // R-166
        let at = truth.get("decided_at").and_then(|at| at.as_str()).map(str::to_owned);
        assert_eq!(at, Some(decided_at.to_string())); // R-166
        assert_eq!(world.kinds(world.events.len() - 1), ["attempt.refused"]); // R-166
    }
    world.verdict("ana", question, Verdict::GiveUp).expect("the same word again"); // R-166
    assert!(matches!(world.calls[&id].state, State::Ambiguous(_)) && world.status() == status);
}

#[test]
pub(super) fn did_not_happen_sends_nothing_again() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    world.lapse();
    assert_eq!(world.status(), Status::AwaitingConsent); // R-287
    let question = world.calls[&id].settle.expect("R-287: a settle question");
    world.verdict("ana", question, Verdict::DidNotHappen).expect("settled");
    let outcome = world.calls[&id].outcome().expect("ended").clone();
    assert_eq!((outcome.status, outcome.code), (OutcomeStatus::Error, Some(Code::EffectNotExecuted))); // C-238
    world.claim(2).expect("claimed");
    assert_eq!(world.dispatch(id).expect_err("ended").code, Code::AlreadyCompleted); // C-239 R-306
}

#[test]
fn a_failed_later_attempt_says_nothing_of_the_one_before() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Idempotent);
    world.concluded(id, Concluded::Ambiguous { ask: false, seen: None }).expect("cut off");
    world.concluded(id, Concluded::Attempt).expect("C-230: the same key again");
    // The second attempt got no connection: it told nothing, and the first is as unknown as before (C-230).
    let State::Ambiguous(gate) = &world.calls[&id].state else { panic!("C-230: still unknown") };
    assert_eq!(gate.attempt, 2); // C-233
    assert_eq!(world.finish().expect_err("unsettled").code, Code::WaitUnsafe); // C-230
    let unsent = denied_by_hand();
    assert_eq!(world.end(id, unsent).expect_err("it was sent").code, Code::AlreadyDispatched); // C-230
    world.concluded(id, Concluded::Attempt).expect("once more");
    world.end(id, ok()).expect("answered");
    assert_eq!(world.calls[&id].outcome().map(|o| o.status), Some(OutcomeStatus::Ok)); // R-301: by its own key's answer
}

fn denied_by_hand() -> Outcome {
    crate::world::denied(Code::ToolUnavailable)
}

#[test]
fn who_may_decide_the_call_may_settle_it_alone() {
    let rule =
        protocol::policy::Obligation { quorum: 2, roles: vec!["finance".to_owned()], ..crate::world::obligation() };
    let mut world = World::new();
    let ask = world.parked(rule);
    for id in ["ana", "ben"] {
        let mut decide = world.decision(id, ask.id, Verdict::Approve);
        decide.by.principal.roles = protocol::principal::Roles::from_iter(["finance"]);
        world.registry.principals.insert(id.to_owned(), decide.by.principal.clone());
        world.give(Command::Decide(Box::new(decide))).expect("a vote");
    }
    world.claim(2).expect("claimed");
    world.allow_writes();
    world.dispatch(ask.call).expect("dispatched");
    world.concluded(ask.call, Concluded::Ambiguous { ask: true, seen: None }).expect("recorded");
    let question = world.calls[&ask.call].settle.expect("asked");
    let rule = &world.approval(question).obligation;
    assert_eq!((rule.quorum, rule.roles.as_slice()), (1, ["finance".to_owned()].as_slice())); // C-240
    let refused = world.verdict("cleo", question, Verdict::DidNotHappen).expect_err("not of finance");
    assert_eq!(refused.code, Code::NotPermitted); // C-240
    let mut decide = world.decision("ana", question, Verdict::DidNotHappen);
    decide.by.principal.roles = protocol::principal::Roles::from_iter(["finance"]);
    decide.reason = None;
    assert_eq!(world.give(Command::Decide(Box::new(decide.clone()))).expect_err("why?").code, Code::ReasonRequired); // C-240
    decide.reason = Some(args("looked it up"));
    world.give(Command::Decide(Box::new(decide))).expect("settled");
    assert!(world.calls[&ask.call].is_ended()); // C-240
}

#[test]
fn what_no_hop_will_try_any_more_is_asked_at_the_end() {
    // A call with a key settles itself, as long as there is a hop that sends it again.
    let ends: [fn(&mut World); 3] = [
        |world| drop(world.fail().expect("failed")),
        |world| {
            world.cancel();
            world.hop(Progress::default(), Act::Acknowledge).expect("acknowledged");
        },
        |world| {
            world.patience.continuations = 0;
            world.lapse();
        },
    ];
    for end in ends {
        let mut world = World::running();
        let id = world.in_flight(RecoveryClass::Idempotent);
        world.concluded(id, Concluded::Ambiguous { ask: false, seen: None }).expect("cut off");
        assert_eq!(world.calls[&id].settle, None);
        end(&mut world);
        let status = world.status();
        assert!(status.is_final());
        let question = world.calls[&id].settle.expect("R-268: a settle approval");
        assert!(world.approval(question).is_pending()); // R-269
        world.verdict("ana", question, Verdict::DidNotHappen).expect("R-307: settled after the end");
        assert!(world.calls[&id].is_ended() && world.status() == status); // R-307
    }
}

/// What a lookup of the engine says of a call: it answered, and found this.
fn found(world: &mut World, call: protocol::id::CallId, outcome: Option<Outcome>) -> bool {
    let mut own = world.call(Effect::Read, RecoveryClass::Retry);
    own.identity = Identity::engine(1);
    let looked = Outcome { applied: Applied::No, ..ok() };
    let (run, patience) = (world.run().id, world.patience);
    let found = Found { run, call, by: Some((own, looked)), outcome, patience, bodies: vec![args("{}")] };
    let Ok(Answer::Settled { changed, .. }) = world.give(Command::Found(Box::new(found))) else { panic!("answered") };
    changed
}

#[test]
fn a_call_that_its_lookup_may_settle_waits_for_it_once_its_hop_is_gone() {
    let stopping = || {
        let mut world = World::running();
        let id = world.in_flight(RecoveryClass::Lookup);
        world.cancel();
        (world, id)
    };
    for (outcome, receipts) in [(Some(ok()), 2), (None, 2)] {
        let (mut world, id) = stopping();
        world.pass(TTL * 4);
        let rows = world.rows.clone();
        assert!(!found(&mut world, id, outcome.clone())); // R-268: its hop may still tell
        assert_eq!(world.rows, rows);
        world.recover();
        assert_eq!(world.status(), Status::Cancelling); // R-268: it is not given up unlooked
        assert!(world.calls[&id].in_flight());
        let known = outcome.is_some();
        assert!(found(&mut world, id, outcome)); // R-268
        assert_eq!((world.status(), world.receipts.len()), (Status::Cancelled, receipts)); // R-268
        assert_eq!(world.calls[&id].is_ended(), known); // R-304
        let asked = world.calls[&id].settle.map(|question| world.approval(question).is_pending());
        assert_eq!(asked, (!known).then_some(true)); // R-269
        assert!(!found(&mut world, id, Some(ok()))); // R-250: it comes too late
    }
    // Before its time nobody gives it up, hop or no hop.
    let (mut world, id) = stopping();
    world.lapse();
    assert!(world.run().claim().is_none() && !found(&mut world, id, None)); // R-268
    assert_eq!(world.status(), Status::Cancelling);
}

#[test]
fn a_hop_cannot_ask_a_settle_question_by_itself() {
    let mut world = World::running();
    let id = world.in_flight(RecoveryClass::Manual);
    let call = world.calls[&id].clone();
    let mut ask = world.ask(&call, crate::world::obligation());
    ask.kind = protocol::approval::Kind::Settle;
    let refused = world.record(Progress { asks: vec![ask], ..Progress::default() });
    assert_eq!(refused.expect_err("not in flight any more?").code, Code::InvalidRequest);
    world.pass(TTL);
    assert!(world.calls[&id].in_flight());
}
