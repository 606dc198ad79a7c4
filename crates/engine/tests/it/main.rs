//! The engine from outside: real guests, a real ledger, real servers on loopback.

mod carry;
mod commits;
mod config;
mod connectors;
mod desk;
