//! The SQLite ledger, from the outside.

mod commit;
mod conformance;
mod cost;
mod crash;
mod damage;
mod home;
mod open;
mod races;
mod removal;
