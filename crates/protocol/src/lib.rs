//! The laws of Stasis: types, decisions and digests. No I/O, no clock, no randomness.
//!
//! Every change of truth is one function of this crate: the current rows and a command go in, the changed rows and
//! their events, or a typed refusal, come out. `now` and fresh ids are arguments. Stores only lock, load, decide and
//! save, so no two of them can disagree; nothing outside this crate changes a status.
//!
//! Where to start: [`run::EDGES`] lists every legal edge, [`command`] every way to change a run, [`decide`] how each is
//! decided. [`json`] holds the one parser that every body meeting a digest goes through.

pub mod able;
pub mod approval;
pub mod audit;
pub mod builtin;
pub mod call;
pub mod code;
pub mod command;
pub mod decide;
pub mod delivery;
pub mod digest;
pub mod event;
mod fault;
pub mod fields;
pub mod fork;
pub mod id;
pub mod job;
pub mod journal;
pub mod json;
pub mod limits;
#[cfg(test)]
mod model;
pub mod obligation;
pub mod pause;
pub mod plan;
pub mod policy;
pub mod principal;
pub mod reading;
pub mod refusal;
pub mod registry;
pub mod resource;
pub mod rows;
pub mod run;
pub mod schema;
pub mod signal;
pub mod text;
pub mod time;
pub mod tool;
pub mod wait;
pub mod webhook;
pub mod workflow;
