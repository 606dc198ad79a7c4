//! More time for a question (C-158, C-192).

use crate::world::{World, args, caller, expiring, obligation, person};
use protocol::approval::{Status as Question, Verdict};
use protocol::code::Code;
use protocol::command::{Answer, Command, Extend};
use protocol::event::Kind;
use protocol::id::ApprovalId;
use protocol::policy::{Obligation, OnExpiry};
use protocol::refusal::Refusal;
use protocol::run::Status;
use protocol::time::Time;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn extend(world: &mut World, who: &str, approval: ApprovalId, until: Time) -> Result<bool, Refusal> {
    let reason = Some(args("the board meets on Monday"));
    let extend = Extend { by: caller(person(who)), approval, until, reason };
    match world.give(Command::Extend(Box::new(extend)))? {
        Answer::Decided(decided) => Ok(decided.changed),
        other => panic!("{other:?}"),
    }
}

fn expiry(world: &World, approval: ApprovalId) -> Time {
    world.approval(approval).expires_at.expect("it expires")
}

#[test]
fn a_question_with_more_time_is_open_beyond_its_first_expiry() {
    let mut world = World::new();
    let ask = world.parked(expiring(obligation(), OnExpiry::Fail));
    let (binding, first) = (world.approval(ask.id).binding_digest, expiry(&world, ask.id));
    assert!(extend(&mut world, "ana", ask.id, first + HOUR).expect("extended"));
    assert_eq!(expiry(&world, ask.id), first + HOUR); // C-158
    assert_eq!(world.rows().waits.get(ask.wait).expect("open").due_at, Some(first + HOUR)); // C-158
    assert_eq!(world.approval(ask.id).binding_digest, binding);
    assert!(world.approval(ask.id).votes.is_empty());
    let event = world.events.last().expect("told").clone();
    assert_eq!(event.kind, Kind::ApprovalExtended); // C-192: a recorded act
    let facts = event.facts.value();
    let fact = |key: &str| facts.get(key).and_then(|fact| fact.as_str()).map(str::to_owned);
    assert_eq!(fact("principal").as_deref(), Some("ana")); // C-192 I-38
    assert_eq!(fact("expires_at"), Some((first + HOUR).to_string())); // C-192
    assert!(fact("reason_digest").is_some() && fact("request").is_some()); // I-38
    // The same again changes nothing.
    assert!(!extend(&mut world, "ben", ask.id, first + HOUR).expect("as it stands"));

    world.pass(first.since(world.now) + HOUR / 2);
    world.give(Command::Expire { run: world.run().id, wait: ask.wait }).expect("nothing is due");
    assert!(world.approval(ask.id).is_pending()); // C-158
    world.verdict("ben", ask.id, Verdict::Approve).expect("in time"); // C-158
    assert_eq!(world.status(), Status::Queued);
}

#[test]
fn time_is_given_by_who_may_decide_and_did_not_ask() {
    let mut world = World::new();
    // The rule lets the requester decide, and still not keep the own question open.
    let ask = world.parked(Obligation { separate_requester: false, ..obligation() });
    let later = expiry(&world, ask.id) + HOUR;
    let refused =
        |world: &mut World, extend: Extend| world.give(Command::Extend(Box::new(extend))).expect_err("refused");
    let base = Extend { by: caller(person("ana")), approval: ask.id, until: later, reason: None };
    let own = Extend { by: caller(person("req")), ..base.clone() };
    assert_eq!(refused(&mut world, own).code, Code::SelfApprovalForbidden); // C-192
    assert_eq!(world.events.last().map(|event| event.kind), Some(Kind::AttemptRefused)); // C-176
    let mut stranger = base.clone();
    stranger.by.principal.roles = protocol::principal::Roles::from_iter(["viewer"]);
    assert_eq!(refused(&mut world, stranger).code, Code::NotPermitted); // C-192
    let mut foreign = base;
    foreign.by.principal.namespace = "other".into();
    assert_eq!(refused(&mut world, foreign).code, Code::NotFound); // C-165
    assert_eq!(expiry(&world, ask.id) + HOUR, later);
}

#[test]
fn time_is_given_within_bounds_and_never_taken() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let (created, first) = (world.approval(ask.id).binding.created_at, expiry(&world, ask.id));
    let longest = created + 400 * DAY;
    for (until, good) in [(first - HOUR, false), (longest + Duration::from_micros(1), false), (longest, true)] {
        let told = extend(&mut world, "ana", ask.id, until);
        assert_eq!(told.map_err(|refusal| refusal.code), if good { Ok(true) } else { Err(Code::InvalidRequest) }); // C-192
    }
    assert_eq!(expiry(&world, ask.id), longest);

    let deadline = World::new().now + 30 * DAY;
    let mut world = World::running_with(|admit| admit.deadline = Some(deadline));
    let ask = world.hot(obligation());
    assert_eq!(extend(&mut world, "ana", ask.id, deadline + HOUR).expect_err("refused").code, Code::InvalidRequest); // C-194
    assert!(extend(&mut world, "ana", ask.id, deadline).expect("extended")); // C-194
}

#[test]
fn what_is_over_gets_no_more_time() {
    let over = |end: &dyn Fn(&mut World, ApprovalId)| {
        let mut world = World::new();
        let ask = world.parked(obligation());
        end(&mut world, ask.id);
        let later = expiry(&world, ask.id) + HOUR;
        let refused = extend(&mut world, "ana", ask.id, later).expect_err("over");
        (refused.code, world.approval(ask.id).status.clone())
    };
    let by = |verdict: Verdict| move |world: &mut World, id: ApprovalId| drop(world.verdict("ben", id, verdict));
    let (code, status) = over(&by(Verdict::Approve));
    assert!(code == Code::AlreadyDecided && matches!(status, Question::Approved { .. })); // C-158
    let (code, status) = over(&by(Verdict::Reject));
    assert!(code == Code::AlreadyDecided && matches!(status, Question::Rejected { .. })); // C-158
    let (code, status) = over(&|world, _| drop(world.cancel()));
    assert!(code == Code::ApprovalCancelled && matches!(status, Question::Cancelled { .. })); // C-158
    // Nobody swept: the extension itself finds the expiry, and revives nothing.
    let (code, status) = over(&|world, id| world.pass(expiry(world, id).since(world.now)));
    assert!(code == Code::ApprovalExpired && matches!(status, Question::Expired { .. })); // C-158 C-174
}

#[test]
fn an_edit_under_the_same_rule_keeps_the_time_that_was_given() {
    let mut world = World::new();
    let ask = world.parked(Obligation { edit: protocol::policy::Edit::Second, ..obligation() });
    let later = expiry(&world, ask.id) + HOUR;
    extend(&mut world, "ana", ask.id, later).expect("extended");
    let edit = world.edited("ben", ask.id, r#"{"amount":1}"#);
    world.give(Command::Decide(Box::new(edit))).expect("edited");
    assert_eq!(world.approval(ask.id).binding.revision, 2);
    assert!(expiry(&world, ask.id) <= later); // C-185
    assert_eq!(expiry(&world, ask.id), later); // C-192
}
