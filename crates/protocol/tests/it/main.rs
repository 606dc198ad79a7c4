//! What the laws promise, seen from outside the crate.

mod json;
mod schema;
mod tools;
mod plan;
mod policy;
