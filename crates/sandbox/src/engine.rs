//! The one place that configures wasmtime. Two engines with different settings refuse each other's compiled code, so every
//! use of this crate goes through here.

use std::hash::{Hash, Hasher};

use protocol::digest::Digest;
use wasmtime::{Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::limits::MEMORY_CEILING;

/// The guest engine's identity: the interpreter and the version of the interface between host and shim. It is pinned by
/// patterns and bound by snapshots (W-5, W-244), and baked into images, so it changes only when old images or snapshots
/// could no longer be used. The wasmtime version is no part of it: a snapshot holds WASM state only.
pub const ENGINE_ID: &str = "python/2";

/// The stack of a guest's WASM code (W-162). With less, a deeply nested `repr` traps before Python's own limit is reached.
const WASM_STACK_BYTES: usize = 8 << 20;
/// A fiber's stack: the guest's, and room for the host functions that it calls.
const FIBER_STACK_BYTES: usize = WASM_STACK_BYTES + (2 << 20);
/// Above the function table of the image (about 12,000 entries).
const TABLE_ELEMENTS: usize = 20_000;
/// Above the image's memory, so that it is mapped as it stands instead of being copied into each guest.
const DENSE_IMAGE_BYTES: u64 = 256 << 20;

fn common() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .memory_guaranteed_dense_image_size(DENSE_IMAGE_BYTES)
        // The bits of a NaN are the one thing in which WASM may differ between machines (W-156).
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false);
    config
}

/// The engine of a process that runs guests: `slots` of them can live at once.
pub(crate) fn pooled(slots: u32) -> wasmtime::Result<wasmtime::Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(slots)
        .total_memories(slots)
        .total_tables(slots)
        .total_stacks(slots)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(usize::try_from(MEMORY_CEILING).expect("64-bit hosts only"));
    let mut config = common();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    wasmtime::Engine::new(&config)
}

/// The engine that makes an image: one instance, no pool.
pub(crate) fn single() -> wasmtime::Result<wasmtime::Engine> {
    let mut config = common();
    // Its code runs once, so it is better made quickly than well. What it computes is the same.
    config.cranelift_opt_level(OptLevel::None);
    wasmtime::Engine::new(&config)
}

/// What compiled code depends on besides the image: wasmtime's version, the settings above, the machine's features.
pub(crate) fn fingerprint(engine: &wasmtime::Engine) -> Digest {
    let mut bytes = Collect(Vec::new());
    engine.precompile_compatibility_hash().hash(&mut bytes);
    Digest::of(&bytes.0)
}

/// A hasher that keeps what it is given: the standard one's result is promised to nobody.
struct Collect(Vec<u8>);

impl Hasher for Collect {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
