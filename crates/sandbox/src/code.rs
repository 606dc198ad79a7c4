//! Compiled programs, kept for the next guest of the same program.
//!
//! A program is compiled in a guest of its own that runs nothing else, and its code is handed to the guests that run it. That
//! makes a fresh guest quicker, and keeps the compiler's garbage out of its memory and its snapshots. Whether code was kept
//! or made anew cannot be seen in a guest: it is the same bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::digest::Digest;

/// How much code is kept. A usual program has a few KiB.
const KEPT_BYTES: usize = 64 << 20;

/// The code of programs, the oldest dropped first.
#[derive(Default)]
pub(crate) struct Codes(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    codes: HashMap<Digest, Arc<[u8]>>,
    order: VecDeque<Digest>,
    bytes: usize,
}

/// What code depends on: the source, and the name of its file, which stands in it.
pub(crate) fn key(name: &str, source: &str) -> Digest {
    Digest::of(format!("{name}\0{source}"))
}

impl Codes {
    pub(crate) fn get(&self, key: &Digest) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).codes.get(key).cloned()
    }

    pub(crate) fn put(&self, key: Digest, code: &Arc<[u8]>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if code.len() > KEPT_BYTES || kept.codes.insert(key, Arc::clone(code)).is_some() {
            return;
        }
        kept.bytes += code.len();
        kept.order.push_back(key);
        while kept.bytes > KEPT_BYTES {
            let oldest = kept.order.pop_front().expect("what is counted is listed");
            kept.bytes -= kept.codes.remove(&oldest).map_or(0, |code| code.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_code_goes_when_there_is_too_much() {
        let codes = Codes::default();
        let code: Arc<[u8]> = vec![0; KEPT_BYTES / 2].into();
        let keys = ["a", "b", "c"].map(|name| key(name, "x = 1"));
        keys.iter().for_each(|key| codes.put(*key, &code));
        assert_eq!(keys.map(|key| codes.get(&key).is_some()), [false, true, true]);
        assert_ne!(key("a", "bc"), key("ab", "c"));
    }
}
