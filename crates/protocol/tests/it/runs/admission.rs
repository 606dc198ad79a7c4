//! How runs come to be (runs.md section 3).

use crate::world::{World, args, person, worker};
use protocol::able::Able;
use protocol::code::Code;
use protocol::command::{Admit, Answer, Command, Request, Taker};
use protocol::delivery::{Cause, Mode};
use protocol::digest::Digest;
use protocol::event::Kind;
use protocol::principal::Rights;
use protocol::run::Status;
use protocol::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
pub(super) fn the_same_request_under_one_key_is_one_run() {
    let mut world = World::new();
    let first = world.admission(Some("k"));
    let again = first.clone();
    let Ok(Answer::Admitted { run, created: true }) = world.give(first) else { panic!("admitted") };
    let Ok(Answer::Admitted { run: same, created: false }) = world.give(again.clone()) else { panic!("repeated") };
    assert_eq!(same.id, run.id);
    let Command::Admit(mut other) = again else { unreachable!() };
    other.request_digest = Digest::of("another request");
    let refused = world.give(Command::Admit(other)).expect_err("another request");
    assert_eq!(refused.code, Code::IdempotencyMismatch);
    assert!(refused.detail.contains(&run.id.to_string()));
    assert_eq!(world.events.len(), 1);
}

#[test]
fn requests_are_equal_in_all_but_their_labels() {
    let request = Request {
        forked_from: None,
        workflow: "refund",
        revision: None,
        input: args("{}").body.digest,
        session: None,
        queue: "default",
        priority: 50,
        deadline: None,
    };
    let others = [
        Request { workflow: "other", ..request },
        Request { revision: Some(1), ..request },
        Request { input: args("[]").body.digest, ..request },
        Request { session: Some("cart"), ..request },
        Request { queue: "slow", ..request },
        Request { priority: 51, ..request },
        Request { deadline: Some(Time::from_millis(1)), ..request },
    ];
    // `held` is not in it, since no admission is held here; labels are not, since they change nothing that runs.
    let digests: std::collections::BTreeSet<Digest> = others.iter().chain([&request]).map(Request::digest).collect();
    assert_eq!(digests.len(), 8);
    assert_eq!(request.digest(), Request { ..request }.digest());
}

#[test]
pub(super) fn what_a_request_says_beside_its_input_is_short() {
    let given = |change: &dyn Fn(&mut Admit)| {
        let mut world = World::new();
        let Command::Admit(mut admit) = world.admission(None) else { unreachable!() };
        change(&mut admit);
        world.give(Command::Admit(admit)).map_err(|refusal| (refusal.code, refusal.detail))
    };
    let labels = |n: usize| (0..n).map(|n| (format!("k{n}"), "v".to_owned())).collect::<BTreeMap<_, _>>();
    let (fits, long) = ("x".repeat(256), "x".repeat(257));
    let refused = |detail: &str| Err((Code::LimitExceeded, detail.to_owned()));
    assert!(given(&|a| a.labels = labels(64)).is_ok());
    assert_eq!(given(&|a| a.labels = labels(65)).map(drop), refused("labels exceeded: 65 > 64"));
    for place in [0, 1] {
        let label = |text: &str| {
            let (key, value) = if place == 0 { (text, "v") } else { ("k", text) };
            BTreeMap::from([(key.to_owned(), value.to_owned())])
        };
        assert!(given(&|a| a.labels = label(&fits)).is_ok());
        assert_eq!(given(&|a| a.labels = label(&long)).map(drop), refused("bytes of a label exceeded: 257 > 256"));
    }
    assert!(given(&|a| a.session = Some(fits.clone())).is_ok());
    assert_eq!(given(&|a| a.session = Some(long.clone())).map(drop), refused("bytes of a session exceeded: 257 > 256"));
    assert_eq!(
        given(&|a| a.idempotency_key = Some(long.clone())).map(drop),
        refused("bytes of a key exceeded: 257 > 256")
    );
}

#[test]
pub(super) fn admission_refuses_what_it_does_not_know() {
    let refused = |change: fn(&mut Admit)| {
        let mut world = World::new();
        let admission = world.admission_with(change);
        world.give(admission).expect_err("refused").code
    };
    assert_eq!(refused(|a| a.pattern.key = "nobody".into()), Code::UnknownWorkflow);
    assert_eq!(refused(|a| a.pattern.revision = 2), Code::RevisionNotActive);
    assert_eq!(refused(|a| a.priority = 101), Code::InvalidRequest);
    assert_eq!(refused(|a| a.by.principal.rights = Rights::none()), Code::NotPermitted);
    let mut world = World::new();
    let run = world.admit();
    assert_eq!((run.status(), run.seq), (Status::Queued, 0)); // E-1
    let delivery = run.delivery().expect("one delivery");
    assert_eq!((delivery.mode, delivery.cause), (Mode::Fresh, Cause::Admission));
}

#[test]
fn an_admission_can_be_claimed_in_its_own_commit() {
    let mut world = World::new();
    let taker = Taker { worker: worker(1), ttl: Duration::from_secs(30), able: Able::Everything };
    let admission = world.admission_with(|admit| admit.taker = Some(taker));
    let Ok(Answer::Admitted { run, .. }) = world.give(admission) else { panic!("admitted") };
    assert_eq!(run.status(), Status::Running);
    let kinds: Vec<_> = world.events.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [Kind::Run(Status::Queued), Kind::Run(Status::Running)]);
}

#[test]
fn a_run_keeps_what_it_was_admitted_with() {
    let labels = BTreeMap::from([("team".to_owned(), "support".to_owned())]);
    let mut world = World::running_with(|admit| {
        admit.priority = 70;
        admit.labels = labels.clone();
        admit.acts_for = Some("cleo".to_owned());
    });
    let ask = world.hot(crate::world::obligation());
    world.park().expect("parked");
    world.verdict("ana", ask.id, protocol::approval::Verdict::Approve).expect("approved");
    let run = world.run();
    assert_eq!((run.status(), run.priority, run.queue.as_str()), (Status::Queued, 70, "default"));
    assert_eq!(run.labels, labels);
    assert_eq!(
        (run.requester.subject.as_str(), run.requester.acts_for.as_deref()),
        (person("req").id.as_str(), Some("cleo"))
    );
}
