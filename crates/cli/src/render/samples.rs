//! The objects of interfaces.md, for the tests of how they are shown.

use api::{Approval, Run};
use protocol::time::Time;

const PAGE: &str = include_str!("../../../../docs/spec/interfaces.md");

/// The complete object in whose text `marker` stands.
fn example(marker: &str) -> &'static str {
    let block = PAGE.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
    block
        .filter(|block| block.contains(marker))
        .find(|block| !block.contains("..."))
        .expect("the page has this example")
}

pub(crate) fn run() -> Run {
    serde_json::from_str(example("\"pattern_digest\"")).expect("the example is a run")
}

pub(crate) fn approval() -> Approval {
    serde_json::from_str(example("\"asked_arguments_digest\"")).expect("the example is an approval")
}

/// A minute after the approval was asked.
pub(crate) fn now() -> Time {
    approval().created_at + std::time::Duration::from_secs(60)
}
