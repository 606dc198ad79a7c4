//! How lists are cut: limits, cursors, places (I-37, I-44).

use super::invalid;
use super::problem::Answer;
use api::page::{Page, Tail};
use protocol::code::Code;

/// Items of a page that names no number.
const USUAL: u32 = 50;
/// The most items of a page.
const MOST: u32 = 500;
/// The most lines of a tail.
pub(super) const MOST_LINES: u32 = 1_000;

/// The number of items that is asked for, 1 to 500.
pub(super) fn limit(asked: Option<u32>) -> Answer<usize> {
    limit_within(asked, USUAL, MOST)
}

/// As [`limit`], for events and log lines.
pub(super) fn lines(asked: Option<u32>) -> Answer<usize> {
    limit_within(asked, MOST_LINES, MOST_LINES)
}

fn limit_within(asked: Option<u32>, usual: u32, most: u32) -> Answer<usize> {
    match asked {
        None => Ok(usual as usize),
        Some(n @ 1..) if n <= most => Ok(n as usize),
        Some(n) => Err(invalid(format!("query parameter `limit`: {n} is not within 1 to {most}"))),
    }
}

/// A page as it fills. A damaged row is counted and left out, since it takes no other with it; its cause is in the
/// log, and asked for alone it says that something is wrong.
pub(super) struct Filling<T> {
    items: Vec<T>,
    unreadable: u64,
}

impl<T> Filling<T> {
    pub(super) fn new() -> Filling<T> {
        Filling { items: Vec::new(), unreadable: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Puts a drawn item into the page.
    pub(super) fn keep(&mut self, drawn: Answer<T>) -> Answer<()> {
        match drawn {
            Ok(item) => self.items.push(item),
            Err(problem) if problem.is(Code::Internal) => self.unreadable += 1,
            Err(problem) => return Err(problem),
        }
        Ok(())
    }

    /// Counts the rows that the store could not read.
    pub(super) fn lost(&mut self, faults: &[store::Corrupt]) {
        for fault in faults {
            tracing::error!(%fault, "a row of a list cannot be read");
        }
        self.unreadable += faults.len() as u64;
    }

    /// The page, and where the list goes on.
    pub(super) fn page(self, next: Option<impl ToString>) -> Page<T> {
        let next_cursor = next.map(|next| next.to_string());
        Page { items: self.items, next_cursor, unreadable: self.unreadable }
    }
}

/// The store's cursor in a text.
pub(super) fn cursor(text: Option<&str>) -> Answer<Option<store::Cursor>> {
    text.map(|text| text.parse().map_err(|_| invalid("query parameter `cursor`: this is no cursor of this list")))
        .transpose()
}

/// A place in what is numbered from 0: `None` and the empty text are before the first.
pub(super) fn place(text: Option<&str>) -> Answer<Option<u32>> {
    match text.unwrap_or_default() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| invalid("query parameter `after`: this is no number of a line")),
    }
}

/// A page of something that is held in memory, in its order, by a key that only grows stale with its item.
pub(super) fn page_of<T>(
    items: Vec<T>,
    key: impl Fn(&T) -> String,
    after: Option<&str>,
    limit: usize,
) -> Answer<Page<T>> {
    let start = match after {
        None => 0,
        Some(after) => match items.iter().position(|item| key(item) == after) {
            Some(found) => found + 1,
            None => return Err(invalid("query parameter `cursor`: this is no cursor of this list")),
        },
    };
    let more = items.len() > start + limit;
    let items: Vec<T> = items.into_iter().skip(start).take(limit).collect();
    let next_cursor = items.last().filter(|_| more).map(key);
    Ok(Page { items, next_cursor, unreadable: 0 })
}

/// A stretch in order, with the place to go on from.
pub(super) fn tail<T>(items: Vec<T>, place: impl Fn(&T) -> u64, asked: Option<u32>) -> Tail<T> {
    let last = items.last().map(place).or(asked.map(u64::from));
    Tail { items, next_after: last.map(|place| place.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_served_at_the_edge_and_refused_beyond() {
        assert_eq!(limit(None).unwrap(), 50);
        assert_eq!(limit(Some(500)).unwrap(), 500); // I-37
        for wrong in [0, 501] {
            assert_eq!(limit(Some(wrong)).unwrap_err().code, "invalid_request", "{wrong}");
        }
        assert_eq!(lines(Some(1_000)).unwrap(), 1_000);
        assert!(lines(Some(1_001)).is_err());
    }

    #[test]
    fn pages_follow_each_other_without_hole_or_repeat() {
        let all: Vec<u32> = (0..7).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = page_of(all.clone(), u32::to_string, after.as_deref(), 3).unwrap();
            seen.extend(page.items);
            after = page.next_cursor;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, all); // I-44
        assert!(page_of(all, u32::to_string, Some("x"), 3).is_err());
    }

    #[test]
    fn the_empty_place_is_before_the_first() {
        assert_eq!(place(None).unwrap(), None);
        assert_eq!(place(Some("")).unwrap(), None);
        assert_eq!(place(Some("0")).unwrap(), Some(0));
        assert!(place(Some("-1")).is_err());
        assert_eq!(tail(vec![4_u64, 5], |n| *n, Some(3)).next_after.as_deref(), Some("5"));
        assert_eq!(tail(Vec::<u64>::new(), |n| *n, Some(3)).next_after.as_deref(), Some("3"));
        assert_eq!(tail(Vec::<u64>::new(), |n| *n, None).next_after, None);
    }
}
