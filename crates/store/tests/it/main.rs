//! The SQLite ledger, from the outside.

mod conformance;
