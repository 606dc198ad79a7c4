//! The wire: the JSON objects of the HTTP interface and the Rust client that speaks it.
//!
//! Owns the shapes of interfaces.md (I-40 to I-46) and nothing of what they mean: no decision, no store, no HTML. The
//! server writes these types, the client reads them, the command line prints them; so the three cannot disagree.
//!
//! Invariants. A field without a value is `null` and never left out (I-40), but for the few facts of one answer
//! (`created`, `changed`) which exist only in that answer. Inputs, arguments, results and answers are [`Json`]: the
//! bytes as stored, numbers as written. Requests refuse fields they do not know (I-37).

pub mod approval;
pub mod audit;
pub mod call;
pub mod client;
pub mod event;
pub mod explain;
pub mod job;
pub mod json;
pub mod operate;
pub mod page;
pub mod problem;
pub mod run;
pub mod signal;
mod twin;
pub mod webhook;
pub mod workflow;

pub use approval::{Approval, DecisionRequest, Verdict};
pub use call::{Call, EffectItem};
pub use client::{Client, ClientError};
pub use event::{Event, LogLine};
pub use explain::Explain;
pub use json::Json;
pub use operate::{Check, DoctorReport, Guest, Queue, Ready, Resource, Token};
pub use page::{Page, Tail};
pub use problem::{Fault, Problem};
pub use run::{Outcome, Run, StartRun};
pub use signal::{Signal, SignalRequest, SignalState};
pub use workflow::{Pattern, RegisterWorkflow, Registered, Tool, Workflow};
