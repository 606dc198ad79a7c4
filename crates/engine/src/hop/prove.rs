//! Proving that a run goes on under another revision, without a claim and without an effect.
//!
//! The whole journal is told again to the new program, in a guest of its own that is thrown away: nothing is dispatched,
//! asked, counted, charged, printed or written.

use super::open::Closed;
use super::replay::{self, Replayed};
use super::script;
use super::state::{Hop, Out};
use crate::inner::Inner;
use crate::worker::Live;
use protocol::code::Code;
use protocol::run::{Failure, Run};
use std::sync::Arc;

/// Why there is no proof.
#[derive(Debug)]
pub(crate) enum Unproved {
    /// The first difference, or what is missing here.
    Differs(Failure),
    /// Nothing can be said of it now.
    Unread,
}

/// `run` is the run as it would be once it was moved.
pub(crate) async fn prove(inner: Arc<Inner>, run: Run) -> Result<(), Unproved> {
    let live = Arc::new(Live::new(&inner, run.id, run.fence));
    let mut hop = match Hop::open(inner, live, run).await {
        Ok(hop) => hop,
        Err(Closed::Next(_)) => return Err(Unproved::Unread),
        Err(Closed::Failed(_, failure)) => return Err(Unproved::Differs(failure)),
    };
    // Of Rust code the state that it stands in was read as the new code's, which is all there is to tell again.
    if !hop.run.kind.is_journaled() || hop.start.is_none() {
        return Ok(());
    }
    let told = async {
        let guest = script::from_the_start(&mut hop).await?;
        match replay::replay(&mut hop, guest, false).await? {
            Replayed::Waiting(_) | Replayed::Caught(_) => Ok(()),
        }
    };
    match told.await {
        Ok(()) => Ok(()),
        Err(Out::Fail(failure)) => Err(Unproved::Differs(*failure)),
        Err(Out::Lost | Out::Stopping | Out::GiveWay) => Err(Unproved::Unread),
    }
}

impl Unproved {
    /// In words, with the call at which the programs part.
    pub(crate) fn why(&self) -> String {
        match self {
            Unproved::Unread => "it cannot be proved here now; nothing was changed".to_owned(),
            Unproved::Differs(failure) => match (failure.code, difference(failure)) {
                (Code::ReplayDiverged, Some(difference)) => difference,
                _ => match detail(failure).as_ref().and_then(|detail| detail.get("why")?.as_str()) {
                    Some(why) => format!("{}: {why}", failure.message),
                    None => failure.message.clone(),
                },
            },
        }
    }
}

fn detail(failure: &Failure) -> Option<serde_json::Value> {
    serde_json::from_str(failure.detail.as_ref()?.as_str()).ok()
}

fn difference(failure: &Failure) -> Option<String> {
    let detail = detail(failure)?;
    let of = |key: &str| detail.get(key).and_then(serde_json::Value::as_str);
    let (what, call, journaled) = (of("what")?, of("call")?, of("journaled")?);
    Some(match of("asked") {
        Some(asked) => format!("at {call} {what}: journaled {journaled}, asked {asked}"),
        None => format!("at {call} {what}: journaled {journaled}"),
    })
}
