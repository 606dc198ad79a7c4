//! The queue before the writer: what waits is taken together, so that one sync serves all of it.
//!
//! Invariant: it is bounded; a caller waits for a place before it hands in a command. The writer sleeps without a lock,
//! and is woken once for a batch, not once for each command.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Commands that may wait; more callers wait for a place.
pub(crate) const CAPACITY: usize = 4_096;
/// Commands of one transaction.
pub(crate) const BATCH: usize = 512;
/// How long the writer waits for callers that it has just answered: less than one sync, and enough for them to come
/// back with their next command, so that two half batches do not settle beside each other.
const GATHER: Duration = Duration::from_micros(60);

pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// How many must wait before the writer is woken; `None` while it is awake.
    wake_at: Option<usize>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        let state = State { waiting: Vec::new(), wake_at: None, closed: false };
        Queue { state: Mutex::new(state), filled: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands one in, or gives it back if the writer is gone.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.state();
        if state.closed {
            return Err(item);
        }
        state.waiting.push(item);
        if state.wake_at.is_some_and(|enough| state.waiting.len() >= enough) {
            state.wake_at = None;
            drop(state);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// No more is taken in; what waits is still served.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_all();
    }

    /// Closes it and takes out what nobody will serve.
    pub(crate) fn abandon(&self) -> Vec<T> {
        let mut state = self.state();
        state.closed = true;
        std::mem::take(&mut state.waiting)
    }

    /// Waits for work and takes up to [`BATCH`] of it. `expected` callers were just answered and may come back at once.
    /// Waits for at most `patience`, and gives an empty batch then. `None`: closed and empty.
    pub(crate) fn take(&self, expected: usize, patience: Duration) -> Option<Vec<T>> {
        let mut state = self.state();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state.wake_at = Some(1);
            let (woken, waited) = self.filled.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() && state.waiting.is_empty() && !state.closed {
                state.wake_at = None;
                return Some(Vec::new());
            }
        }
        let enough = expected.min(BATCH);
        if state.waiting.len() < enough {
            state.wake_at = Some(enough);
            let short = |state: &mut State<T>| state.waiting.len() < enough && !state.closed;
            let gathered = self.filled.wait_timeout_while(state, GATHER, short);
            state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wake_at = None;
        let taken = state.waiting.len().min(BATCH);
        let rest = state.waiting.split_off(taken);
        Some(std::mem::replace(&mut state.waiting, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn patience_ends_with_an_empty_batch() {
        let queue = Queue::<u8>::new();
        assert_eq!(queue.take(0, Duration::from_millis(1)), Some(vec![]));
        queue.push(1).unwrap();
        assert_eq!(queue.take(0, LONG), Some(vec![1]));
    }

    #[test]
    fn what_waits_is_taken_together_and_in_order() {
        let queue = Queue::new();
        for i in 0..BATCH + 3 {
            queue.push(i).unwrap();
        }
        assert_eq!(queue.take(0, LONG).unwrap(), (0..BATCH).collect::<Vec<_>>());
        assert_eq!(queue.take(0, LONG).unwrap(), [BATCH, BATCH + 1, BATCH + 2]);
    }

    #[test]
    fn a_closed_queue_serves_what_waits_and_then_ends() {
        let queue = Queue::new();
        queue.push(1).unwrap();
        queue.close();
        assert_eq!(queue.push(2), Err(2));
        assert_eq!(queue.take(8, LONG), Some(vec![1]));
        assert_eq!(queue.take(8, LONG), None);
    }

    #[test]
    fn a_sleeping_writer_is_woken() {
        let queue = Arc::new(Queue::new());
        let other = Arc::clone(&queue);
        let writer = std::thread::spawn(move || (other.take(1, LONG), other.take(1, LONG)));
        queue.push("a").unwrap();
        queue.push("b").unwrap();
        queue.close();
        let (first, second) = writer.join().unwrap();
        let all: Vec<&str> = first.into_iter().chain(second).flatten().collect();
        assert_eq!(all, ["a", "b"]);
    }
}
