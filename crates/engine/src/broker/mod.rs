//! The broker: the only door from guest to tools (calls.md section 7).
//!
//! Owns: reading a guest's request, and judging one call by plan, schema and policy. Guest bytes are copied once and
//! parsed once; the canonical bytes fixed in step 9 are what is shown, hashed, approved, stored and dispatched (C-68).
//! It starts no handler and writes nothing; the hop does, after the gate.

mod builtin;
mod delegation;
mod judge;
mod request;
mod room;
mod waits;

pub(crate) use builtin::instant;
pub(crate) use delegation::Delegated;
pub(crate) use judge::{Judged, Wanted, authority, awaits_settling, decider, judge, judge_member};
pub(crate) use request::{Asked, Refused, Request, read, too_large};
pub(crate) use room::{Full, Unasked, room, room_for_waits};
pub(crate) use waits::{Wanted as Awaits, members, wanted};
