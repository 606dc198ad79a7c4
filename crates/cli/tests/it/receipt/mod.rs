//! The restart receipt: a run with an approval, one with a delegate and one that holds for hardware, each in a server that is
//! killed with `kill -9` at every commit point; what comes after the restart goes on exactly once. The tests print a line for
//! each kill.
//!
//! Every case begins with the same prepared data directory. Whoever stands outside (a person, an agent, a model server, a mail
//! server) sees nothing but a connection that breaks, and does again what was not answered.

mod stage;
mod story;

use stage::{Receipt, Stage};
use std::collections::BTreeMap;
use story::Story;

/// In and after each commit of the store. Its other points are of the approval cycle's test.
const COMMITS: [&str; 2] = ["after_save", "after_commit"];
/// Hits of one point beyond which no story comes.
const MOST_HITS: u32 = 40;

/// Kills one story at every point that it passes, as often as it passes it, and gives the names of the points.
#[expect(clippy::print_stdout, reason = "the receipt is what this shows")]
fn receipt(story: Story, must: &[&str]) {
    let stage = Stage::new(story);
    let mut kills = BTreeMap::<&str, u32>::new();
    for name in engine::failpoint::NAMES.iter().copied().chain(COMMITS) {
        for nth in 1..=MOST_HITS {
            let at = format!("{name}:{nth}");
            let Some(Receipt { died, counts }) = stage.case(&at) else { break };
            println!("{story:?}  killed at {at:<22} {died:<32} went on, done  {counts}");
            *kills.entry(name).or_default() += 1;
        }
    }
    println!("{story:?}: killed {} times: {kills:?}", kills.values().sum::<u32>());
    for name in must {
        assert!(kills.contains_key(name), "{story:?} never passed {name}: {kills:?}");
    }
}

/// What every story passes.
const ALWAYS: [&str; 8] = [
    "admit.before",
    "admit.after",
    "hop.before_commit",
    "hop.after_commit",
    "gate.before",
    "handler.after",
    "after_save",
    "after_commit",
];

#[test]
fn a_run_with_an_approval_goes_on_exactly_once_wherever_the_server_is_killed() {
    receipt(Story::Approval, &[&ALWAYS[..], &["park.before", "park.after", "decide.before", "decide.after"]].concat());
}

#[test]
fn a_run_with_a_delegate_goes_on_exactly_once_wherever_the_server_is_killed() {
    receipt(Story::Delegate, &[&ALWAYS[..], &["park.before", "park.after", "job.before", "job.after"]].concat());
}

#[test]
fn a_run_that_holds_for_hardware_goes_on_exactly_once_wherever_the_server_is_killed() {
    receipt(Story::Hardware, &[&ALWAYS[..], &["hold.before", "hold.after", "warm.before", "warm.after"]].concat());
}
