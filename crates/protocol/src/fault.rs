//! Faults that the model plants in the law, one at a time, to prove that it would see them (`cargo xtask model`).
//!
//! Owns: their list and their switch. Invariant: only the unit tests of this crate have the switch. In every other build
//! [`planted`] is the constant `false`, so no product can be made to break its law.

/// One way to get the law wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// The gate does not look whether the question was answered with yes.
    GateWithoutYes,
    /// The gate does not compare the bytes that are sent with those that were approved.
    BytesNotCompared,
    /// A question that is due can still be answered.
    ExpiryIgnored,
    /// A park does not see the answer that came before it.
    EarlyAnswerLost,
    /// A decision ends its wait and leaves the run parked.
    AnswerWithoutReturn,
    /// A repeated answer to a question of long ago returns the run.
    OldAnswerReturns,
    /// A stopping run ends while something has still to stop.
    EndsUncontained,
    /// A claim gets the token of the claim before it.
    TokenGivenTwice,
    /// Recovery takes over a claim that has not lapsed.
    LiveClaimTaken,
    /// Recovery goes on with an effect in flight that nothing will settle.
    RecoveryGuesses,
    /// A message of an earlier hop claims the present one.
    OldMessageClaims,
    /// Each hop counts its calls of the manager anew.
    BudgetForgotten,
}

/// Whether this fault is planted now.
#[cfg(not(test))]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) use switch::{plant, planted};

#[cfg(test)]
mod switch {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Does some work on this thread with one fault in the law.
    pub(crate) fn plant<T>(fault: Fault, work: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(fault));
        let done = work();
        PLANTED.set(None);
        done
    }
}
