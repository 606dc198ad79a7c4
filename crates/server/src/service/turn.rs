//! Where a list of approvals goes on, when the most urgent come first.
//!
//! Owns the order that the store has no word for: pending questions whether something happened, which hold their run and
//! never expire, before those that expire. It is two lists, one after the other, and a cursor says in which it stands.

use super::list;
use super::problem::Answer;
use protocol::approval::Kind;
use store::Cursor;

/// A place in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    part: Part,
    pub(super) after: Option<Cursor>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// One list of all kinds.
    Whole,
    Settling,
    Others,
}

/// Before the cursor of a place in the first part; a cursor itself begins with a hexadecimal digit.
const SETTLING: char = 's';
/// The beginning of the second part.
const OTHERS: &str = "o";

impl Turn {
    /// The place that a cursor names. `urgent`: the list comes in two parts.
    pub(super) fn of(urgent: bool, cursor: Option<&str>) -> Answer<Turn> {
        let (part, rest) = match cursor {
            _ if !urgent => (Part::Whole, cursor),
            None => (Part::Settling, None),
            Some(OTHERS) => (Part::Others, None),
            Some(text) => match text.strip_prefix(SETTLING) {
                Some(rest) => (Part::Settling, Some(rest)),
                None => (Part::Others, Some(text)),
            },
        };
        Ok(Turn { part, after: list::cursor(rest)? })
    }

    /// The kinds of this part; none named is all.
    pub(super) fn kinds(self) -> Vec<Kind> {
        match self.part {
            Part::Whole => Vec::new(),
            Part::Settling => vec![Kind::Settle],
            Part::Others => vec![Kind::Call, Kind::Gate],
        }
    }

    /// The place after a page; `None` at the end of the last part.
    pub(super) fn then(self, next: Option<Cursor>) -> Option<Turn> {
        match (self.part, next) {
            (part, Some(after)) => Some(Turn { part, after: Some(after) }),
            (Part::Settling, None) => Some(Turn { part: Part::Others, after: None }),
            (Part::Whole | Part::Others, None) => None,
        }
    }

    /// The cursor that names it.
    pub(super) fn cursor(self) -> String {
        match (self.part, self.after) {
            (Part::Settling, Some(after)) => format!("{SETTLING}{after}"),
            (Part::Whole | Part::Others, Some(after)) => after.to_string(),
            (_, None) => OTHERS.to_owned(),
        }
    }
}
