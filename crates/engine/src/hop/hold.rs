//! A hardware hold: the hop stays where it is while the resource of one of its calls is made warm (runs.md section 7).
//!
//! Invariant: a hold has no lease and one request to the manager, which is withdrawn as the hold is dropped. What was asked
//! of the manager was counted and stored before.

use super::checkpoint;
use super::drive::Drive;
use super::end;
use super::line::{self, Errand};
use super::script;
use super::state::{Hop, Out};
use crate::failpoint;
use crate::resources::Lease;
use crate::worker::Waiting;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use protocol::command::{Act, NewCheckpoint};
use protocol::event::{Facts, Kind};
use protocol::id::{CallId, WaitId};
use protocol::resource::Refused;
use std::collections::VecDeque;

/// The hold of a turn, and what became due in it.
#[derive(Default)]
pub(super) struct Holding {
    now: Option<Hold>,
    /// Calls that got their place meanwhile; they go on afterwards.
    due: VecDeque<(CallId, Errand)>,
}

struct Hold {
    call: CallId,
    errand: Errand,
    resource: String,
    answer: Warming,
}

impl Holding {
    pub(super) fn is_on(&self) -> bool {
        self.now.is_some()
    }

    /// Leaves a call for afterwards.
    pub(super) fn postpone(&mut self, call: CallId, errand: Errand) {
        self.due.push_back((call, errand));
    }

    /// The answer of the manager; for ever pending without a hold.
    pub(super) async fn answered(&mut self) -> Result<Lease, Refused> {
        match &mut self.now {
            Some(hold) => (&mut hold.answer).await,
            None => std::future::pending().await,
        }
    }

    /// Ends the hold without an answer: its request is withdrawn.
    pub(super) fn drop_all(&mut self) {
        *self = Holding::default();
    }
}

/// Begins a hold for a call of a guest: counted, stored, and only then asked for.
pub(super) async fn begin(
    hop: &mut Hop,
    drive: &mut Drive,
    call: CallId,
    errand: Errand,
    resource: String,
) -> Result<(), Out> {
    affords(hop, &resource)?;
    drive.busy.insert(call);
    let blocked: Vec<CallId> = drive.turn.calls.iter().copied().filter(|id| !hop.call(*id).is_ended()).collect();
    let waits = end::open_waits(hop, &blocked);
    // A guest that is here has used its snapshot; one that was not thawed yet still may be.
    let unthawed = if hop.live.guest().is_none() { script::usable_snapshot(hop).ok().flatten() } else { None };
    let snapshot = unthawed.map(|snapshot| (snapshot, None));
    let checkpoint = checkpoint::of_script(hop, &blocked, &waits, Some(&resource), snapshot)?;
    let answer = ask(hop, &resource, &waits, checkpoint).await?;
    drive.holding.now = Some(Hold { call, errand, resource, answer });
    hop.refresh().await
}

/// Past a bound nothing is asked.
pub(super) fn affords(hop: &Hop, resource: &str) -> Result<(), Out> {
    match hop.run.budget.hardware.with_call(resource, &hop.inner.limits) {
        Ok(_) => Ok(()),
        Err(exhausted) => Err(Out::Fail(Box::new(exhausted.failure(resource)))),
    }
}

/// The answer of the manager, with a lease; dropping it withdraws the request.
pub(super) type Warming = BoxFuture<'static, Result<Lease, Refused>>;

/// Stores that the hop waits for a resource, and then asks for it.
pub(super) async fn ask(
    hop: &mut Hop,
    resource: &str,
    waits: &[WaitId],
    checkpoint: NewCheckpoint,
) -> Result<Warming, Out> {
    let facts = Facts::new().list("waits", waits).list("kinds", ["hardware"]).with("resource", resource);
    hop.tell(Kind::NodeWaiting, facts);
    failpoint::hit("hold.before");
    hop.commit(Act::Hold { resource: resource.to_owned(), checkpoint }).await?;
    failpoint::hit("hold.after");
    hop.live.waits(Some(Waiting { since: hop.run.since, name: resource.to_owned() }));
    let asked = hop.inner.resources.converge(resource, hop.run.id, hop.run.priority);
    let most = hop.inner.settings.hold_max;
    let answer = tokio::time::timeout(most, asked).map(move |answer| {
        answer.unwrap_or_else(|_| {
            let most = protocol::time::format_duration(most);
            Err(Refused::Failed(format!("its turn did not come within {most}")))
        })
    });
    Ok(Box::pin(answer))
}

/// The manager answered: the hop goes on with its call, or fails from the hold.
pub(super) async fn end(hop: &mut Hop, drive: &mut Drive, answer: Result<Lease, Refused>) -> Result<(), Out> {
    let Some(Hold { call, errand, resource, .. }) = drive.holding.now.take() else { return Ok(()) };
    let lease = warmed(hop, &resource, answer).await?;
    line::enter(hop, drive, call, errand, Some(lease));
    while let Some((call, errand)) = drive.holding.due.pop_front() {
        line::enter(hop, drive, call, errand, None);
    }
    Ok(())
}

/// E-6, and the lease that came with it; a manager that erred fails the hop from its hold.
pub(super) async fn warmed(hop: &mut Hop, resource: &str, answer: Result<Lease, Refused>) -> Result<Lease, Out> {
    hop.live.waits(None);
    let lease = answer.map_err(|refused| Out::Fail(Box::new(refused.failure(resource))))?;
    hop.tell(Kind::NodeEntered, Facts::new());
    failpoint::hit("warm.before");
    hop.commit(Act::Warm).await?;
    failpoint::hit("warm.after");
    Ok(lease)
}
