//! What the laws promise, seen from outside the crate.

mod codes;
mod json;
mod schema;
mod tools;
mod plan;
mod policy;
mod runs;
mod world;
