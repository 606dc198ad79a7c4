//! Which codes the worlds of this thread told somebody: in refusals, in gates that let nothing through, in how runs and
//! calls ended.

use super::World;
use protocol::code::Code;
use protocol::command::Answer;
use protocol::refusal::Refusal;
use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static TOLD: RefCell<BTreeSet<Code>> = const { RefCell::new(BTreeSet::new()) };
}

pub(super) fn note(world: &World, answer: &Result<Answer, Refusal>) {
    let answered = match answer {
        Err(refusal) => Some(refusal.code),
        Ok(Answer::NotDispatched { code, .. }) => Some(*code),
        Ok(_) => None,
    };
    let run = world.rows.as_ref().and_then(|rows| rows.run.failure()).map(|failure| failure.code);
    let calls = world.calls.values().filter_map(|call| call.outcome()?.code);
    TOLD.with_borrow_mut(|told| told.extend(answered.into_iter().chain(run).chain(calls)));
}

/// A decision about the registry is no world's own.
pub(super) fn refused(refusal: &Refusal) {
    TOLD.with_borrow_mut(|told| told.insert(refusal.code));
}

/// The codes that some work tells on this thread.
pub(crate) fn by(work: impl FnOnce()) -> BTreeSet<Code> {
    TOLD.with_borrow_mut(BTreeSet::clear);
    work();
    TOLD.with_borrow(Clone::clone)
}
