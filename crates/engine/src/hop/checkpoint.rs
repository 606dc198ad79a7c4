//! The checkpoint of a script: which calls its one node waits for, and where its journal stands (runs.md section 15).
//!
//! Owns: writing and reading the body `stasis.checkpoint.v1`. The header on the run row decides; the body is believed
//! only after its length and digest were verified.

use super::state::{Hop, Out};
use crate::migrate::Migrators;
use crate::reading::{self, Unread};
use crate::register::SCRIPT_STATE;
use protocol::builtin;
use protocol::call;
use protocol::code::Code;
use protocol::command::NewCheckpoint;
use protocol::digest::Digest;
use protocol::id::{CallId, RunId, WaitId};
use protocol::json::to_canonical;
use protocol::rows::NewBody;
use protocol::run::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FORMAT: &str = "stasis.checkpoint.v1";
/// The one node of a script.
pub(super) const NODE: &str = "body";

/// The body of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<S> {
    format: String,
    run: RunId,
    n: u32,
    pattern: Digest,
    schema: String,
    entries: Vec<Entry<S>>,
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
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<S> {
    kind: EntryKind,
    id: u32,
    seq: u32,
    node: String,
    state: S,
    status: EntryStatus,
    waits: Vec<WaitId>,
    /// Of a hold: what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryKind {
    Node,
}

///
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryStatus {
    Created,
    Running,
    Success,
    Error,
    Suspended,
}

/// The typed state of a script: the calls it is blocked in. All else is its journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    blocked: Vec<CallId>,
}

/// The id of the entry that a hop executes: the resumable one of its checkpoint, else the first.
pub(super) fn occurrence(hop: &Hop) -> u32 {
    hop.run.checkpoint.as_ref().map_or(0, |header| header.n) + 1
}

/// Builds the checkpoint of a park, or of a hold for `resource`: the interrupted entry is suspended, a new one is resumable. Those that finished
/// before are left out.
pub(super) fn build(
    hop: &Hop,
    blocked: &[CallId],
    waits: &[WaitId],
    resource: Option<&str>,
    snapshot: Option<(Snapshot, Option<NewBody>)>,
) -> Result<NewCheckpoint, Out> {
    let n = occurrence(hop);
    let entry = |id: u32, status: EntryStatus, waits: &[WaitId], resource: Option<&str>| Entry {
        kind: EntryKind::Node,
        id,
        seq: hop.run.seq,
        node: NODE.to_owned(),
        state: State { blocked: blocked.to_vec() },
        status,
        waits: waits.to_vec(),
        resource: resource.map(str::to_owned),
    };
    let body = Body {
        format: FORMAT.to_owned(),
        run: hop.run.id,
        n,
        pattern: hop.run.pattern.digest,
        schema: SCRIPT_STATE.to_owned(),
        entries: vec![entry(n, EntryStatus::Suspended, &[], None), entry(n + 1, EntryStatus::Created, waits, resource)],
        waits: waits.to_vec(),
        journal: Journal { position: hop.journal.len, digest: hop.journal.digest },
        snapshot: snapshot.as_ref().map(|(s, _)| SnapshotRef {
            engine: s.engine.clone(),
            digest: s.body.digest,
            length: s.body.len,
        }),
    };
    let text = to_canonical(&body).map_err(|error| Out::fail(Code::CheckpointInvalid, error.to_string()))?;
    Ok(NewCheckpoint {
        schema: SCRIPT_STATE.to_owned(),
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

/// Whether a hop may start from this body: it is the run's own, and says one thing only.
pub(super) fn validate(bytes: &[u8], hop: &Hop) -> Result<(), String> {
    let Some(header) = &hop.run.checkpoint else { return Err("the run names none".to_owned()) };
    if bytes.is_empty() {
        return Err("no resumable entry".to_owned());
    }
    let body: Body<Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if body.format != FORMAT {
        return Err(format!("unknown format {}", body.format));
    }
    if body.run != hop.run.id || body.n != header.n || body.pattern != hop.run.pattern.digest {
        return Err("it belongs to another run, number or pattern".to_owned());
    }
    if body.schema != header.schema {
        return Err(format!("its schema is {}, its header says {}", body.schema, header.schema));
    }
    let entries = migrated(body.entries, &hop.inner.migrators, &body.schema)?;
    let mut resumable = entries.iter().filter(|entry| entry.status == EntryStatus::Created);
    match (resumable.next(), resumable.next()) {
        (None, _) => return Err("no resumable entry".to_owned()),
        (Some(_), Some(_)) => return Err("more than one resumable entry".to_owned()),
        (Some(entry), None) if entry.waits != body.waits => return Err("its waits differ from its entry's".to_owned()),
        (Some(entry), None) => waits(hop, entry)?,
    }
    let journal = &body.journal;
    let agrees = journal.position == header.journal.len && journal.digest == header.journal.digest;
    if agrees && journal.position <= hop.run.journal.len { Ok(()) } else { Err("journal".to_owned()) }
}

/// The entries as this build would have written them.
fn migrated(entries: Vec<Entry<Value>>, migrators: &Migrators, schema: &str) -> Result<Vec<Entry<State>>, String> {
    let chain = migrators.chain(schema, SCRIPT_STATE).ok_or_else(|| format!("no migrator leads here from {schema}"))?;
    let typed = |Entry { kind, id, seq, node, state, status, waits, resource }| {
        let state =
            serde_json::from_value(chain.apply(state)?).map_err(|error| format!("state of entry {id}: {error}"))?;
        Ok(Entry { kind, id, seq, node, state, status, waits, resource })
    };
    entries.into_iter().map(typed).collect()
}

/// The entry waits for calls of this run, by waits of this run. A wait row goes when its call goes on, asks anew, or has
/// another wait that ended first, and for no other reason.
fn waits(hop: &Hop, entry: &Entry<State>) -> Result<(), String> {
    let blocked = &entry.state.blocked;
    if let Some(id) = blocked.iter().find(|id| !hop.calls.contains_key(id)) {
        return Err(format!("{id} is no call of this run"));
    }
    let here = |id: &WaitId| hop.waits.iter().find(|wait| wait.id == *id);
    if let Some(wait) = entry.waits.iter().filter_map(here).find(|wait| !blocked.contains(&wait.call)) {
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
    let gone = entry.waits.iter().filter(|id| here(id).is_none()).count();
    let explained = blocked.iter().filter(went_on).count();
    if gone > explained { Err(format!("{} of its waits are not the run's", gone - explained)) } else { Ok(()) }
}
