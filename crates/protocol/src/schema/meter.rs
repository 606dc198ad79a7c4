//! A bound on the work of one check.
//!
//! Branches that each go deeper into the value can multiply with every level. The validator asks our tree for members and
//! items as it goes (`node`), and each time is counted here; past the bound the tree answers that there are none,
//! so the validator soon ends, and what it found is thrown away.

use std::cell::Cell;

thread_local! {
    /// Steps left of the check that runs on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a check that may take `steps`; nothing if it took more.
pub(super) fn within<T>(steps: u64, check: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(steps);
    let found = check();
    (LEFT.replace(0) > 0).then_some(found)
}

/// What making an error costs, in steps: it copies the path to its place.
pub(super) const ERROR: u64 = 500;

/// Counts some steps, and says whether any are left.
pub(super) fn spend(steps: u64) -> bool {
    let left = LEFT.get().saturating_sub(steps);
    LEFT.set(left);
    left > 0
}
