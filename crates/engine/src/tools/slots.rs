//! Places for calls under way (C-250).
//!
//! Owns the counts of calls at once for each tool version and for each server. A place is waited for before the dispatch
//! gate, so that waiting is never charged to the call's timeout, and is given back when its [`Slot`] is dropped. The
//! order is always tool, then server: no two calls can hold what the other waits for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::resources::Lease;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A place for one call of one tool.
#[derive(Debug)]
#[must_use = "dropping a slot gives it back"]
pub struct Slot {
    _tool: OwnedSemaphorePermit,
    _server: Option<OwnedSemaphorePermit>,
    /// On the resource that has to be warm while the handler runs (C-84).
    lease: Option<Lease>,
}

impl Slot {
    /// The place together with a lease, given back with it.
    pub(crate) fn with(self, lease: Option<Lease>) -> Slot {
        Slot { lease, ..self }
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    tools: Pool<(String, String)>,
    servers: Pool<String>,
}

impl Slots {
    /// Waits for a place. Dropping the future gives up the place in line.
    pub(super) async fn take(&self, tool: (String, String), calls: u32, server: Option<(String, u32)>) -> Slot {
        let tool = self.tools.take(tool, calls).await;
        let server = match server {
            Some((name, calls)) => Some(self.servers.take(name, calls).await),
            None => None,
        };
        Slot { _tool: tool, _server: server, lease: None }
    }
}

#[derive(Debug)]
struct Pool<K>(Mutex<HashMap<K, Arc<Semaphore>>>);

impl<K> Default for Pool<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

/// Entries kept though nobody uses them.
const IDLE_ENTRIES: usize = 1_024;

impl<K: Eq + Hash> Pool<K> {
    async fn take(&self, key: K, calls: u32) -> OwnedSemaphorePermit {
        let semaphore = {
            let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if map.len() >= IDLE_ENTRIES && !map.contains_key(&key) {
                // A permit and a waiter each hold a reference, so only entries nobody uses are dropped.
                map.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            }
            map.entry(key).or_insert_with(|| Arc::new(Semaphore::new(calls as usize))).clone()
        };
        semaphore.acquire_owned().await.expect("a pool never closes its semaphores")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn tool(name: &str) -> (String, String) {
        (name.to_owned(), "1".to_owned())
    }

    #[tokio::test]
    async fn a_full_tool_waits_and_a_full_server_holds_back_other_tools() {
        let slots = Slots::default();
        let server = |calls| Some(("http://a:1".to_owned(), calls));
        let first = slots.take(tool("m.a"), 1, server(2)).await;
        // C-250
        assert!(slots.take(tool("m.a"), 1, server(2)).now_or_never().is_none());
        let second = slots.take(tool("m.b"), 1, server(2)).now_or_never().expect("a place");
        assert!(slots.take(tool("m.c"), 1, server(2)).now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(slots.take(tool("m.a"), 1, server(2)).now_or_never().is_some());
    }
}
