//! The checkpoint of a script: which calls its one node waits for, and where its journal stands (runs.md section 15).
//!
//! Owns: writing and reading the body `stasis.checkpoint.v1`. The header on the run row decides; the body is believed
//! only after its length and digest were verified.

use super::open::invalid;
use super::state::{Hop, Out};
use crate::register::SCRIPT_STATE;
use protocol::code::Code;
use protocol::command::NewCheckpoint;
use protocol::digest::Digest;
use protocol::id::{CallId, RunId, WaitId};
use protocol::json::to_canonical;
use protocol::rows::NewBody;
use protocol::run::Snapshot;
use serde::{Deserialize, Serialize};

const FORMAT: &str = "stasis.checkpoint.v1";
/// The one node of a script.
const NODE: &str = "body";

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

/// A history entry.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kind: EntryKind,
    id: u32,
    seq: u32,
    node: String,
    state: State,
    status: EntryStatus,
    waits: Vec<WaitId>,
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

/// Builds the checkpoint of a park: the interrupted entry is suspended, a new one is resumable.
pub(super) fn build(
    hop: &Hop,
    blocked: &[CallId],
    waits: &[WaitId],
    snapshot: Option<(Snapshot, Option<NewBody>)>,
) -> Result<NewCheckpoint, Out> {
    let n = hop.run.checkpoint.as_ref().map_or(0, |c| c.n) + 1;
    let entry = |id: u32, status: EntryStatus, waits: &[WaitId]| Entry {
        kind: EntryKind::Node,
        id,
        seq: hop.run.seq,
        node: NODE.to_owned(),
        state: State { blocked: blocked.to_vec() },
        status,
        waits: waits.to_vec(),
    };
    let body = Body {
        format: FORMAT.to_owned(),
        run: hop.run.id,
        n,
        pattern: hop.run.pattern.digest,
        schema: SCRIPT_STATE.to_owned(),
        entries: vec![entry(2 * n - 1, EntryStatus::Suspended, &[]), entry(2 * n, EntryStatus::Created, waits)],
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

/// Checks the checkpoint a resumed hop starts from: presence, then validity. A run without one replays
/// its journal from the input.
pub(super) async fn load(hop: &mut Hop) -> Result<(), Out> {
    let Some(header) = hop.run.checkpoint.clone() else { return Ok(()) };
    if header.schema != SCRIPT_STATE {
        return Err(Out::Fail(Box::new(invalid(&format!("schema {} has no migrator here", header.schema)))));
    }
    let stored = hop.inner.ledger.body(hop.run.id, header.body.digest).await;
    let bytes = match stored {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(Out::fail(Code::StasisLost, "stasis lost")),
        Err(error) => {
            tracing::warn!(run = %hop.run.id, %error, "a checkpoint could not be read");
            return Err(Out::Lost);
        }
    };
    let fault = |why: String| Err(Out::Fail(Box::new(invalid(&why))));
    if bytes.len() != header.body.len as usize {
        return fault(format!("{} bytes, the header says {}", bytes.len(), header.body.len));
    }
    if Digest::of(&bytes) != header.body.digest {
        return fault("its digest differs".to_owned());
    }
    if bytes.is_empty() {
        return fault("no resumable entry".to_owned());
    }
    match validate(&bytes, hop) {
        Ok(()) => Ok(()),
        Err(why) => fault(why),
    }
}

fn validate(bytes: &[u8], hop: &Hop) -> Result<(), String> {
    let header = hop.run.checkpoint.as_ref().expect("the caller has a header");
    let body: Body = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if body.format != FORMAT {
        return Err(format!("unknown format {}", body.format));
    }
    if body.run != hop.run.id || body.n != header.n || body.pattern != hop.run.pattern.digest {
        return Err("it belongs to another run, number or pattern".to_owned());
    }
    let resumable = body.entries.iter().filter(|e| e.status == EntryStatus::Created).count();
    match resumable {
        0 => return Err("no resumable entry".to_owned()),
        1 => {}
        _ => return Err("more than one resumable entry".to_owned()),
    }
    if body.journal.position != header.journal.len
        || body.journal.digest != header.journal.digest
        || body.journal.position > hop.run.journal.len
    {
        return Err("journal".to_owned());
    }
    Ok(())
}
