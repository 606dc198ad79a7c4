//! Lists: what is asked for, how a page is cut, and how a cursor is written.
//!
//! A row of a page that cannot be read is listed beside the items; it never fails the page.

use std::fmt;
use std::str::FromStr;

use protocol::approval;
use protocol::id::{Id, JobId, RunId};
use protocol::run::Status;
use protocol::time::Time;

use crate::error::{Corrupt, ReadError};

/// Where a list goes on. Its text is opaque to clients (I-37).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor(pub(crate) i64, pub(crate) i64);

impl Cursor {
    /// A place that is named by an id.
    pub(crate) fn of(id: [u8; 16]) -> Cursor {
        let bits = u128::from_be_bytes(id);
        Cursor((bits >> 64) as i64, bits as i64)
    }

    pub(crate) fn id<T: Id>(self) -> T {
        let bits = u128::from(self.0 as u64) << 64 | u128::from(self.1 as u64);
        T::from_bytes(bits.to_be_bytes())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.0, self.1)
    }
}

impl FromStr for Cursor {
    type Err = ReadError;
    fn from_str(text: &str) -> Result<Cursor, ReadError> {
        let number = |part: &str| u64::from_str_radix(part, 16).ok().map(|bits| bits as i64);
        let read = || {
            let (a, b) = text.split_once('.')?;
            Some(Cursor(number(a)?, number(b)?))
        };
        // Only the text that was written is a cursor, so that equal places have equal texts.
        read().filter(|cursor| cursor.to_string() == text).ok_or_else(|| ReadError::Cursor(text.to_owned()))
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Rows of this page that cannot be read.
    pub faults: Vec<Corrupt>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// The same page of other things.
    pub fn map<U>(self, map: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(map).collect(), faults: self.faults, next: self.next }
    }
}

impl<T> Default for Page<T> {
    fn default() -> Page<T> {
        Page { items: Vec::new(), faults: Vec::new(), next: None }
    }
}

/// Which runs are listed; everything that is named must hold. Newest first.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    pub namespace: Option<String>,
    /// Empty: any.
    pub statuses: Vec<Status>,
    pub workflow: Option<String>,
    pub labels: Vec<(String, String)>,
    pub waiting_for: Option<WaitingFor>,
    pub created_from: Option<Time>,
    /// Not included.
    pub created_to: Option<Time>,
}

/// The kind of an open wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitingFor {
    Approval,
    Timer,
    Signal,
    Job,
}

/// Which jobs are listed; everything that is named must hold. Newest first.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    pub job: Option<JobId>,
    pub namespace: Option<String>,
    pub run: Option<RunId>,
    pub kind: Option<String>,
    /// Only those that have not ended.
    pub open: bool,
}

/// Which approvals are listed.
#[derive(Clone, Debug, Default)]
pub struct ApprovalFilter {
    pub namespace: Option<String>,
    pub run: Option<RunId>,
    /// `None`: pending ones.
    pub status: Option<ApprovalStatus>,
    /// Empty: any.
    pub kinds: Vec<approval::Kind>,
    pub order: ApprovalOrder,
}

/// A status to filter by, without what is known only in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Expired,
    Cancelled,
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ApprovalOrder {
    #[default]
    Newest,
    Oldest,
    /// What expires first; what never expires comes last.
    Expiring,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nothing_else_does() {
        for cursor in [Cursor(0, 0), Cursor(i64::MAX, 7), Cursor(-1, i64::MIN)] {
            assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor); // I-37
        }
        for text in ["", ".", "1", "1.", "1.2.3", "01.2", "g.1", "1.2 "] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}
