//! The wire types against the examples that users script against, and the client against the bytes of a connection.

mod client;
mod examples;
mod peer;
