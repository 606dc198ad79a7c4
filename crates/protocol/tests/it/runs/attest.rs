//! A person vouches for what nobody else will tell of (runs.md section 13).

use crate::world::World;
use protocol::call::{RecoveryClass, State as CallState};
use protocol::code::Code;
use protocol::command::{Act, Answer, Command, Progress};
use protocol::event::Kind;
use protocol::obligation::{State, Subject};
use protocol::principal::Rights;
use protocol::run::Status;
use std::time::Duration;

fn changed(answer: Result<Answer, protocol::refusal::Refusal>) -> bool {
    match answer.expect("answered") {
        Answer::Settled { changed, .. } => changed,
        other => panic!("{other:?}"),
    }
}

/// Whose word the run has for it, and why.
fn word(world: &World, subject: Subject) -> Option<(&str, &str)> {
    match &world.rows().obligations.get(subject)?.state {
        State::Attested { by, reason, .. } => Some((by, reason)),
        State::Open | State::Acknowledged { .. } => None,
    }
}

#[test]
fn the_last_attestation_ends_the_run_and_is_never_told_as_an_acknowledgement() {
    let mut world = World::running();
    let call = world.in_flight(RecoveryClass::Manual);
    world.cancel();
    let (hop, token) = (Subject::Hop(0), world.token());
    let events = world.events.len();
    assert!(changed(world.attest(hop)));
    assert_eq!(world.kinds(events), ["containment.attested"]); // R-271 R-356
    assert_eq!((world.status(), world.run().claim()), (Status::Cancelling, None));
    let late = world.hop_as(token, Progress::default(), Act::Acknowledge).expect_err("its claim is gone");
    assert_eq!(late.code, Code::StaleClaim);
    assert!(!changed(world.attest(hop))); // the word stands as it was given

    let events = world.events.len();
    assert!(changed(world.attest(Subject::Call(call))));
    let kinds = world.kinds(events);
    assert!(!kinds.contains(&"containment.acknowledged"), "{kinds:?}");
    assert_eq!((kinds[0], *kinds.last().expect("events")), ("containment.attested", "run.cancelled")); // E-17
    // That it runs no more says nothing of what it did.
    assert!(matches!(world.calls[&call].state, CallState::Ambiguous(_)));
    assert!(world.calls[&call].settle.is_some());
    for subject in [hop, Subject::Call(call)] {
        assert_eq!(word(&world, subject), Some(("ana", "its machine is switched off")));
    }
    world.pass(Duration::from_secs(86_400));
    assert!(!changed(world.attest(hop))); // a final run is answered with what it is
}

#[test]
fn a_failing_run_ends_with_the_attestation_of_its_call() {
    let mut world = World::running();
    let call = world.in_flight(RecoveryClass::Manual);
    world.fail().expect("failing");
    world.hop(Progress::default(), Act::Acknowledge).expect("the hop stopped");
    assert_eq!(world.status(), Status::Failing);
    assert!(changed(world.attest(Subject::Call(call))));
    assert_eq!(world.status(), Status::Failed); // E-18
}

#[test]
fn an_attested_job_holds_no_run_back_and_its_agent_may_still_speak() {
    let mut world = World::running();
    let job = world.delegates(None);
    world.park().expect("parked");
    let token = world.claim_job("ana", job).expect("claimed");
    world.cancel();
    assert!(changed(world.attest(Subject::Job(job))));
    assert_eq!(world.status(), Status::Cancelled); // E-17
    let given_up = &world.jobs[&job];
    assert_eq!((given_up.state.as_str(), given_up.stopped_at), ("lost", None)); // its agent did not say so
    let row = world.ack_cancel("ana", job, token).expect("late, and heard");
    assert_eq!(row.stopped_at, Some(world.now));
    assert!(word(&world, Subject::Job(job)).is_some()); // the first word stays what it was
}

#[test]
fn only_who_may_attests_with_a_reason_and_of_what_was_asked_to_stop() {
    let mut world = World::running();
    let call = world.in_flight(RecoveryClass::Manual);
    assert_eq!(world.attest(Subject::Call(call)).expect_err("it runs").code, Code::IllegalTransition);
    world.cancel();
    let events = world.events.len();
    let mut wordless = world.attestation(Subject::Hop(0));
    wordless.reason = "  ".to_owned();
    assert_eq!(world.give(Command::Attest(wordless)).expect_err("no reason").code, Code::ReasonRequired);
    let mut powerless = world.attestation(Subject::Hop(0));
    powerless.by.principal.rights = Rights::none();
    assert_eq!(world.give(Command::Attest(powerless)).expect_err("no right").code, Code::NotPermitted);
    let mut foreign = world.attestation(Subject::Hop(0));
    foreign.by.principal.namespace = "elsewhere".to_owned();
    assert_eq!(world.give(Command::Attest(foreign)).expect_err("not theirs").code, Code::NotFound);
    assert!(!world.events[events..].iter().any(|event| event.kind == Kind::ContainmentAttested));
    assert_eq!(world.status(), Status::Cancelling);
}
