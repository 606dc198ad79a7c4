//! The ledger: the one place where the truth about runs is kept.
//!
//! [`Ledger::transact`] loads the rows a command names, lets `protocol` decide, saves what changed with its events in
//! one transaction, and answers after the commit is durable. The store never changes a status itself and parses no body.
//! Commands that wait are committed together; one that fails never takes another with it.
//!
//! Where to start: [`Ledger`]; then `sqlite/sql/0001_ledger.sql` for what is kept, `sqlite/writer.rs` for how it is
//! written, and [`conformance`] for what every store must do.

mod config;
mod error;
pub mod failpoint;
mod hint;
mod ledger;
mod lock;
mod page;
mod queue;
mod reads;
mod shared;
mod sqlite;

#[cfg(feature = "testing")]
pub mod conformance;

pub use config::{Checkpoints, Clock, StoreConfig};
pub use error::{Corrupt, OpenError, ReadError, TransactError};
pub use hint::Hint;
pub use ledger::Ledger;
pub use page::{ApprovalFilter, ApprovalOrder, ApprovalStatus, Cursor, JobFilter, Page, RunFilter, WaitingFor};
#[cfg(feature = "testing")]
pub use sqlite::scans;
pub use sqlite::{
    ApprovalOf, CallOf, Changed, Check, Claimable, Counts, Due, JobOf, LastAnchor, Old, Reach, Removed, Seen, Shown,
};
