//! The step runner: a hop of Rust code goes from step to step until it ends, parks, or has to stop (runs.md section 6).
//!
//! Owns: the order of steps, and what is stored between them. It decides no status and deletes no checkpoint. Invariant:
//! nothing of a step is stored while it runs, so a hop gives way between two executions of a step and nowhere else
//! and no lease is held while nothing runs.

mod execute;
mod requests;

use super::checkpoint::{self, EndEntry, Entry, EntryKind, EntryStatus, NodeEntry};
use super::drive::{self, Drive, Driven};
use super::state::{Hop, Out};
use super::turn::Turn;
use super::{Next, end, hold, jobs, script};
use crate::pinned::Program;
use crate::worker::Stop;
use crate::workflow::{Signal, Stand};
use execute::Ran;
use protocol::call::State;
use protocol::code::Code;
use protocol::command::{Act, NewCheckpoint};
use protocol::event::{Facts, Kind};
use protocol::id::{CallId, WaitId};
use protocol::json::Canonical;
use protocol::rows::NewBody;
use protocol::run::WaitMode;
use protocol::wait::Owner;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a run of Rust code stands.
pub(crate) struct Place {
    /// Number of the entry that is executed.
    id: u32,
    at: At,
}

enum At {
    Node(Stay),
    /// The body has ended; what it left open has still to end.
    Ended {
        state: Value,
        result: Canonical,
    },
}

/// A stay at a node: it begins when the run comes there, and lasts over every wait until it goes on.
pub(super) struct Stay {
    stand: Box<dyn Stand>,
    made: Vec<Made>,
}

/// A call that was made in a stay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    pub(super) call: CallId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

impl Place {
    pub(super) fn at(id: u32, stand: Box<dyn Stand>, made: Vec<Made>) -> Place {
        Place { id, at: At::Node(Stay { stand, made }) }
    }

    pub(super) fn ended(id: u32, state: Value, result: Canonical) -> Place {
        Place { id, at: At::Ended { state, result } }
    }

    /// The result, if the body has ended.
    pub(super) fn into_result(self) -> Option<Canonical> {
        match self.at {
            At::Ended { result, .. } => Some(result),
            At::Node(_) => None,
        }
    }
}

/// Events that wait for a commit, at most.
const UNTOLD: usize = 512;

pub(super) async fn carry(hop: &mut Hop) -> Result<Next, Out> {
    let place = match hop.place.take() {
        Some(place) => place,
        None => begin(hop).await?,
    };
    match go(hop, place).await {
        // Every place to give way was passed with what has to be stored; without that nothing may go on from here.
        Err(Out::GiveWay) => Err(Out::Lost),
        went => went,
    }
}

/// The first place of a run.
async fn begin(hop: &mut Hop) -> Result<Place, Out> {
    let Program::Rust(code) = &hop.pinned.program else { return Err(Out::Lost) };
    let code = code.clone();
    let input = hop.body(hop.run.input.digest).await?;
    let stand = code.start(&input).map_err(|why| Out::fail(Code::StepFailed, format!("the input: {why}")))?;
    Ok(Place::at(1, stand, Vec::new()))
}

async fn go(hop: &mut Hop, mut place: Place) -> Result<Next, Out> {
    let mut last = None;
    loop {
        let Place { id, at } = place;
        let mut stay = match at {
            At::Node(stay) => stay,
            At::Ended { state, result } => return ended(hop, last, id, state, result).await,
        };
        let before = state(&stay)?;
        hop.entry = Some((stay.stand.node().to_owned(), id));
        if boundary(hop).await? {
            let created = node_entry(hop, id, &stay, before, Vec::new(), None);
            return hand_back(hop, last.into_iter().chain([created]).collect()).await;
        }
        hop.tell(Kind::NodeEntered, Facts::new());
        let node = stay.stand.node().to_owned();
        let finished = |status, hop: &Hop| {
            Entry::Node(NodeEntry {
                kind: EntryKind::Node,
                id,
                seq: hop.run.seq,
                node: node.clone(),
                state: before.clone(),
                status,
                waits: Vec::new(),
                resource: None,
                calls: Vec::new(),
            })
        };
        let ran = execute::step(hop, &mut stay).await?;
        hop.warm = None;
        place = match ran {
            Ran::Next => {
                hop.tell(Kind::NodeEnded, Facts::new());
                last = Some(finished(EntryStatus::Success, hop));
                Place::at(id + 1, stay.stand, Vec::new())
            }
            Ran::End(result) => {
                let result = script::output(hop, result.as_str())?;
                hop.tell(Kind::NodeEnded, Facts::new());
                last = Some(finished(EntryStatus::Success, hop));
                Place::ended(id + 1, state(&stay)?, result)
            }
            Ran::Failed(failure) => return Err(Out::Fail(Box::new(failure))),
            Ran::Waits(signal) => {
                in_time(hop)?;
                let suspended = finished(EntryStatus::Suspended, hop);
                let after = state(&stay)?;
                match signal {
                    Signal::Set { all } => return park(hop, id, &stay, suspended, after, all).await,
                    Signal::GivesWay => {
                        let created = node_entry(hop, id + 1, &stay, after, Vec::new(), None);
                        return hand_back(hop, vec![suspended, created]).await;
                    }
                    Signal::Hardware { resource } => {
                        if let Some(next) = held(hop, id, &stay, suspended, after, &resource).await? {
                            return Ok(next);
                        }
                    }
                }
                Place { id: id + 1, at: At::Node(stay) }
            }
        };
    }
}

/// Between two steps: whether the hop gives way here.
async fn boundary(hop: &mut Hop) -> Result<bool, Out> {
    in_time(hop)?;
    if hop.pending.nodes.len() >= UNTOLD {
        hop.commit(Act::Record).await?;
    }
    match hop.live.stopped().or_else(|| hop.is_late().then_some(Stop::Late)) {
        Some(stop) if stop.gives_way() => Ok(true),
        Some(stop) => Err(Out::of(stop)),
        None => Ok(false),
    }
}

/// code that had more than its time goes no further.
fn in_time(hop: &Hop) -> Result<(), Out> {
    let (spent, limit) = (hop.charged_us, hop.run.settings.active_limit_us);
    if spent <= limit {
        return Ok(());
    }
    let text = format!("active time exceeded: {} ms > {} ms", spent / 1_000, limit / 1_000);
    Err(Out::fail(Code::StepTime, text))
}

fn state(stay: &Stay) -> Result<Value, Out> {
    stay.stand.state().map_err(|why| Out::fail(Code::StepFailed, why))
}

/// The entry from which the next execution goes on.
fn node_entry(hop: &Hop, id: u32, stay: &Stay, state: Value, waits: Vec<WaitId>, resource: Option<&str>) -> Entry {
    Entry::Node(NodeEntry {
        kind: EntryKind::Node,
        id,
        seq: hop.run.seq,
        node: stay.stand.node().to_owned(),
        state,
        status: EntryStatus::Created,
        waits,
        resource: resource.map(str::to_owned),
        calls: stay.made.clone(),
    })
}

fn open_calls(hop: &Hop, stay: &Stay) -> Vec<CallId> {
    stay.made.iter().map(|made| made.call).filter(|id| !hop.call(*id).is_ended()).collect()
}

async fn park(hop: &mut Hop, id: u32, stay: &Stay, suspended: Entry, after: Value, all: bool) -> Result<Next, Out> {
    end::may_park(hop)?;
    let waits = end::open_waits(hop, &open_calls(hop, stay));
    let mode = if all && of_one_kind(hop) { WaitMode::All } else { WaitMode::Any };
    hop.tell(Kind::NodeWaiting, Facts::new().list("waits", &waits).list("kinds", end::open_kinds(hop, &waits)));
    let created = node_entry(hop, id + 1, stay, after, waits, None);
    let checkpoint = checkpoint::build(hop, vec![suspended, created], None)?;
    end::park_with(hop, checkpoint, mode).await
}

/// Whether all open waits of the run, on which a park is made, are of one kind.
fn of_one_kind(hop: &Hop) -> bool {
    let stored = hop.waits.iter().map(|wait| wait.owner.parks());
    let mut kinds = stored.chain(hop.pending.opens().map(|wait| wait.owner.parks()));
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first)
}

/// Waits for a resource in place; what comes of the hop, if it does not go on.
async fn held(
    hop: &mut Hop,
    id: u32,
    stay: &Stay,
    suspended: Entry,
    after: Value,
    resource: &str,
) -> Result<Option<Next>, Out> {
    hold::affords(hop, resource)?;
    let waits = end::open_waits(hop, &open_calls(hop, stay));
    let created = node_entry(hop, id + 1, stay, after, waits.clone(), Some(resource));
    let checkpoint = checkpoint::build(hop, vec![suspended, created], None)?;
    let mut answer = hold::ask(hop, resource, &waits, checkpoint).await?;
    hop.refresh().await?;
    let answer = tokio::select! {
        answer = &mut answer => answer,
        stop = stops(hop) => {
            drop(answer);
            hop.live.waits(None);
            // a pause or a shutdown ends a hold at once; what is stored of it is where the next hop begins.
            return if stop.gives_way() { end::hand_back(hop).await.map(Some) } else { Err(Out::of(stop)) };
        }
    };
    hop.entry = Some((stay.stand.node().to_owned(), id + 1));
    hop.warm = Some((resource.to_owned(), hold::warmed(hop, resource, answer).await?));
    Ok(None)
}

/// Resolves when the hop has to stop, for whatever reason.
async fn stops(hop: &Hop) -> Stop {
    loop {
        match hop.live.stopped() {
            Some(stop) => return stop,
            None => hop.live.bell.notified().await,
        }
    }
}

/// E-8, with the place at which the next hop goes on.
async fn hand_back(hop: &mut Hop, entries: Vec<Entry>) -> Result<Next, Out> {
    let checkpoint = checkpoint::build(hop, entries, None)?;
    hop.commit(Act::HandBack { checkpoint: Some(checkpoint) }).await?;
    Ok(Next::Done)
}

/// The body has ended. Jobs and questions what became of an effect are waited for first; no step runs any more.
async fn ended(hop: &mut Hop, last: Option<Entry>, id: u32, state: Value, result: Canonical) -> Result<Next, Out> {
    let open: Vec<CallId> = left_open(hop);
    let end_entry = |hop: &Hop| -> Result<NewCheckpoint, Out> {
        let entry = EndEntry {
            kind: EntryKind::End,
            id,
            seq: hop.run.seq,
            state: state.clone(),
            result: result.clone(),
            at: hop.inner.now(),
        };
        checkpoint::build(hop, last.clone().into_iter().chain([Entry::End(entry)]).collect(), None)
    };
    if !open.is_empty() {
        let mut driven = Drive::new(Turn { calls: open, batch: false, hop: None });
        match drive::drive(hop, &mut driven).await {
            Ok(Driven::Complete) => {}
            Ok(Driven::Blocked) => {
                end::may_park(hop)?;
                let mode = if of_one_kind(hop) { WaitMode::All } else { WaitMode::Any };
                let checkpoint = end_entry(hop)?;
                return end::park_with(hop, checkpoint, mode).await;
            }
            Ok(Driven::Cold(resource)) => {
                let what = format!("resource '{resource}' not ready: a run that has ended waits for no hardware");
                return Err(Out::fail(Code::ResourceFailed, what));
            }
            Err(Out::GiveWay) => {
                let checkpoint = end_entry(hop)?;
                hop.commit(Act::HandBack { checkpoint: Some(checkpoint) }).await?;
                return Ok(Next::Done);
            }
            Err(out) => return Err(out),
        }
        script::take_ended_waits(hop);
    }
    if jobs::rejoin(hop) {
        end::may_park(hop)?;
        let checkpoint = end_entry(hop)?;
        return end::park_with(hop, checkpoint, WaitMode::All).await;
    }
    hop.commit(Act::Finish { result: NewBody::new(result.as_bytes()) }).await?;
    Ok(Next::Done)
}

/// Calls that have to end before the run may: ambiguous ones, and those whose jobs were handed over.
fn left_open(hop: &Hop) -> Vec<CallId> {
    let job = |id: CallId| hop.waits.iter().any(|wait| wait.call == id && matches!(wait.owner, Owner::Job(_)));
    let open = hop.calls.values().filter(|call| !call.is_ended() && call.position.is_some());
    open.filter(|call| matches!(call.state, State::Ambiguous(_)) || job(call.id)).map(|call| call.id).collect()
}
