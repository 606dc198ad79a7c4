//! The example that `stasis config example` prints: every key with its default, as comments (I-60).
//!
//! Owns the text alone. Tests hold it to the code: without its marks it parses, names every key there is, and says the
//! defaults that are in force.

/// The whole example. A line `#key = value` is a setting behind its comment mark; prose has a space after the mark.
pub fn example() -> &'static str {
    include_str!("example.toml")
}
