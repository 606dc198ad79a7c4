//! What Stasis promises: types, laws and digests.
//!
//! Every change of truth is decided here as a pure function of stored rows, a command and a given time. The crate does
//! no I/O, reads no clock and draws no randomness: time, randomness and ids come in as arguments.

pub mod code;
pub mod digest;
pub mod id;
pub mod json;
pub mod limits;
pub mod principal;
pub mod time;
