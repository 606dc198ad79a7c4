//! Waiting for a run to stop or end: hints wake, the row decides, a scan finds what a lost hint hid.

use crate::failure::Failure;
use crate::inner::Inner;
use protocol::code::Code;
use protocol::id::RunId;
use protocol::pause;
use protocol::registry::Registry;
use protocol::run::{Phase, Run, Status};
use std::time::Duration;

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// An end, a park, a pause, or a stop that waits for the outside (I-19b).
    Stopped,
    Terminal,
}

impl Until {
    fn met(self, run: &Run, registry: &Registry) -> bool {
        match self {
            Until::Terminal => run.status().is_final(),
            Until::Stopped => {
                let outside = matches!(run.phase, Phase::Stopping { hop: None, .. });
                // Nothing takes it until somebody lets it go on.
                let held = run.status() == Status::Queued && pause::is_paused(run, registry);
                run.status().is_final() || run.status().is_parked() || outside || held
            }
        }
    }
}

pub(crate) async fn wait(inner: &Inner, id: RunId, until: Until, timeout: Duration) -> Result<Option<Run>, Failure> {
    // Listen first, then look: a change in between is not missed.
    let mut hints = inner.ledger.subscribe();
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    loop {
        let run = inner.ledger.run(id).await?;
        let run = run.ok_or_else(|| Failure::refused(Code::NotFound, format!("there is no run {id}")))?;
        if until.met(&run, &inner.ledger.registry()) {
            return Ok(Some(run));
        }
        let scan = tokio::time::sleep(inner.settings.scan_every);
        tokio::pin!(scan);
        loop {
            tokio::select! {
                () = &mut deadline => return Ok(None),
                () = &mut scan => break,
                hint = hints.recv() => match hint {
                    Ok(hint) if hint.run != id => {}
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }
}
