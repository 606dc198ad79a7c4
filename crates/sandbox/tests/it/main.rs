//! The guest as its owner sees it: programs run against scripted answers, on the image of the cache.

mod chain;
mod determinism;
mod errors;
mod hostile;
mod journal;
mod limits;
mod snapshots;
mod support;
mod surface;
