//! Pauses of a run, a workflow and a queue: what they keep from workers, and that they are kept.

use protocol::code::Code;
use protocol::command::{Admit, Claim, Command, PauseRun, Renewed};
use protocol::id::RunId;
use protocol::pause::Shared;
use protocol::registry::{self, Answer, Change};
use protocol::run::{PatternRef, Run};
use std::time::Duration;

use super::world::{World, refused};

impl World {
    /// Pauses a run, or lets it go on; whether that changed anything.
    pub async fn pause(&self, run: RunId, on: bool) -> bool {
        let pause = PauseRun { by: self.by("ana"), run, reason: Some("the bank is closed".to_owned()) };
        let command = if on { Command::Pause(pause) } else { Command::Resume(pause) };
        match self.ledger.transact(command).await.expect("a pause is answered") {
            protocol::command::Answer::Settled { changed, .. } => changed,
            other => panic!("{other:?}"),
        }
    }

    /// Pauses a workflow or queue, or lets it go on.
    pub async fn shade(&self, scope: Shared, on: bool) {
        let (by, reason) = (self.by("bo"), Some("an incident".to_owned()));
        let change = if on { Change::Pause { by, scope, reason } } else { Change::Resume { by, scope } };
        assert_eq!(self.ledger.transact_registry(change).await.expect("answered"), Answer::Changed(true));
    }

    async fn ready(&self, skip: usize, limit: usize) -> Vec<RunId> {
        let (found, faults) = self.ledger.claimable(skip, limit).await.unwrap();
        assert!(faults.is_empty());
        found.into_iter().map(|hop| hop.run).collect()
    }

    async fn queued_for(&self, pattern: &PatternRef, priority: u8) -> Run {
        let admit = Admit { pattern: pattern.clone(), priority, ..self.admission() };
        self.admit(admit).await.unwrap().0
    }
}

pub async fn what_is_paused_is_kept_from_workers(world: World) {
    let registry::Answer::Registered { pattern, .. } = world.register_workflow("mail", "send()").await else {
        panic!()
    };
    let mail = PatternRef { key: "mail".to_owned(), revision: pattern.revision, digest: pattern.digest };
    let refunds = world.pattern.clone();
    let (a, b) = (world.queued_for(&refunds, 50).await.id, world.queued_for(&mail, 60).await.id);
    let (c, d) = (world.queued_for(&refunds, 70).await.id, world.queued_for(&mail, 40).await.id);
    assert_eq!(world.ready(0, 10).await, [c, b, a, d]);
    assert!(world.pause(c, true).await && !world.pause(c, true).await);
    assert_eq!(world.ready(0, 10).await, [b, a, d]);
    let claim = Claim { run: c, seq: 0, taker: world.taker() };
    assert_eq!(refused(world.ledger.transact(Command::Claim(claim)).await), Code::NotNow);
    let (workflow, queue) = (Shared::Workflow("refunds".to_owned()), Shared::Queue("default".to_owned()));
    world.shade(workflow.clone(), true).await;
    assert_eq!(world.ready(0, 10).await, [b, d]);
    assert_eq!((world.ready(1, 1).await, world.ready(0, 1).await), (vec![d], vec![b]));
    assert_eq!(refused(world.claim(a, 0, world.taker()).await), Code::NotNow);
    world.shade(queue.clone(), true).await;
    assert!(world.ready(0, 10).await.is_empty());
    let late = world.queued_for(&mail, 90).await.id;
    world.shade(workflow, false).await;
    world.shade(queue, false).await;
    assert_eq!(world.ready(0, 10).await, [late, b, a, d]); // the pause of the one run stands
    assert!(world.pause(c, false).await);
    assert_eq!(world.ready(0, 10).await, [late, c, b, a, d]);
}

pub async fn a_pause_is_kept_with_its_run(world: World) {
    let (run, _) = world.parked().await;
    world.pass(Duration::from_secs(3));
    world.pause(run.id, true).await;
    let read = world.shown(run.id).await.run;
    let pause = read.pause.expect("it is paused");
    assert_eq!((pause.by.as_str(), pause.reason.as_deref()), ("ana", Some("the bank is closed")));
    assert_eq!(pause.since, world.ledger.now());
    world.cancel(run.id).await.unwrap();
    assert_eq!(world.shown(run.id).await.run.pause, None); // a cancel goes through
    let running = world.running().await;
    world.pause(running.id, true).await;
    let renew =
        protocol::command::Renew { worker: world.worker, ttl: world.ttl, claims: vec![(running.id, running.fence)] };
    let told = world.ledger.renew(renew).await.unwrap();
    assert!(matches!(told[0].1, Renewed::Until { paused: true, .. }));
}
