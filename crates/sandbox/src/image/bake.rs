//! Making an image: starting Python once, and writing its memory down as where every guest begins.
//!
//! The result depends on the module and the library alone: there is no clock, randomness or file of this machine in it.

use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{Module, Store};

use super::module::{self, ModuleFault};
use super::stdlib;
pub use super::stdlib::Tree;
use crate::engine;
use crate::guest::describe;
use crate::host::{self, Exports, Host, MemoryGauge};
use crate::limits::MEMORY_CEILING;
use crate::log::{Log, LogLine};

/// How much is kept of what the boot module says.
const WORDS_BYTES: u64 = 64 << 10;

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    #[error("the module cannot be used: {0}")]
    Module(String),
    #[error("the module cannot be rewritten: {0}")]
    Rewrite(#[from] ModuleFault),
    #[error("Python did not start: {reason}: {words}")]
    Init { reason: String, words: String },
}

/// What came out, for those who watch.
#[derive(Debug)]
pub struct Baked {
    pub wasm: Vec<u8>,
    pub memory_bytes: usize,
    /// What the boot module said.
    pub words: String,
}

/// Bakes `wasm`, an asyncified module as the recipe links it, with `library` as Python's standard library.
pub fn bake(wasm: &[u8], library: Tree) -> Result<Baked, BakeError> {
    let unusable = |error: wasmtime::Error| BakeError::Module(describe(&error));
    let engine = engine::single().map_err(unusable)?;
    let module = Module::new(&engine, wasm).map_err(unusable)?;
    let mut linker = host::linker(&engine, &module).map_err(unusable)?;
    stdlib::define(&mut linker, &module, library).map_err(unusable)?;
    let pre = linker.instantiate_pre(&module).map_err(unusable)?;
    let said = Arc::new(Mutex::new(String::new()));
    let mut store = Store::new(&engine, listening(&said));
    store.limiter(|host| &mut host.memory);
    store.set_epoch_deadline(u64::MAX / 2); // nobody moves the epoch here
    let started = crate::pool::now_or_never(async {
        let instance = pre.instantiate_async(&mut store).await?;
        let exports = Exports::of(&mut store, &instance)?;
        store.data_mut().set_exports(exports.clone());
        instance.get_typed_func::<(), ()>(&mut store, "_initialize")?.call_async(&mut store, ()).await?;
        let status = instance.get_typed_func::<(), i32>(&mut store, "guest_init")?.call_async(&mut store, ()).await?;
        wasmtime::Result::Ok((exports, status))
    });
    let mut words = store.data_mut().take_last_words();
    words.push_str(&said.lock().unwrap_or_else(PoisonError::into_inner));
    let exports = match started {
        Ok((exports, 0)) => exports,
        Ok((_, status)) => {
            return Err(BakeError::Init { reason: format!("status {status}"), words });
        }
        Err(error) => {
            return Err(BakeError::Init { reason: describe(&error), words });
        }
    };
    let memory = exports.memory.data(&store);
    Ok(Baked { wasm: module::with_memory(wasm, memory)?, memory_bytes: memory.len(), words })
}

/// A host whose log lines are kept: a boot module that fails says why there.
fn listening(said: &Arc<Mutex<String>>) -> Host {
    let said = Arc::clone(said);
    let sink = move |line: LogLine| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&line.text);
        said.push('\n');
    };
    Host::new(Arc::default(), MemoryGauge::new(MEMORY_CEILING), Log::new(Box::new(sink), WORDS_BYTES, 0))
}
