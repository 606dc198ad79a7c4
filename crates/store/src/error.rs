//! What can go wrong, one type for each operation.
//!
//! A refusal is a decision's answer and expected. Everything else here is of the store: a row that cannot be read, a
//! disk that is full, a commit whose fate is unknown.

use std::path::PathBuf;

use protocol::refusal::Refusal;

/// Why a ledger does not open. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it (I-18).
    #[error("{} is in use{}", path.display(), holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked { path: PathBuf, holder: Option<u32> },
    /// The file is no ledger, or SQLite refuses its pages.
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    /// A newer build made it.
    #[error("{} has schema {found}; this build knows {known}", path.display())]
    TooNew { path: PathBuf, found: u32, known: u32 },
    /// A migration that was applied is not the one this build has.
    #[error("{}: migration {number} was applied in another form", path.display())]
    Foreign { path: PathBuf, number: u32 },
    /// The durability that the ledger promises is not there.
    #[error("{}: {setting} is {found}, and must be {wanted}", path.display())]
    NotDurable { path: PathBuf, setting: &'static str, found: String, wanted: &'static str },
    #[error("{}: {why}", path.display())]
    Unavailable { path: PathBuf, why: String },
}

impl OpenError {
    /// What to do about it (I-16).
    pub fn hint(&self) -> &'static str {
        match self {
            OpenError::Locked { .. } => "stop that process, or use another data directory",
            OpenError::Damaged { .. } => "copy the data directory before anything else, then restore the last backup",
            OpenError::TooNew { .. } => "use the build that wrote it, or a newer one",
            OpenError::Foreign { .. } => "use the build that wrote it",
            OpenError::NotDurable { .. } => "use a local file system that honours sync",
            OpenError::Unavailable { .. } => "check that the directory exists, is writable and has room",
        }
    }

    /// The word on the wire (I-47).
    pub fn code(&self) -> protocol::code::Code {
        use protocol::code::Code;
        match self {
            OpenError::Locked { .. } => Code::StoreLocked,
            OpenError::Damaged { .. } => Code::StoreDamaged,
            OpenError::TooNew { .. } | OpenError::Foreign { .. } => Code::StoreTooNew,
            OpenError::NotDurable { .. } | OpenError::Unavailable { .. } => Code::StoreUnavailable,
        }
    }
}

/// Why a command changed nothing, or may have.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransactError {
    /// The decision refuses; what it records of the attempt, if anything, is committed.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// Rows of this run cannot be read; nothing of the command is committed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corrupt>),
    /// A broken invariant; nothing of the command is committed.
    #[error("internal: {detail}")]
    Internal { detail: String },
    /// Nothing of the command is committed, proved.
    #[error("the store is not available: {reason}")]
    Unavailable { reason: String },
    /// The commit failed, or its answer is lost: look at the rows the command names.
    #[error("whether the command was committed is not known: {reason}")]
    Unknown { reason: String },
}

impl TransactError {
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            TransactError::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// Why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Corrupt(#[from] Box<Corrupt>),
    #[error("the store is not available: {reason}")]
    Unavailable { reason: String },
    /// The text is no cursor of this list.
    #[error("`{0}` is no cursor of this list")]
    Cursor(String),
}

/// A stored row that no decision could have written. It is reported and left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table} {key}: {field}: {why}")]
pub struct Corrupt {
    pub table: &'static str,
    /// The row's own id; a run's where the row has none.
    pub key: String,
    pub field: &'static str,
    pub why: String,
}
