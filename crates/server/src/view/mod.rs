//! From rows to the objects of the wire (I-40 to I-46).
//!
//! Pure: rows, bodies that were read for them, and `now` go in, an `api` object comes out. Nothing here reads, decides or
//! leaves a field out; inputs, arguments, results and answers go through as the bytes that are stored.

pub(crate) mod approval;
pub(crate) mod call;
pub(crate) mod event;
pub(crate) mod explain;
pub(crate) mod job;
mod resource;
pub(crate) mod run;
pub(crate) mod signal;
pub(crate) mod workflow;

pub(crate) use resource::resource;

use api::Json;
use protocol::json::Canonical;

/// Stored canonical JSON as the wire shows it: the same bytes.
pub(crate) fn json(body: &Canonical) -> Json {
    Json::parse(body.as_str()).expect("canonical JSON is JSON")
}
