//! Pauses: what keeps runs from workers for as long as somebody wants (runs.md section 18).
//!
//! Owns: the row of a pause, and which pauses lie over a run. A pause is no status: the run keeps its own, and shows each
//! pause beside it. Invariant: clearing one scope leaves the others as they are.

use crate::id::RunId;
use crate::registry::Registry;
use crate::run::Run;
use crate::time::Time;
use std::fmt;

/// Who stopped it, why and when. The first one stands until it is cleared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    pub by: String,
    pub reason: Option<String>,
    pub since: Time,
}

/// What many runs are paused by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shared {
    /// Every run of a key, whatever its revision.
    Workflow(String),
    Queue(String),
}

/// Pauses of one workflow or queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shade {
    /// In force.
    pub now: Option<Pause>,
    /// Cleared, in order of time: runs that waited meanwhile were not waiting for a worker. At most
    /// [`crate::limits::PAUSE_SPANS`].
    pub before: Vec<Cleared>,
}

/// A pause that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cleared {
    pub pause: Pause,
    pub until: Time,
}

/// What a pause is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    Run(RunId),
    Shared(Shared),
}

/// The pauses over a run, from the narrowest scope to the widest.
pub fn over<'a>(run: &'a Run, registry: &'a Registry) -> Vec<(Scope, &'a Pause)> {
    let own = run.pause.iter().map(|pause| (Scope::Run(run.id), pause));
    let shared = shared(run).into_iter().filter_map(|scope| {
        let pause = registry.pauses.get(&scope)?.now.as_ref()?;
        Some((Scope::Shared(scope), pause))
    });
    own.chain(shared).collect()
}

/// Whether any pause lies over the run.
pub fn is_paused(run: &Run, registry: &Registry) -> bool {
    let now = |scope| registry.pauses.get(&scope).is_some_and(|shade| shade.now.is_some());
    run.pause.is_some() || (!registry.pauses.is_empty() && shared(run).into_iter().any(now))
}

/// Microseconds between two moments in which a pause lay over the run, which was queued all that time.
pub fn between(run: &Run, registry: &Registry, since: Time, until: Time) -> u64 {
    let mut spans: Vec<(Time, Time)> = run.pause.iter().map(|pause| (pause.since, until)).collect();
    if !registry.pauses.is_empty() {
        for shade in shared(run).iter().filter_map(|scope| registry.pauses.get(scope)) {
            spans.extend(shade.before.iter().map(|cleared| (cleared.pause.since, cleared.until)));
            spans.extend(shade.now.iter().map(|pause| (pause.since, until)));
        }
    }
    spans.sort_unstable();
    let (mut paused, mut counted) = (0, since);
    for (from, to) in spans {
        let (from, to) = (from.max(counted), to.min(until));
        if from < to {
            paused += to.since(from).as_micros() as u64;
            counted = to;
        }
    }
    paused
}

fn shared(run: &Run) -> [Shared; 2] {
    [Shared::Workflow(run.pattern.key.clone()), Shared::Queue(run.queue.clone())]
}

impl Shared {
    pub fn name(&self) -> &str {
        match self {
            Shared::Workflow(key) => key,
            Shared::Queue(name) => name,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Run(run) => write!(f, "run {run}"),
            Scope::Shared(Shared::Workflow(key)) => write!(f, "workflow {key}"),
            Scope::Shared(Shared::Queue(name)) => write!(f, "queue {name}"),
        }
    }
}

/// The pauses as a sentence of a refusal.
pub fn told(pauses: &[(Scope, &Pause)]) -> String {
    let one = |(scope, pause): &(Scope, &Pause)| format!("{} paused {scope} at {}", pause.by, pause.since.second());
    pauses.iter().map(one).collect::<Vec<_>>().join("; ")
}
