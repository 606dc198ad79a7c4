//! Guests: Python programs that run in WASM, wait inside a call for as long as it takes, and can be frozen there.
//!
//! A [`Sandbox`] holds one guest image, compiled and shared by all guests of the process. [`Sandbox::start`] makes a
//! [`Guest`] from a [`Program`]; [`Guest::next`] runs it until it calls or ends; [`Guest::answer`] gives a call its answer;
//! [`Guest::freeze`] turns a waiting guest into a [`Snapshot`], from which [`Sandbox::thaw`] goes on in any process.
//!
//! This crate knows no runs, plans, approvals or tools: a call is bytes that go out and an [`Answer`] that comes in, and what
//! the bytes mean is the caller's affair. It reads no clock and draws no randomness for a guest; both come with answers
//! (W-153, W-154). A guest has no thread of its own: it runs on whoever polls it, and dropping it at any time ends it.
//!
//! `python/` holds the guest's own side: the C shim, the boot module, the package `stasis` that programs see, and the recipe
//! by which `cargo xtask guest` makes the image.

pub mod cache;
pub mod image;

mod body;
mod code;
mod engine;
mod guest;
mod host;
mod limits;
mod log;
mod memory;
mod pool;
mod snapshot;
mod ticker;
mod wasi;
mod wire;

pub use engine::ENGINE_ID;
pub use guest::{End, Event, Guest, Raised, Stopper};
pub use image::{ImageInfo, Progress};
pub use limits::{GuestLimits, Limit};
pub use log::{LogLine, LogSink};
pub use memory::Meter;
pub use pool::{CheckError, OpenError, Sandbox, SandboxConfig, SourceFault, StartError, ThawError};
pub use snapshot::{Binding, Damage, FreezeError, Snapshot};
pub use wire::{Answer, Outcome, Program, Refusal, Replies, Reply, Tool};
