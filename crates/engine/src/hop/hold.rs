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
use protocol::command::Act;
use protocol::event::{Facts, Kind};
use protocol::id::CallId;
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
    answer: BoxFuture<'static, Result<Lease, Refused>>,
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

/// Begins a hold for a call: counted, stored, and only then asked for. Past a bound nothing is asked.
pub(super) async fn begin(
    hop: &mut Hop,
    drive: &mut Drive,
    call: CallId,
    errand: Errand,
    resource: String,
) -> Result<(), Out> {
    if let Err(exhausted) = hop.run.budget.hardware.with_call(&resource, &hop.inner.limits) {
        return Err(Out::Fail(Box::new(exhausted.failure(&resource))));
    }
    drive.busy.insert(call);
    let blocked: Vec<CallId> = drive.turn.calls.iter().copied().filter(|id| !hop.call(*id).is_ended()).collect();
    let waits = end::open_waits(hop, &blocked);
    let facts = Facts::new().list("waits", &waits).list("kinds", ["hardware"]).with("resource", &resource);
    hop.tell(Kind::NodeWaiting, facts);
    // A guest that is here has used its snapshot; one that was not thawed yet still may be.
    let unthawed = if hop.live.guest().is_none() { script::usable_snapshot(hop).ok().flatten() } else { None };
    let snapshot = unthawed.map(|snapshot| (snapshot, None));
    let checkpoint = checkpoint::build(hop, &blocked, &waits, Some(&resource), snapshot)?;
    failpoint::hit("hold.before");
    hop.commit(Act::Hold { resource: resource.clone(), checkpoint }).await?;
    failpoint::hit("hold.after");
    hop.live.waits(Some(Waiting { since: hop.run.since, name: resource.clone() }));
    let asked = hop.inner.resources.converge(&resource, hop.run.id, hop.run.priority);
    let most = hop.inner.settings.hold_max;
    let answer = tokio::time::timeout(most, asked).map(move |answer| {
        answer.unwrap_or_else(|_| {
            let most = protocol::time::format_duration(most);
            Err(Refused::Failed(format!("its turn did not come within {most}")))
        })
    });
    drive.holding.now = Some(Hold { call, errand, resource, answer: Box::pin(answer) });
    hop.refresh().await
}

/// The manager answered: the hop goes on with its call, or fails from the hold.
pub(super) async fn end(hop: &mut Hop, drive: &mut Drive, answer: Result<Lease, Refused>) -> Result<(), Out> {
    let Some(Hold { call, errand, resource, .. }) = drive.holding.now.take() else { return Ok(()) };
    hop.live.waits(None);
    let lease = answer.map_err(|refused| Out::Fail(Box::new(refused.failure(&resource))))?;
    hop.tell(Kind::NodeEntered, Facts::new());
    failpoint::hit("warm.before");
    hop.commit(Act::Warm).await?;
    failpoint::hit("warm.after");
    line::enter(hop, drive, call, errand, Some(lease));
    while let Some((call, errand)) = drive.holding.due.pop_front() {
        line::enter(hop, drive, call, errand, None);
    }
    Ok(())
}
