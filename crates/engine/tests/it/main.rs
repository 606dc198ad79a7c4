//! The engine from outside: real guests, a real ledger, real servers on loopback.

mod agents;
mod audit;
mod broker;
mod carry;
mod claims;
mod code;
mod commits;
mod config;
mod connectors;
mod desk;
mod forks;
mod hostile;
mod jobs;
mod journal;
mod moves;
mod pauses;
mod resources;
mod returns;
mod secrecy;
mod shop;
mod signals;
mod syncs;
mod waits;
mod webhooks;
