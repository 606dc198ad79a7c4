//! Errors of steps, and finding in them that a step waits.
//!
//! Invariant: a wait is taken from an error only where the error leads to it without doubt; a second wait, or a group that
//! is a wait in part, is an ordinary failure.

use protocol::code::Code;
use protocol::json::Canonical;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Causes that are followed from an error.
const CAUSES: u32 = 5;

/// Why a step failed, or that it waits. Made by `?` from any error.
pub struct StepError(Box<dyn Error + Send + Sync>);

impl StepError {
    /// A failure in the step's own words; they are the run's failure message.
    pub fn new(message: impl Into<String>) -> StepError {
        StepError(message.into().into())
    }

    pub(crate) fn error(&self) -> &(dyn Error + 'static) {
        &*self.0
    }

    /// The wait that this error leads to, if it leads to one alone.
    pub(crate) fn waits(&self) -> Result<Option<Waits>, Ambiguous> {
        found(self.error(), CAUSES)
    }

    /// The end of a call that this error comes from.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        chain(self.error()).find_map(|error| match error.downcast_ref::<CallError>() {
            Some(CallError::Ended(ended)) => Some(ended),
            Some(CallError::Waits(_)) => None,
            None => error.downcast_ref::<Ended>(),
        })
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for StepError {
    fn from(error: E) -> StepError {
        StepError(error.into())
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It cannot go on for now. The step returns this error, alone or as a cause; it runs again when the wait is over.
    #[error("the step waits")]
    Waits(#[source] Waits),
    /// It ended, and not well.
    #[error(transparent)]
    Ended(Ended),
}

/// The end of a call that has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{tool}: {message} ({code})")]
pub struct Ended {
    pub tool: String,
    pub code: Code,
    pub message: String,
    pub detail: Option<Canonical>,
    /// Whether the effect happened all the same; none: nothing ran.
    pub applied: Option<bool>,
}

/// Says that a step waits, and for what. A step gives on what it was given; it can make none.
#[derive(Clone)]
pub struct Waits(Arc<Signal>);

/// What a step waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// Waits of its calls; of a set in mode `all` every one.
    Set { all: bool },
    /// A resource that has to become warm.
    Hardware { resource: String },
    /// Nothing of its own: the run is paused, or this process shuts down.
    GivesWay,
}

impl Waits {
    pub(crate) fn new(signal: Signal) -> Waits {
        Waits(Arc::new(signal))
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.0
    }

    /// Whether both are the one signal, and not only alike.
    pub(crate) fn is(&self, other: &Waits) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the step waits")
    }
}

impl Error for Waits {}

/// Several errors of one step, as of calls that it made together. They are a wait if each of them leads to the same one.
#[derive(Debug)]
pub struct Errors(Vec<Box<dyn Error + Send + Sync>>);

impl Errors {
    pub fn new<E: Into<Box<dyn Error + Send + Sync>>>(errors: impl IntoIterator<Item = E>) -> Errors {
        Errors(errors.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&told.join("; "))
    }
}

impl Error for Errors {}

/// An error that leads to two waits, or to one in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ambiguous;

/// Follows the causes of an error, so many of them, to a wait. An error that names no cause suppresses it.
fn found(error: &(dyn Error + 'static), causes: u32) -> Result<Option<Waits>, Ambiguous> {
    let mut left = causes;
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(waits) = error.downcast_ref::<Waits>() {
            return Ok(Some(waits.clone()));
        }
        if let Some(group) = error.downcast_ref::<Errors>() {
            return found_in_group(group, left);
        }
        let Some(fewer) = left.checked_sub(1) else { return Ok(None) };
        (left, at) = (fewer, error.source());
    }
    Ok(None)
}

/// In a group a wait counts only if every member leads to that same one.
fn found_in_group(group: &Errors, causes: u32) -> Result<Option<Waits>, Ambiguous> {
    let Some(causes) = causes.checked_sub(1) else { return Ok(None) };
    let mut members = group.0.iter().map(|member| found(&**member, causes));
    let Some(first) = members.next().transpose()? else { return Ok(None) };
    for member in members {
        match (&first, member?) {
            (None, None) => {}
            (Some(first), Some(other)) if first.is(&other) => {}
            (Some(_) | None, _) => return Err(Ambiguous),
        }
    }
    Ok(first)
}

fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let cause = |error: &&'e (dyn Error + 'static)| -> Option<&'e (dyn Error + 'static)> { (*error).source() };
    std::iter::successors(Some(error), cause).take(CAUSES as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with this cause, or with none that it names.
    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] Box<dyn Error + Send + Sync>);

    #[derive(Debug, thiserror::Error)]
    #[error("hidden: {0}")]
    struct Hidden(Box<dyn Error + Send + Sync>);

    /// Names itself as its cause.
    #[derive(Debug)]
    struct Circle;

    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("circle")
        }
    }

    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Circle)
        }
    }

    fn set() -> Waits {
        Waits::new(Signal::Set { all: false })
    }

    fn wrapped(error: impl Error + Send + Sync + 'static, times: u32) -> Box<dyn Error + Send + Sync> {
        (0..times).fold(Box::new(error), |inner, _| Box::new(Wrapped(inner)))
    }

    fn leads_to(error: impl Into<StepError>, waits: &Waits) -> bool {
        error.into().waits().expect("not ambiguous").is_some_and(|found| found.is(waits))
    }

    #[test]
    fn a_wait_is_found_five_causes_deep_and_no_deeper() {
        let waits = set();
        for causes in 0..=5 {
            assert!(leads_to(StepError(wrapped(waits.clone(), causes)), &waits));
        }
        assert!(!leads_to(StepError(wrapped(waits.clone(), 6)), &waits));
        assert!(leads_to(CallError::Waits(waits.clone()), &waits));
    }

    #[test]
    fn a_cause_that_is_not_named_is_not_followed_and_a_circle_ends() {
        let waits = set();
        assert!(!leads_to(Hidden(Box::new(waits.clone())), &waits));
        assert!(StepError::from(Circle).waits().expect("no wait").is_none());
    }

    #[test]
    fn a_group_waits_only_if_every_member_leads_to_the_same_wait() {
        let (waits, other) = (set(), set());
        let both = |one: &Waits, two: &Waits| Errors::new([wrapped(one.clone(), 2), wrapped(two.clone(), 1)]);
        assert!(leads_to(both(&waits, &waits), &waits));
        assert!(leads_to(StepError(wrapped(both(&waits, &waits), 1)), &waits));
        assert_eq!(StepError::from(both(&waits, &other)).waits().err(), Some(Ambiguous));
        for members in [[wrapped(waits.clone(), 0), "no".into()], ["no".into(), wrapped(waits.clone(), 0)]] {
            assert_eq!(StepError::from(Errors::new(members)).waits().err(), Some(Ambiguous));
        }
        let neither = Errors::new(["no", "nor this"]);
        assert!(StepError::from(neither).waits().expect("no wait").is_none());
        let nested = Errors::new([both(&waits, &waits), both(&waits, &other)]);
        assert_eq!(StepError::from(nested).waits().err(), Some(Ambiguous));
    }
}
