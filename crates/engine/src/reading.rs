//! Reading from the ledger what a run cannot go on without.
//!
//! Invariant: an error in reading is never taken for absence. It is tried again; if it lasts, a hop does no more
//! and its claim lapses, so that another hop can try. Stored bytes that are not what they must be are another thing:
//! reading again would not mend them.

use std::time::Duration;
use store::ReadError;

/// Pauses between the tries of one read, together about a second and a half: a busy disk, not a broken one.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800)];

/// Why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// What is stored is not what its name says.
    #[error("{0}")]
    Damaged(String),
    /// The store gave no answer, however often it was asked.
    #[error("{0}")]
    Unavailable(String),
}

/// Reads, trying again while the store gives no answer.
pub(crate) async fn read<T, F>(mut read: impl FnMut() -> F) -> Result<T, Unread>
where
    F: Future<Output = Result<T, ReadError>>,
{
    for pause in PAUSES {
        match read().await {
            Err(ReadError::Unavailable { reason }) => {
                tracing::warn!(reason, "a read failed; trying again");
                tokio::time::sleep(pause).await;
            }
            other => return other.map_err(Unread::from),
        }
    }
    read().await.map_err(Unread::from)
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Unread {
        match error {
            ReadError::Corrupt(corrupt) => Unread::Damaged(corrupt.to_string()),
            ReadError::Unavailable { reason } => Unread::Unavailable(reason),
            // No hop reads a list by a cursor.
            ReadError::Cursor(_) => Unread::Damaged(error.to_string()),
        }
    }
}
