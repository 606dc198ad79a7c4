//! Stories of runs: what the decisions promise, told by outcome.

mod able;
mod admission;
mod approvals;
mod attest;
mod ends;
mod extend;
mod gate;
mod hold;
mod hops;
mod jobs;
mod moves;
mod pause;
mod random;
mod records;
mod recovery;
mod refusals;
mod settle;
mod signals;
mod waits;
