//! Runs are given only to workers that can run them, and do not wait for ever for one (R-94, R-95).

use crate::world::{TTL, World, caller, manifest, obligation, person, settings, worker};
use protocol::able::{Abilities, Able};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::command::{Answer, Claim, Command, Reach, Recover, Taker};
use protocol::digest::Digest;
use protocol::refusal::Refusal;
use protocol::registry::{self, Change, Register};
use protocol::run::{Failure, Kind, Run, Status};
use protocol::workflow::Manifest;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const ENGINE: &str = "cpython";

fn image() -> Digest {
    Digest::of("image")
}

/// A worker that runs scripts of one image, and one workflow in Rust.
fn abilities() -> Abilities {
    Abilities {
        engine: Some(ENGINE.to_owned()),
        images: BTreeSet::from([image()]),
        formats: BTreeSet::from(["stasis.script.v1".to_owned(), "payout.v1".to_owned()]),
        code: BTreeSet::from([("refund".to_owned(), 1, Digest::of("two"))]),
    }
}

fn script() -> Manifest {
    Manifest { engine: Some(ENGINE.to_owned()), image: Some(image()), ..manifest() }
}

fn rust() -> Manifest {
    Manifest { kind: Kind::Rust, source: Digest::of("two"), checkpoint_schema: "payout.v1".to_owned(), ..manifest() }
}

/// A world whose one pattern is this.
fn world(manifest: Manifest) -> World {
    let mut world = World::new();
    let digest = manifest.digest();
    let workflow = world.registry.workflows.get_mut("refund").expect("registered");
    let pattern = workflow.patterns.get_mut(&1).expect("its first revision");
    (pattern.digest, pattern.manifest) = (digest, manifest.clone());
    let admission = world.admission_with(|admit| {
        admit.pattern.digest = digest;
        admit.kind = manifest.kind;
    });
    world.give(admission).expect("admitted");
    world
}

fn lacks(manifest: Manifest, abilities: Abilities) -> Option<String> {
    let world = world(manifest);
    Able::Stated(Arc::new(abilities)).lacks(world.run(), &world.registry)
}

#[test]
fn what_a_worker_states_is_compared_with_the_pin() {
    assert_eq!(lacks(script(), abilities()), None); // R-94
    assert_eq!(lacks(rust(), abilities()), None); // R-94
    let table = [
        (script(), Abilities { engine: None, ..abilities() }, "there is no guest engine here"),
        (
            Manifest { engine: Some("other".to_owned()), ..script() },
            abilities(),
            "its guest engine is other, here it is cpython",
        ),
        (Manifest { image: None, ..script() }, abilities(), "it names no guest image"),
        (
            Manifest { checkpoint_schema: "new".to_owned(), ..script() },
            abilities(),
            "its checkpoint schema new is not known here",
        ),
        (rust(), Abilities { code: BTreeSet::new(), ..abilities() }, "this build has no code of that revision"),
        (
            Manifest { source: Digest::of("one"), ..rust() },
            abilities(),
            "this build has other code under that revision",
        ),
        (Manifest { kind: Kind::Graph, ..script() }, abilities(), "it is a graph, which this build does not run"),
    ];
    for (manifest, abilities, why) in table {
        assert_eq!(lacks(manifest, abilities).as_deref(), Some(why)); // R-94
    }
    let elsewhere = Abilities { images: BTreeSet::new(), ..abilities() };
    assert_eq!(
        lacks(script(), elsewhere),
        Some(format!("its guest image {} is not here; put its file back into the cache", image()))
    ); // R-94
}

fn taker(able: Able) -> Taker {
    Taker { worker: worker(1), ttl: TTL, able }
}

fn unable() -> Able {
    Able::Stated(Arc::new(Abilities::default()))
}

#[test]
fn a_worker_is_given_nothing_that_it_cannot_run() {
    let mut world = world(script());
    let (run, seq) = (world.run().id, world.run().seq);
    let refused = world.give(Command::Claim(Claim { run, seq, taker: taker(unable()) })).expect_err("refused");
    assert_eq!(refused.code, Code::NotNow); // E-3 R-94
    assert_eq!(world.status(), Status::Queued); // R-94
    world.claim(1).expect("claimed");
    let ask = world.hot(obligation());
    world.park().expect("parked");
    let mut decide = world.decision("ana", ask.id, Verdict::Approve);
    decide.taker = Some(taker(unable()));
    let Ok(Answer::Decided(decided)) = world.give(Command::Decide(Box::new(decide))) else { panic!("decided") };
    assert_eq!(decided.run.status(), Status::Queued); // R-94 R-116: under every guard of E-3
}

fn pass(world: &mut World, able: Able, pin_grace: Duration) -> Run {
    let patience = protocol::command::Patience { pin_grace, ..world.patience };
    let recover = Recover { run: world.run().id, reach: Reach::Lapsed, patience, able };
    world.give(Command::Recover(recover)).expect("answered");
    world.run().clone()
}

#[test]
pub(super) fn a_run_that_nobody_can_run_is_refused_after_a_grace() {
    let mut world = world(rust());
    let grace = Duration::from_secs(60);
    let able = Able::Stated(Arc::new(abilities()));
    world.pass(grace * 2);
    assert_eq!(pass(&mut world, able, Duration::ZERO).status(), Status::Queued); // R-95: somebody can
    assert_eq!(pass(&mut world, unable(), grace * 2 + Duration::from_micros(1)).status(), Status::Queued); // R-95
    let refused = pass(&mut world, unable(), grace * 2);
    assert_eq!(refused.status(), Status::Failed); // E-4 R-95
    let Failure { code, message, detail } = refused.failure().expect("failed");
    assert_eq!((*code, message.as_str()), (Code::PinnedPatternUnavailable, "pinned Pattern unavailable: refund@1")); // R-324
    assert_eq!(detail.as_ref().map(|d| d.as_str()), Some(r#"{"why":"this build has no code of that revision"}"#));
}

#[test]
fn only_what_is_queued_waits_for_a_worker() {
    let mut world = world(script());
    world.claim(1).expect("claimed");
    assert_eq!(pass(&mut world, unable(), Duration::ZERO).status(), Status::Running); // E-4: not CLAIMED
    world.hot(obligation());
    world.park().expect("parked");
    assert_eq!(pass(&mut world, unable(), Duration::ZERO).status(), Status::AwaitingConsent); // R-316
}

fn register(world: &mut World, source: &str, revision: Option<u32>) -> Result<u32, Refusal> {
    let manifest = Manifest { key: "payout".to_owned(), source: Digest::of(source), ..rust() };
    let register = Register {
        by: caller(person("ana")),
        id: world.mint(),
        manifest,
        revision,
        title: None,
        settings: settings(),
        activate: true,
        blobs: Vec::new(),
    };
    match world.change_registry(Change::Register(Box::new(register)))? {
        registry::Answer::Registered { pattern, .. } => Ok(pattern.revision),
        other => panic!("{other:?}"),
    }
}

#[test]
pub(super) fn a_revision_that_its_owner_numbers_is_the_next_one_or_the_same() {
    let mut world = World::new();
    assert_eq!(register(&mut world, "a", Some(4)).expect("the first of its key"), 4);
    assert_eq!(register(&mut world, "a", Some(4)).expect("known"), 4); // R-342
    assert_eq!(register(&mut world, "b", None).expect("the next one"), 5); // R-342
    assert_eq!(register(&mut world, "c", Some(6)).expect("the next one"), 6); // R-342
    for (source, revision) in [("d", 6), ("d", 8), ("d", 3), ("a", 7), ("d", 0)] {
        let refused = register(&mut world, source, Some(revision)).expect_err("refused");
        assert_eq!(refused.code, Code::PatternConflict, "{source} as {revision}"); // R-342
    }
    let payout = &world.registry.workflows["payout"];
    assert_eq!((payout.patterns.len(), payout.active), (3, Some(6))); // R-346: nothing of what was refused
}
