//! What a hop answers: exactly one word, counted for `/metrics`.

use super::Next;
use protocol::run::Status;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What came of one hop, or of the claim of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Answer {
    Done,
    Failed,
    /// Handed back, or parked and returned.
    Queued,
    Awaiting(Status),
    /// The run is stopping, or the claim was lost.
    Stopped,
    /// Somebody else has it, or it is over.
    Skipped,
    /// It may not be claimed now.
    NotNow,
}

impl Answer {
    /// Of a hop whose run stands at `status` after its last commit.
    pub(super) fn of(next: &Next, status: Status) -> Answer {
        match (next, status) {
            (Next::Claimed(_), _) | (Next::Done, Status::Queued) => Answer::Queued,
            (Next::Dropped, _) => Answer::Stopped,
            (Next::Done, Status::Done) => Answer::Done,
            (Next::Done, Status::Failed | Status::Failing) => Answer::Failed,
            (Next::Done, status) if status.is_parked() => Answer::Awaiting(status),
            (Next::Done, _) => Answer::Stopped,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Answer::Done => "done",
            Answer::Failed => "failed",
            Answer::Queued => "queued",
            Answer::Awaiting(status) => status.as_str(),
            Answer::Stopped => "stopped",
            Answer::Skipped => "skipped",
            Answer::NotNow => "not_now",
        }
    }
}

/// How often each was answered since this process started.
#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<Answer, u64>>);

impl Tally {
    pub(crate) fn count(&self, answer: Answer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(answer).or_default() += 1;
    }

    pub(crate) fn counted(&self) -> Vec<(&'static str, u64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(answer, n)| (answer.as_str(), *n)).collect()
    }
}
