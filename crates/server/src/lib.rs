//! The doors of Stasis: the HTTP interface, the console, sign-in, and the host that opens a data directory.
//!
//! Only this crate knows HTTP routes and HTML. It decides nothing: a request becomes a command of the engine, an answer is
//! drawn from rows of the ledger. Every door, the console included, asks the same [`service::Service`], whose commands
//! check the rights again.
//!
//! Where to start: [`Host`] for how a process begins and ends, `http::table` for every route, `service` for every verb.

mod auth;
mod clock;
mod console;
pub mod host;
mod http;
pub mod service;
mod view;

pub use host::{Connections, Host, HostOptions, StartError, image_digest};
pub use http::openapi::text as openapi;
pub use http::table::{Needs, ROUTES, Route};
