//! Moves: what a proof is held against, and what a move replaces.

use crate::world::{World, obligation, ok};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::{Answer, Command, MoveRun};
use protocol::event::Kind;
use protocol::refusal::Refusal;
use protocol::run::{PatternRef, Run, Status};

fn moved(answer: Result<Answer, Refusal>) -> (Run, bool) {
    match answer.expect("moved") {
        Answer::Settled { run, changed, .. } => (*run, changed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pin_plan_and_what_the_plan_says_are_replaced_in_one_change() {
    let mut world = World::new();
    world.parked(obligation());
    let before = world.run().clone();
    let (after, changed) = moved(world.move_to(2));
    assert!(changed);
    let second = &world.registry.workflows["refund"].patterns[&2];
    assert_eq!((after.pattern.revision, after.pattern.digest), (2, second.digest));
    assert_eq!(
        (after.moved_from.as_slice(), after.admitted_with()),
        ([before.pattern.digest].as_slice(), before.pattern.digest)
    );
    assert_eq!(after.settings.max_calls, 7);
    assert_eq!(
        (after.status(), after.seq, after.fence, after.journal),
        (before.status(), before.seq, before.fence, before.journal)
    );
    let told = world.events.last().expect("told");
    assert_eq!(told.kind, Kind::RunMoved);
    assert_eq!(after.events.len, before.events.len + 1);
    assert!(!moved(world.move_to(2)).1);
}

#[test]
pub(super) fn what_changed_since_the_proof_moves_nothing() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let stale = world.moving(2);
    world.pause().expect("paused");
    let before = world.run().clone();
    let refused = world.give(Command::Move(Box::new(stale.clone()))).expect_err("it changed");
    assert_eq!((refused.code, world.run()), (Code::MoveRefused, &before));
    // Each part of it alone.
    let proof = world.moving(2).proof;
    let parts = [
        protocol::decide::Proof { status: Status::AwaitingTimer, ..proof },
        protocol::decide::Proof { seq: proof.seq + 1, ..proof },
        protocol::decide::Proof { fence: proof.fence + 1, ..proof },
        protocol::decide::Proof { pattern: protocol::digest::Digest::ZERO, ..proof },
        protocol::decide::Proof { journal: proof.events, ..proof },
        protocol::decide::Proof { events: proof.journal, ..proof },
    ];
    for proof in parts {
        let command = MoveRun { proof, ..world.moving(2) };
        assert_eq!(
            world.give(Command::Move(Box::new(command))).expect_err("stale").code,
            Code::MoveRefused,
            "{proof:?}"
        );
    }
    // A return that came first wins: the run is no longer where it was proved.
    let late = world.moving(2);
    world.resume().expect("resumed");
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    assert_eq!(world.give(Command::Move(Box::new(late))).expect_err("gone").code, Code::MoveRefused);
    assert_eq!(world.run().pattern.revision, 1);
}

#[test]
fn a_plan_changes_neither_under_an_open_approval_nor_under_a_yes_that_is_not_used() {
    let mut world = World::new();
    let ask = world.parked(obligation());
    let refused = world.move_to(3).expect_err("open");
    assert_eq!(refused.code, Code::MoveRefused);
    assert!(refused.detail.contains(&ask.id.to_string()), "{}", refused.detail);
    world.pause().expect("paused");
    world.verdict("ana", ask.id, Verdict::Approve).expect("approved");
    assert_eq!(world.status(), Status::Queued);
    let unspent = world.move_to(3).expect_err("unspent");
    assert!(unspent.detail.contains(&ask.id.to_string()), "{}", unspent.detail);
    assert!(moved(world.move_to(2)).1); // the plan stays
    world.resume().expect("resumed");
    world.claim(2).expect("claimed");
    world.dispatch(ask.call).expect("dispatched");
    world.end(ask.call, ok()).expect("ended");
    world.hand_back().expect("handed back");
    world.pause().expect("paused");
    let (after, _) = moved(world.move_to(3));
    assert_eq!(after.plan, world.registry.workflows["refund"].patterns[&3].manifest.plan);
}

#[test]
fn only_what_rests_and_is_there_is_moved() {
    let mut world = World::running();
    assert_eq!(world.move_to(2).expect_err("running").code, Code::MoveRefused);
    let elsewhere = |to: PatternRef| {
        let mut world = World::new();
        world.parked(obligation());
        let command = MoveRun { to, ..world.moving(2) };
        world.give(Command::Move(Box::new(command))).expect_err("not there").code
    };
    let to = world.moving(2).to;
    assert_eq!(elsewhere(PatternRef { revision: 9, ..to.clone() }), Code::MoveRefused);
    assert_eq!(elsewhere(PatternRef { digest: protocol::digest::Digest::ZERO, ..to.clone() }), Code::MoveRefused);
    assert_eq!(elsewhere(PatternRef { key: "other".to_owned(), ..to }), Code::MoveRefused);
}
