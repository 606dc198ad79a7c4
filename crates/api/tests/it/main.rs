//! The wire types against the examples that users script against.

mod examples;
