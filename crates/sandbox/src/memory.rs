//! What differs in a guest's memory from the image it started from.
//!
//! A delta is the pages that differ, each as its XOR with the image's page, so that what did not change within a page is
//! zero and compresses away. Pages that were never written are found by the kernel's page map, which costs microseconds
//! where comparing 40 MiB costs milliseconds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The unit of a delta, and the host's page.
pub(crate) const PAGE: usize = 4096;
/// Pages whose page-map entry says: in memory or swapped, and not a page of a file.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FROM_FILE: u64 = 1 << 61;

/// A delta as it stands before compression: for each page its number, then the pages' XOR in the same order.
#[derive(Default)]
pub(crate) struct Delta {
    pub(crate) pages: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

/// Why a delta cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeltaFault {
    #[error("its pages and their numbers do not match in length")]
    Length,
    #[error("a page number is out of order or outside the memory")]
    Page,
}

impl Delta {
    /// Fills this delta, whose buffers are kept, with what differs between `memory` and `base`. `base` may be shorter:
    /// what it lacks is zero.
    pub(crate) fn take(&mut self, memory: &[u8], base: &[u8]) {
        self.pages.clear();
        self.bytes.clear();
        match written_pages(memory) {
            Ok(written) => written.into_iter().for_each(|page| self.add(page, memory, base)),
            Err(_) => (0..memory.len() / PAGE).for_each(|page| self.add(page, memory, base)),
        }
    }

    fn add(&mut self, page: usize, memory: &[u8], base: &[u8]) {
        let at = page * PAGE;
        let now = &memory[at..at + PAGE];
        let start = self.bytes.len();
        match base.get(at..at + PAGE) {
            Some(before) if now == before => return,
            Some(before) => {
                self.bytes.extend_from_slice(now);
                xor(&mut self.bytes[start..], before);
            }
            None if now.iter().all(|&byte| byte == 0) => return,
            None => self.bytes.extend_from_slice(now),
        }
        debug_assert_eq!(self.bytes.len(), start + PAGE);
        self.pages.push(u32::try_from(page).expect("a 32-bit memory has fewer than 2^20 pages"));
    }

    /// Checks this delta against a memory of `memory_bytes`, so that [`Delta::apply`] cannot fail half way.
    pub(crate) fn check(pages: &[u32], bytes: &[u8], memory_bytes: usize) -> Result<(), DeltaFault> {
        if bytes.len() != pages.len() * PAGE {
            return Err(DeltaFault::Length);
        }
        let ordered = pages.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = pages.last().is_none_or(|&last| (last as usize) < memory_bytes / PAGE);
        if ordered && inside { Ok(()) } else { Err(DeltaFault::Page) }
    }

    /// Applies a delta that [`Delta::check`] accepted to a memory that still is as in the image.
    pub(crate) fn apply(pages: &[u32], bytes: &[u8], memory: &mut [u8]) {
        for (&page, page_bytes) in pages.iter().zip(bytes.chunks_exact(PAGE)) {
            let at = page as usize * PAGE;
            xor(&mut memory[at..at + PAGE], page_bytes);
        }
    }
}

/// Lays `base` over every page of `memory` that was written. False, and nothing promised, if the kernel does not tell which
/// those are, or if there are more than `most`.
pub(crate) fn restore(memory: &mut [u8], base: &[u8], most: usize) -> bool {
    let Ok(written) = written_pages(memory) else { return false };
    if written.len() > most || memory.len() != base.len() {
        return false;
    }
    for page in written {
        let range = page * PAGE..(page + 1) * PAGE;
        let (now, before) = (&mut memory[range.clone()], &base[range]);
        // Most were written by an earlier guest, and by this one not.
        if now != before {
            now.copy_from_slice(before);
        }
    }
    true
}

/// `to ^= with`, for whole pages.
fn xor(to: &mut [u8], with: &[u8]) {
    for (a, b) in to.chunks_exact_mut(8).zip(with.chunks_exact(8)) {
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
        a.copy_from_slice(&(word(a) ^ word(b)).to_ne_bytes());
    }
}

/// The pages of `memory` that this process has written. More may be listed than differ, never fewer.
fn written_pages(memory: &[u8]) -> io::Result<Vec<usize>> {
    let written = |entry: u64| entry & (PRESENT | SWAPPED) != 0 && entry & FROM_FILE == 0;
    let entries = page_map(memory.as_ptr() as usize, memory.len())?;
    Ok(entries.enumerate().filter(|&(_, entry)| written(entry)).map(|(page, _)| page).collect())
}

/// The kernel's entry for each page of a stretch of this process's memory.
fn page_map(start: usize, bytes: usize) -> io::Result<impl Iterator<Item = u64>> {
    let map = File::open("/proc/self/pagemap")?;
    let mut entries = vec![0u8; bytes / PAGE * 8];
    map.read_exact_at(&mut entries, (start / PAGE) as u64 * 8)?;
    Ok((0..bytes / PAGE).map(move |page| {
        let entry = &entries[page * 8..][..8];
        u64::from_le_bytes(entry.try_into().expect("8 bytes"))
    }))
}

/// Where a guest's memory lies, so that it can be measured from another thread. It keeps nothing alive: of a guest that is
/// gone it measures what lies there now.
#[derive(Debug, Clone)]
pub struct Meter {
    start: usize,
    bytes: Arc<AtomicUsize>,
}

impl Meter {
    pub(crate) fn new(start: usize, bytes: Arc<AtomicUsize>) -> Self {
        Self { start, bytes }
    }

    /// Bytes that the machine holds in memory for this guest alone, as the kernel counts them. The image's pages, which all
    /// guests share, are not in it. `None` where the kernel does not tell.
    pub fn resident_bytes(&self) -> Option<u64> {
        let entries = page_map(self.start, self.bytes.load(Ordering::Relaxed)).ok()?;
        let own = entries.filter(|entry| entry & PRESENT != 0 && entry & FROM_FILE == 0);
        Some(own.count() as u64 * PAGE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_applied_to_the_base_gives_the_memory() {
        let base: Vec<u8> = (0..4 * PAGE).map(|i| (i % 251) as u8).collect();
        let mut memory = base.clone();
        memory.resize(6 * PAGE, 0);
        memory[5] ^= 1;
        memory[3 * PAGE + 17] = 0;
        memory[5 * PAGE] = 9;
        let mut delta = Delta::default();
        delta.take(&memory, &base);
        assert_eq!(delta.pages, [0, 3, 5]);
        let mut back = base.clone();
        back.resize(6 * PAGE, 0);
        Delta::check(&delta.pages, &delta.bytes, back.len()).unwrap();
        Delta::apply(&delta.pages, &delta.bytes, &mut back);
        assert_eq!(back, memory);
    }

    #[test]
    fn pages_outside_the_memory_or_out_of_order_are_refused() {
        let bytes = vec![0; 2 * PAGE];
        // W-244
        assert_eq!(Delta::check(&[1, 2], &bytes, 2 * PAGE), Err(DeltaFault::Page));
        assert_eq!(Delta::check(&[1, 1], &bytes, 8 * PAGE), Err(DeltaFault::Page));
        assert_eq!(Delta::check(&[1], &bytes, 8 * PAGE), Err(DeltaFault::Length));
        assert_eq!(Delta::check(&[1, 2], &bytes, 8 * PAGE), Ok(()));
    }
}
