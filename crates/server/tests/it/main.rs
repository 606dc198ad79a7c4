//! The doors from outside: a real host on a temporary directory, with a real engine, ledger and guest image.

mod approvals;
mod audit;
mod doors;
mod errors;
mod events;
mod host;
mod house;
mod jobs;
mod openapi;
mod operate;
mod pauses;
mod peers;
mod reading;
mod routes;
mod runs;
mod signals;
mod stuck;
mod webhooks;
