//! Guesses at sign-in links and tokens: limited by where they come from, and all together (C-219).
//!
//! A secret here has 256 bits, so nobody finds one; the limit keeps trying from costing us anything. Only what was wrong
//! counts. Invariant: sources are bounded, and a source that was forgotten still counts in all.

use protocol::time::Time;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);
/// Wrong guesses of one source in a window: people mistype, and several sit behind one address.
const OF_ONE: u32 = 30;
/// Wrong guesses of all sources in a window.
const OF_ALL: u32 = 1_000;
/// Sources remembered at once; more of them than this are more guesses than all may make.
const SOURCES: usize = 1_024;

#[derive(Default)]
pub(crate) struct Guesses(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    all: Count,
    by_source: HashMap<IpAddr, Count>,
}

/// Wrong guesses since a window began.
#[derive(Clone, Copy, Default)]
struct Count {
    since: Option<Time>,
    wrong: u32,
}

impl Count {
    fn over(self, most: u32, now: Time) -> Option<Duration> {
        let since = self.since?;
        let passed = now.since(since);
        (self.wrong >= most && passed < WINDOW).then(|| WINDOW - passed)
    }

    fn add(&mut self, now: Time) {
        if self.since.is_none_or(|since| now.since(since) >= WINDOW) {
            *self = Count { since: Some(now), wrong: 0 };
        }
        self.wrong += 1;
    }
}

impl Guesses {
    /// How long to wait before the next guess is looked at; `None`: it may be made now. Whoever reaches the socket has no
    /// source, and needs no secret.
    pub(crate) fn wait(&self, source: Option<IpAddr>, now: Time) -> Option<Duration> {
        let inner = self.lock();
        let own = source.and_then(|source| inner.by_source.get(&source)).and_then(|count| count.over(OF_ONE, now));
        own.or_else(|| inner.all.over(OF_ALL, now))
    }

    /// A guess was wrong.
    pub(crate) fn wrong(&self, source: Option<IpAddr>, now: Time) {
        let mut inner = self.lock();
        inner.all.add(now);
        let Some(source) = source else { return };
        if inner.by_source.len() >= SOURCES && !inner.by_source.contains_key(&source) {
            inner.by_source.retain(|_, count| count.since.is_some_and(|since| now.since(since) < WINDOW));
            if inner.by_source.len() >= SOURCES {
                inner.by_source.clear();
            }
        }
        inner.by_source.entry(source).or_default().add(now);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_000_000);

    fn source(n: u32) -> Option<IpAddr> {
        Some(IpAddr::from(n.to_be_bytes()))
    }

    #[test]
    fn one_source_is_held_back_and_others_are_not() {
        let guesses = Guesses::default();
        for _ in 0..OF_ONE {
            assert_eq!(guesses.wait(source(1), NOW), None);
            guesses.wrong(source(1), NOW);
        }
        assert_eq!(guesses.wait(source(1), NOW), Some(WINDOW)); // C-219
        assert_eq!(guesses.wait(source(2), NOW), None); // C-219
        assert_eq!(guesses.wait(source(1), NOW + WINDOW), None);
    }

    #[test]
    fn all_sources_together_are_held_back() {
        let guesses = Guesses::default();
        for n in 0..OF_ALL {
            guesses.wrong(source(n), NOW);
        }
        assert_eq!(guesses.wait(source(OF_ALL + 1), NOW), Some(WINDOW)); // C-219
        assert_eq!(guesses.wait(source(1), NOW + WINDOW), None);
    }

    #[test]
    fn sources_are_bounded() {
        let guesses = Guesses::default();
        for n in 0..3 * SOURCES as u32 {
            guesses.wrong(source(n), NOW);
        }
        assert!(guesses.lock().by_source.len() <= SOURCES);
    }
}
