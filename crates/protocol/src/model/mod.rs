//! The model: every order of events in small worlds, against the very decisions that the product makes.
//!
//! Owns: the worlds, the walk through all their states, and the proof that it sees: each of twelve faults, planted in the
//! law one at a time, breaks a promise. Prints what it saw (`cargo xtask model`). Never does: decide; a move that the law
//! refuses changes nothing here either.

#![allow(clippy::print_stdout, reason = "the tables are what the model is run for")]

mod act;
mod check;
mod explore;
mod home;
mod mark;
mod moves;
mod state;
mod world;

use crate::fault::plant;
use explore::{Broken, Walk, explore};
use home::Home;
use std::fmt::Write;
use std::time::Instant;
use world::WORLDS;

fn told(broken: &Broken) -> String {
    let mut text = String::new();
    for (n, by) in broken.trace.iter().enumerate() {
        let _ = writeln!(text, "      {:>2}. {by}", n + 1);
    }
    text
}

#[test]
fn every_promise_holds_in_every_state_of_every_world() {
    let home = Home::new();
    let (mut states, mut broken) = (0, String::new());
    println!("{:<20} {:>8} {:>9} {:>6} {:>8}  promise", "world", "states", "moves", "depth", "seconds");
    for world in WORLDS {
        #[allow(clippy::disallowed_methods, reason = "how long a walk takes is for people; no result depends on it")]
        let start = Instant::now();
        let walk = explore(&home, world);
        let Walk { states: found, tried, depth, .. } = walk;
        let seconds = start.elapsed().as_secs_f64();
        println!("{:<20} {found:>8} {tried:>9} {depth:>6} {seconds:>8.1}  {}", world.name, world.promise);
        states += found;
        if let Some(found) = walk.broken {
            let _ = write!(broken, "{}: {}\n{}", world.name, found.promise, told(&found));
        }
    }
    println!("{states} states in {} worlds", WORLDS.len());
    assert!(broken.is_empty(), "\n{broken}");
}

#[test]
fn every_planted_fault_is_caught() {
    let home = Home::new();
    let mut faults: Vec<_> =
        WORLDS.iter().flat_map(|world| world.faults.iter().map(move |fault| (*fault, world))).collect();
    faults.sort_by_key(|(fault, _)| *fault);
    let mut caught = 0;
    for (fault, world) in &faults {
        let walk = plant(*fault, || explore(&home, world));
        match walk.broken {
            Some(broken) => {
                caught += 1;
                println!("{fault:?}: caught in `{}` after {} states: {}", world.name, walk.states, broken.promise);
                println!("{}", told(&broken));
            }
            None => println!("{fault:?}: NOT caught in `{}`, {} states", world.name, walk.states),
        }
    }
    println!("planted faults caught: {caught} of {}", faults.len());
    assert_eq!(caught, 12);
    assert_eq!(faults.len(), 12);
}
