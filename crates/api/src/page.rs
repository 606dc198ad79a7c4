//! Lists.
//!
//! Owns the two forms a list has on the wire: a [`Page`] for what has no end that matters (newest first, I-37), and a
//! [`Tail`] for what grows at one end (events, log lines), read in order.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list, newest first. `next_cursor` is opaque; `null` means that this was the last page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
    /// How many rows of this page cannot be read and are not among the items; absent where all can. `stasis audit verify`
    /// names them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
}

// serde hands it over by reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A stretch of something that grows, in order. Asking again with `after = next_after` goes on where this ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Tail<T> {
    pub items: Vec<T>,
    /// The place of the last item, or the `after` that was asked with where there is none.
    pub next_after: Option<String>,
}

impl<T> Page<T> {
    /// A list that fits one page.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next_cursor: None, unreadable: 0 }
    }
}

/// Query of every plain list: how many (1 to 500, default 50) and from where.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}
