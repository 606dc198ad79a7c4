//! Checkpoints: from what the next hop goes on (runs.md section 15).
//!
//! Owns: writing and reading the body `stasis.checkpoint.v1`. The header on the run row decides; the body is believed
//! only after its length and digest were verified. What a state means is its program's matter: of a script the calls
//! that it is blocked in, all else being its journal; of Rust code the typed state, read before anything is executed.

use super::state::{Hop, Out};
use super::steps::{Made, Place};
use crate::migrate::Migrators;
use crate::pinned::Program;
use crate::reading::{self, Unread};
use protocol::builtin;
use protocol::call;
use protocol::code::Code;
use protocol::command::NewCheckpoint;
use protocol::digest::Digest;
use protocol::id::{CallId, RunId, WaitId};
use protocol::json::{Canonical, to_canonical};
use protocol::rows::NewBody;
use protocol::run::Snapshot;
use protocol::time::Time;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

const FORMAT: &str = "stasis.checkpoint.v1";
/// The one node of a script.
pub(super) const NODE: &str = "body";

/// The body of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    format: String,
    run: RunId,
    n: u32,
    pattern: Digest,
    schema: String,
    entries: Vec<Entry>,
    waits: Vec<WaitId>,
    journal: Journal,
    snapshot: Option<SnapshotRef>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    position: u32,
    digest: Digest,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotRef {
    engine: String,
    digest: Digest,
    length: u32,
}

/// A history entry; its state is untyped until it is of the schema that is written here.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Entry {
    Node(NodeEntry),
    End(EndEntry),
}

/// As [`Entry`] has it; written first, so that an entry is read by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryKind {
    Node,
    End,
}

impl<'de> Deserialize<'de> for Entry {
    /// By hand, since serde's own reading of tagged entries would lose how numbers of a result are written.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        #[derive(Deserialize)]
        struct Tag {
            kind: EntryKind,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Tag { kind } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let entry = match kind {
            EntryKind::Node => serde_json::from_str(text.get()).map(Entry::Node),
            EntryKind::End => serde_json::from_str(text.get()).map(Entry::End),
        };
        entry.map_err(D::Error::custom)
    }
}

/// A node, with the state as it is before it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeEntry {
    pub(super) kind: EntryKind,
    pub(super) id: u32,
    pub(super) seq: u32,
    pub(super) node: String,
    pub(super) state: Value,
    pub(super) status: EntryStatus,
    pub(super) waits: Vec<WaitId>,
    /// Of a hold: what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// Calls that Rust code made since it came to the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<Made>,
}

/// A body that ended, with its final state, and has still to wait for what it left open.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndEntry {
    pub(super) kind: EntryKind,
    pub(super) id: u32,
    pub(super) seq: u32,
    pub(super) state: Value,
    pub(super) result: Canonical,
    pub(super) at: Time,
}

///
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryStatus {
    Created,
    Running,
    Success,
    Error,
    Suspended,
}

/// The state of a script.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    blocked: Vec<CallId>,
}

/// The id of the entry that a script's hop executes: the resumable one of its checkpoint, else the first.
pub(super) fn occurrence(hop: &Hop) -> u32 {
    hop.run.checkpoint.as_ref().map_or(0, |header| header.n) + 1
}

/// Builds the checkpoint of a script that parks, or holds for `resource`: the interrupted entry is suspended, a new one is
/// resumable.
pub(super) fn of_script(
    hop: &Hop,
    blocked: &[CallId],
    waits: &[WaitId],
    resource: Option<&str>,
    snapshot: Option<(Snapshot, Option<NewBody>)>,
) -> Result<NewCheckpoint, Out> {
    let id = occurrence(hop);
    let suspended = script_entry(hop, id, EntryStatus::Suspended, blocked);
    let next = NodeEntry {
        waits: waits.to_vec(),
        resource: resource.map(str::to_owned),
        ..script_entry(hop, id + 1, EntryStatus::Created, blocked)
    };
    build(hop, vec![Entry::Node(suspended), Entry::Node(next)], snapshot)
}

/// Builds the checkpoint of a script that has ended, and that waits for jobs which it did not wait for.
pub(super) fn of_ended_script(hop: &Hop, result: Canonical) -> Result<NewCheckpoint, Out> {
    let id = occurrence(hop);
    let (seq, at) = (hop.run.seq, hop.inner.now());
    let end = EndEntry { kind: EntryKind::End, id: id + 1, seq, state: script_state_of(&[]), result, at };
    build(hop, vec![Entry::Node(script_entry(hop, id, EntryStatus::Success, &[])), Entry::End(end)], None)
}

fn script_entry(hop: &Hop, id: u32, status: EntryStatus, blocked: &[CallId]) -> NodeEntry {
    NodeEntry {
        kind: EntryKind::Node,
        id,
        seq: hop.run.seq,
        node: NODE.to_owned(),
        state: script_state_of(blocked),
        status,
        waits: Vec::new(),
        resource: None,
        calls: Vec::new(),
    }
}

fn script_state_of(blocked: &[CallId]) -> Value {
    serde_json::to_value(State { blocked: blocked.to_vec() }).expect("ids are texts")
}

/// Builds a checkpoint of these entries: the last that finished, and the one to go on from. All before are left out.
pub(super) fn build(
    hop: &Hop,
    entries: Vec<Entry>,
    snapshot: Option<(Snapshot, Option<NewBody>)>,
) -> Result<NewCheckpoint, Out> {
    let waits = match entries.last() {
        Some(Entry::Node(entry)) => entry.waits.clone(),
        Some(Entry::End(_)) | None => Vec::new(),
    };
    let body = Body {
        format: FORMAT.to_owned(),
        run: hop.run.id,
        n: occurrence(hop),
        pattern: hop.run.pattern.digest,
        schema: hop.pinned.schema.to_owned(),
        entries,
        waits,
        journal: Journal { position: hop.journal.len, digest: hop.journal.digest },
        snapshot: snapshot.as_ref().map(|(s, _)| SnapshotRef {
            engine: s.engine.clone(),
            digest: s.body.digest,
            length: s.body.len,
        }),
    };
    let text = to_canonical(&body).map_err(|error| Out::fail(Code::StepFailed, error.to_string()))?;
    Ok(NewCheckpoint {
        schema: hop.pinned.schema.to_owned(),
        body: NewBody::new(text.as_bytes()),
        journal: hop.journal,
        snapshot,
    })
}

/// What the ledger has of the checkpoint that a run names.
pub(super) enum Stored {
    /// The run names none: its journal is replayed from the input.
    Unnamed,
    /// The run names one, and there is none.
    Lost,
    Here(Vec<u8>),
}

/// Reads the body. Its length and digest were verified when it was read.
pub(super) async fn read(hop: &Hop) -> Result<Stored, Unread> {
    let Some(header) = &hop.run.checkpoint else { return Ok(Stored::Unnamed) };
    let bytes = reading::read(|| hop.inner.ledger.body(hop.run.id, header.body.digest)).await?;
    Ok(bytes.map_or(Stored::Lost, Stored::Here))
}

/// Whether a hop may start from this body: it is the run's own, and says one thing only. Of Rust code it
/// gives the place, in its typed state.
pub(super) fn validate(bytes: &[u8], hop: &Hop) -> Result<Option<Place>, String> {
    let Some(header) = &hop.run.checkpoint else { return Err("the run names none".to_owned()) };
    if bytes.is_empty() {
        return Err("no resumable entry".to_owned());
    }
    let body: Body = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if body.format != FORMAT {
        return Err(format!("unknown format {}", body.format));
    }
    if body.run != hop.run.id || body.n != header.n || !hop.run.was_pinned_to(body.pattern) {
        return Err("it belongs to another run, number or pattern".to_owned());
    }
    if body.schema != header.schema {
        return Err(format!("its schema is {}, its header says {}", body.schema, header.schema));
    }
    let entries = migrated(body.entries, &hop.inner.migrators, &body.schema, hop)?;
    let place = going_on(entries, &body.waits, hop)?;
    let journal = &body.journal;
    let agrees = journal.position == header.journal.len && journal.digest == header.journal.digest;
    if agrees && journal.position <= hop.run.journal.len { Ok(place) } else { Err("journal".to_owned()) }
}

/// The entries as this build would have written them.
fn migrated(entries: Vec<Entry>, migrators: &Migrators, schema: &str, hop: &Hop) -> Result<Vec<Entry>, String> {
    let chain =
        migrators.chain(schema, hop.pinned.schema).ok_or_else(|| format!("no migrator leads here from {schema}"))?;
    let one = |entry| {
        Ok(match entry {
            Entry::Node(entry) => {
                let state = chain.apply(entry.state)?;
                if matches!(hop.pinned.program, Program::Script { .. }) {
                    script_state(entry.id, &state)?;
                }
                Entry::Node(NodeEntry { state, ..entry })
            }
            Entry::End(entry) => Entry::End(EndEntry { state: chain.apply(entry.state)?, ..entry }),
        })
    };
    entries.into_iter().map(one).collect()
}

fn script_state(id: u32, state: &Value) -> Result<State, String> {
    State::deserialize(state).map_err(|error| format!("state of entry {id}: {error}"))
}

/// The one entry to go on from: the resumable one, or that of a body which has ended.
fn going_on(entries: Vec<Entry>, waits: &[WaitId], hop: &Hop) -> Result<Option<Place>, String> {
    let goes_on = |entry: &Entry| match entry {
        Entry::Node(entry) => entry.status == EntryStatus::Created,
        Entry::End(_) => true,
    };
    let mut resumable = entries.into_iter().filter(goes_on);
    match (resumable.next(), resumable.next()) {
        (None, _) => Err("no resumable entry".to_owned()),
        (Some(_), Some(_)) => Err("more than one resumable entry".to_owned()),
        (Some(Entry::Node(entry)), None) if entry.waits != waits => Err("its waits differ from its entry's".to_owned()),
        (Some(Entry::Node(entry)), None) => match &hop.pinned.program {
            Program::Rust(code) => {
                let made: Vec<CallId> = entry.calls.iter().map(|made| made.call).collect();
                waits_are_the_runs(hop, &made, &entry.waits)?;
                let stand = code.stand(&entry.node, entry.state).map_err(|why| format!("entry {}: {why}", entry.id))?;
                Ok(Some(Place::at(entry.id, stand, entry.calls)))
            }
            Program::Script { .. } | Program::None => {
                let blocked = script_state(entry.id, &entry.state)?.blocked;
                waits_are_the_runs(hop, &blocked, &entry.waits).map(|()| None)
            }
        },
        (Some(Entry::End(entry)), None) => Ok(Some(Place::ended(entry.id, entry.state, entry.result))),
    }
}

/// The entry waits for calls of this run, by waits of this run. A wait row goes when its call goes on, asks anew, or has
/// another wait that ended first, and for no other reason.
fn waits_are_the_runs(hop: &Hop, blocked: &[CallId], waits: &[WaitId]) -> Result<(), String> {
    if let Some(id) = blocked.iter().find(|id| !hop.calls.contains_key(id)) {
        return Err(format!("{id} is no call of this run"));
    }
    let here = |id: &WaitId| hop.waits.iter().find(|wait| wait.id == *id);
    if let Some(wait) = waits.iter().filter_map(here).find(|wait| !blocked.contains(&wait.call)) {
        return Err(format!("{} is the wait of another call", wait.id));
    }
    let has_one = |id: &CallId| hop.waits.iter().any(|wait| wait.call == *id);
    let answered = |id: &CallId| hop.approval_of(hop.call(*id)).is_some_and(|approval| !approval.is_pending());
    let asked = |id: &CallId| hop.call(*id).state == call::State::Asked;
    if let Some(id) = blocked.iter().find(|id| asked(id) && !has_one(id) && !answered(id)) {
        return Err(format!("{id} waits, and its wait is not the run's"));
    }
    let waiting = |id: &CallId| asked(id) || hop.call(*id).state == call::State::Entered;
    let went_on = |id: &&CallId| !waiting(id) || hop.call(**id).rounds > 0 || (answered(id) && !has_one(id));
    // of the waits of one such call the one that ended closed the others.
    let several = |id: &CallId| matches!(hop.call(*id).tool.name.as_str(), builtin::SIGNAL | builtin::FIRST);
    let ended = |id: &CallId| hop.waits.iter().any(|wait| wait.call == *id && wait.is_ended());
    if blocked.iter().any(|id| several(id) && (ended(id) || !waiting(id))) {
        return Ok(());
    }
    let gone = waits.iter().filter(|id| here(id).is_none()).count();
    let explained = blocked.iter().filter(went_on).count();
    if gone > explained { Err(format!("{} of its waits are not the run's", gone - explained)) } else { Ok(()) }
}
