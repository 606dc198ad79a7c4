//! Walks every state that a world can reach, breadth first, so that the first way to a broken promise is a shortest one.
//!
//! Owns: the walk, the traces, and the last promise of every world: from wherever it got, its run can still come to an
//! end. States are told apart by all that a decision could see ([`mark`]), compared whole: no two are mixed up.

use super::home::Home;
use super::mark::mark;
use super::moves::{Move, moves, step};
use super::state::State;
use super::world::World;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// More states than this are no small world.
const MOST: usize = 400_000;

/// What a walk saw.
pub(super) struct Walk {
    pub(super) states: usize,
    /// Steps of moves that were tried, those that changed nothing among them.
    pub(super) tried: usize,
    /// Most moves on a shortest way to a state.
    pub(super) depth: usize,
    pub(super) broken: Option<Broken>,
}

/// A promise that does not hold, and a shortest way there.
pub(super) struct Broken {
    pub(super) promise: String,
    pub(super) trace: Vec<Move>,
}

/// How a state was reached first, and where it leads.
struct Seen {
    from: usize,
    by: Option<Move>,
    depth: usize,
    next: Vec<usize>,
    ends: bool,
}

pub(super) fn explore(home: &Home, world: &World) -> Walk {
    let start = State::start(home, world);
    let mut known = HashMap::from([(mark(&start), 0)]);
    let mut seen = vec![Seen { from: 0, by: None, depth: 0, next: Vec::new(), ends: false }];
    let mut now = vec![(0, start)];
    let mut walk = Walk { states: 1, tried: 0, depth: 0, broken: None };
    while !now.is_empty() {
        let mut then = Vec::new();
        for (at, state) in now {
            for by in moves(world, &state) {
                walk.tried += 1;
                let reached = match step(home, world, &state, by) {
                    Ok(Some(reached)) => reached,
                    Ok(None) => continue,
                    Err(promise) => {
                        walk.broken = Some(Broken { promise, trace: trace(&seen, at, Some(by)) });
                        return walk;
                    }
                };
                let place = match known.entry(mark(&reached)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        let (depth, ends) = (seen[at].depth + 1, reached.status().is_final());
                        new.insert(seen.len());
                        then.push((seen.len(), reached));
                        seen.push(Seen { from: at, by: Some(by), depth, next: Vec::new(), ends });
                        walk.depth = depth;
                        seen.len() - 1
                    }
                };
                seen[at].next.push(place);
            }
        }
        walk.states = seen.len();
        assert!(walk.states < MOST, "{} is no small world", world.name);
        now = then;
    }
    walk.broken = stranded(&seen);
    walk
}

/// A state from which no way leads to an end.
fn stranded(seen: &[Seen]) -> Option<Broken> {
    let mut before = vec![Vec::new(); seen.len()];
    for (at, state) in seen.iter().enumerate() {
        state.next.iter().for_each(|next| before[*next].push(at));
    }
    let mut ends: Vec<bool> = seen.iter().map(|state| state.ends).collect();
    let mut open: Vec<usize> = (0..seen.len()).filter(|at| ends[*at]).collect();
    while let Some(at) = open.pop() {
        for from in std::mem::take(&mut before[at]) {
            if !std::mem::replace(&mut ends[from], true) {
                open.push(from);
            }
        }
    }
    let at = ends.iter().position(|ends| !ends)?;
    Some(Broken { promise: "from here the run never ends".to_owned(), trace: trace(seen, at, None) })
}

fn trace(seen: &[Seen], mut at: usize, last: Option<Move>) -> Vec<Move> {
    let mut trace: Vec<Move> = last.into_iter().collect();
    while let Some(by) = seen[at].by {
        trace.push(by);
        at = seen[at].from;
    }
    trace.reverse();
    trace
}
