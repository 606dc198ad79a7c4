//! Snapshots: a guest frozen in a call, as bytes from which any process goes on with that call (W-243, W-244).
//!
//! ```text
//! magic, engine id, image, run, hop, position, payload length, digest     the header, fixed size
//! facts, request, page numbers | zstd of the pages' XOR                    the payload
//! ```
//!
//! [`open`] checks the header in the order of W-244, the digest last, before it reads a byte of the payload. The digest
//! covers the header's other fields too. Whatever is wrong, the answer is a [`ThawFault`] and the caller replays: a snapshot
//! is used whole or not at all (W-246).
//!
//! A snapshot holds WASM state only: no handle, clock, secret or token of the host (W-243). What the program itself holds in
//! its memory is in it, so a store keeps snapshots like any other body of a run.

use protocol::digest::Digest;

use crate::engine::ENGINE_ID;
use crate::memory::{Delta, DeltaFault, PAGE};

const MAGIC: [u8; 16] = *b"stasis snapshot\x01";
const ENGINE_BYTES: usize = 32;
const HEADER_BYTES: usize = 16 + ENGINE_BYTES + 32 + 16 + 8 + 8 + 8 + 32;
/// Where the digest stands: at the end of the header.
const DIGEST_AT: usize = HEADER_BYTES - 32;
/// Level 1: the pages are mostly zero, and the time to freeze counts more than the last tenth of their size.
const ZSTD_LEVEL: i32 = 1;
const FACTS: usize = 7;

/// What a snapshot belongs to. It is used only where all three are equal (W-245).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    pub run: [u8; 16],
    pub hop: u64,
    /// The position in the run's journal.
    pub position: u64,
}

/// A frozen guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot(Vec<u8>);

impl Snapshot {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Why a guest could not be frozen. It is gone, and the journal serves instead.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    #[error("only a guest that is blocked in a call can be frozen")]
    NotWaiting,
    #[error("the guest trapped while its stack was saved: {0}")]
    Trap(String),
    #[error("the snapshot could not be compressed: {0}")]
    Compress(std::io::Error),
}

/// What is wrong with a snapshot's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("it is too short, or does not begin as a snapshot does")]
    Header,
    #[error("its length is not the one its header gives")]
    Length,
    #[error("its digest is not the one its header gives")]
    Digest,
    #[error("its payload does not fit together")]
    Payload,
}

/// Why a snapshot is not used, in the order of the checks (W-244).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Engine,
    Image,
    Run,
    Hop,
    Position,
    Damaged(Damage),
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// What a thawed guest needs besides its memory's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Memory size in WASM pages of 64 KiB.
    pub(crate) memory_pages: u32,
    pub(crate) stack_pointer: u32,
    /// The area in which the C stack was saved.
    pub(crate) unwind_area: u32,
    /// The arguments of `guest_run`, with which it is entered again.
    pub(crate) frame_at: u32,
    pub(crate) frame_bytes: u32,
}

/// A snapshot whose every part was checked, ready to be applied.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) request: Vec<u8>,
    pub(crate) pages: Vec<u32>,
    /// The pages' XOR with the image.
    pub(crate) bytes: Vec<u8>,
}

/// Writes a snapshot.
pub(crate) fn seal(
    image: Digest,
    binding: &Binding,
    facts: Facts,
    request: &[u8],
    delta: &Delta,
) -> std::io::Result<Snapshot> {
    let room = HEADER_BYTES + FACTS * 4 + request.len() + delta.pages.len() * 4;
    let mut out = Vec::with_capacity(room + delta.bytes.len() / 16);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&engine_field());
    out.extend_from_slice(image.as_bytes());
    out.extend_from_slice(&binding.run);
    out.extend_from_slice(&binding.hop.to_le_bytes());
    out.extend_from_slice(&binding.position.to_le_bytes());
    out.extend_from_slice(&[0; 8 + 32]);

    let count = |length: usize| u32::try_from(length).expect("less than a 32-bit memory holds");
    let Facts { memory_pages, stack_pointer, unwind_area, frame_at, frame_bytes } = facts;
    let (request_bytes, page_count) = (count(request.len()), count(delta.pages.len()));
    for fact in [memory_pages, stack_pointer, unwind_area, frame_at, frame_bytes, request_bytes, page_count] {
        out.extend_from_slice(&fact.to_le_bytes());
    }
    out.extend_from_slice(request);
    delta.pages.iter().for_each(|page| out.extend_from_slice(&page.to_le_bytes()));
    zstd::stream::copy_encode(delta.bytes.as_slice(), &mut out, ZSTD_LEVEL)?;

    let length = (out.len() - HEADER_BYTES) as u64;
    out[DIGEST_AT - 8..DIGEST_AT].copy_from_slice(&length.to_le_bytes());
    let digest = digest(&out);
    out[DIGEST_AT..HEADER_BYTES].copy_from_slice(digest.as_bytes());
    Ok(Snapshot(out))
}

/// Checks a snapshot against where it should be used, and unpacks it.
pub(crate) fn open(snapshot: &[u8], image: Digest, expected: &Binding) -> Result<Opened, Fault> {
    let mut header = Reader(snapshot.get(..HEADER_BYTES).ok_or(Damage::Header)?);
    if header.take::<16>()? != MAGIC {
        return Err(Damage::Header.into());
    }
    let checks = [
        (header.take::<ENGINE_BYTES>()? == engine_field(), Fault::Engine),
        (header.take()? == *image.as_bytes(), Fault::Image),
        (header.take()? == expected.run, Fault::Run),
        (u64::from_le_bytes(header.take()?) == expected.hop, Fault::Hop),
        (u64::from_le_bytes(header.take()?) == expected.position, Fault::Position),
    ];
    if let Some((_, fault)) = checks.into_iter().find(|(passed, _)| !passed) {
        return Err(fault);
    }
    if u64::from_le_bytes(header.take()?) != (snapshot.len() - HEADER_BYTES) as u64 {
        return Err(Damage::Length.into());
    }
    if header.take()? != *digest(snapshot).as_bytes() {
        return Err(Damage::Digest.into());
    }
    Ok(unpack(&snapshot[HEADER_BYTES..])?)
}

fn unpack(payload: &[u8]) -> Result<Opened, Damage> {
    let mut payload = Reader(payload);
    let mut fact = || payload.take().map(u32::from_le_bytes);
    let facts = Facts {
        memory_pages: fact()?,
        stack_pointer: fact()?,
        unwind_area: fact()?,
        frame_at: fact()?,
        frame_bytes: fact()?,
    };
    let (request_bytes, page_count) = (fact()? as usize, fact()? as usize);
    let request = payload.slice(request_bytes)?.to_vec();
    let memory_bytes = (facts.memory_pages as usize) << 16;
    if page_count > memory_bytes / PAGE {
        return Err(Damage::Payload);
    }
    let pages = payload.slice(page_count * 4)?.chunks_exact(4);
    let pages: Vec<u32> = pages.map(|page| u32::from_le_bytes(page.try_into().expect("4 bytes"))).collect();
    let bytes = zstd::bulk::decompress(payload.0, page_count * PAGE).map_err(|_| Damage::Payload)?;
    Delta::check(&pages, &bytes, memory_bytes).map_err(|_: DeltaFault| Damage::Payload)?;
    Ok(Opened { facts, request, pages, bytes })
}

/// Of everything but the digest itself.
fn digest(snapshot: &[u8]) -> Digest {
    use sha2::{Digest as _, Sha256};
    let hash = Sha256::new().chain_update(&snapshot[..DIGEST_AT]).chain_update(&snapshot[HEADER_BYTES..]);
    Digest::from_bytes(hash.finalize().into())
}

fn engine_field() -> [u8; ENGINE_BYTES] {
    let mut field = [0; ENGINE_BYTES];
    field[..ENGINE_ID.len()].copy_from_slice(ENGINE_ID.as_bytes());
    field
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let (part, rest) = self.0.split_at_checked(length).ok_or(Damage::Payload)?;
        self.0 = rest;
        Ok(part)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        Ok(self.slice(N)?.try_into().expect("a slice of N bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: Binding = Binding { run: [7; 16], hop: 3, position: 12 };

    fn facts() -> Facts {
        Facts { memory_pages: 2, stack_pointer: 64, unwind_area: 128, frame_at: 256, frame_bytes: 9 }
    }

    fn sealed() -> (Digest, Vec<u8>) {
        let image = Digest::of("image");
        let delta = Delta { pages: vec![1, 30], bytes: (0..2 * PAGE).map(|i| (i / 100) as u8).collect() };
        (image, seal(image, &BINDING, facts(), b"request", &delta).unwrap().into_bytes())
    }

    #[test]
    fn what_was_sealed_is_opened_again() {
        let (image, bytes) = sealed();
        let opened = open(&bytes, image, &BINDING).unwrap();
        // W-243
        assert_eq!((opened.facts, opened.request.as_slice()), (facts(), b"request".as_slice()));
        assert_eq!((opened.pages.as_slice(), opened.bytes.len()), ([1, 30].as_slice(), 2 * PAGE));
    }

    #[test]
    fn a_foreign_snapshot_is_refused_by_the_first_thing_that_differs() {
        let (image, mut bytes) = sealed();
        let other = |change: fn(&mut Binding)| {
            let mut binding = BINDING;
            change(&mut binding);
            open(&bytes, image, &binding).unwrap_err()
        };
        // W-245
        assert_eq!(other(|b| b.run[15] ^= 1), Fault::Run);
        assert_eq!(other(|b| b.hop += 1), Fault::Hop);
        assert_eq!(other(|b| b.position += 1), Fault::Position);
        assert_eq!(open(&bytes, Digest::of("another image"), &BINDING).unwrap_err(), Fault::Image);
        // W-244: in that order, so a snapshot wrong in everything is refused for its engine.
        bytes[16] ^= 1;
        let everything = Binding { run: [0; 16], hop: 0, position: 0 };
        assert_eq!(open(&bytes, Digest::of("another image"), &everything).unwrap_err(), Fault::Engine);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let (image, bytes) = sealed();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            // W-246
            assert!(open(&damaged, image, &BINDING).is_err(), "bit of byte {at}");
            assert!(open(&bytes[..at], image, &BINDING).is_err(), "cut at {at}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(open(&longer, image, &BINDING).unwrap_err(), Fault::Damaged(Damage::Length));
    }
}
