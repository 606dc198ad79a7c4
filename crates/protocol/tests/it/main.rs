//! What the laws promise, seen from outside the crate.

mod codes;
mod json;
mod pairs;
mod plan;
mod policy;
mod resources;
mod runs;
mod schema;
mod tools;
mod world;
