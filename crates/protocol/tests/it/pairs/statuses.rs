//! A run in each status, with something to do for every command: a write that is asked for, one that is allowed, and a
//! deadline that has not passed.

use crate::world::{World, denied, expiring, obligation};
use protocol::approval::Verdict;
use protocol::call::RecoveryClass;
use protocol::code::Code;
use protocol::command::{Act, Due, Progress, Timer};
use protocol::id::{CallId, WaitId};
use protocol::journal::Entry;
use protocol::policy::OnExpiry;
use protocol::run::Status;
use protocol::tool::Effect;
use std::time::Duration;

/// When the run has to be over.
pub(super) const DEADLINE: Duration = Duration::from_secs(86_400);

/// What commands are about.
pub(super) struct Scene {
    /// The token of the last claim.
    pub(super) token: u64,
    pub(super) asked: protocol::command::Ask,
    /// A write that the policy allows.
    pub(super) free: CallId,
    /// What ends by itself: the wait of the question, or a timer.
    pub(super) due: WaitId,
}

pub(super) fn at(status: Status) -> (World, Scene) {
    let mut world =
        World::running_with(|admit| admit.deadline = Some(protocol::time::Time::from_millis(1_000_000) + DEADLINE));
    let asked = world.hot(expiring(obligation(), OnExpiry::Reject));
    world.allow_writes();
    let free = world.enter(Effect::Write, RecoveryClass::Manual);
    let mut scene = Scene { token: world.token(), due: asked.wait, asked, free };
    lead(&mut world, &mut scene, status);
    (world, scene)
}

/// Leads a run from RUNNING to a status. What it delegates, an agent has.
fn lead(world: &mut World, scene: &mut Scene, status: Status) {
    let led = match status {
        Status::Queued => world.hand_back(),
        Status::Running => return,
        Status::AwaitingHardware => {
            let checkpoint = world.checkpoint(&Progress::default());
            world.hop(Progress::default(), Act::Hold { resource: "gpu".to_owned(), checkpoint })
        }
        Status::AwaitingConsent => world.park(),
        Status::AwaitingDelegate => {
            answered(world, scene);
            let job = world.delegates(None);
            world.claim_job("ana", job).expect("claimed");
            world.park()
        }
        Status::AwaitingSignal => {
            answered(world, scene);
            world.awaits("paid", None, None);
            world.park()
        }
        Status::AwaitingTimer => {
            answered(world, scene);
            scene.due = sleep(world);
            world.park()
        }
        Status::Cancelling => {
            world.dispatch(scene.free).expect("dispatched");
            Ok(world.cancel())
        }
        Status::Failing => {
            world.dispatch(scene.free).expect("dispatched");
            world.fail()
        }
        Status::Done => world.finish(),
        Status::Failed => world.fail(),
        Status::Cancelled => {
            world.cancel();
            world.hop(Progress::default(), Act::Acknowledge)
        }
    };
    led.expect("it leads there");
}

/// The question is out of the way.
fn answered(world: &mut World, scene: &Scene) {
    world.verdict("ana", scene.asked.id, Verdict::Reject).expect("rejected");
    world.end(scene.asked.call, denied(Code::ApprovalRejected)).expect("told");
}

fn sleep(world: &mut World) -> WaitId {
    let call = world.call(Effect::Read, RecoveryClass::Retry);
    let timer = Timer { wait: world.mint(), call: call.id, due: Due::In(Duration::from_secs(60)) };
    let wait = timer.wait;
    let entries = vec![Entry::Call(Box::new(call))];
    world.record(Progress { entries, timers: vec![timer], ..Progress::default() }).expect("it sleeps");
    wait
}
