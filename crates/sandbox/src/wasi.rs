//! The guest's operating system: nearly nothing, and no state.
//!
//! There are no files, sockets, arguments or environment variables, and time and randomness are the guest's own (`guest.c`),
//! so a frozen guest leaves nothing behind here. What C code writes to its standard streams, such as the last words of an
//! abort, is kept for the error that follows.

use wasmtime::{Caller, Linker, Module, Val};

use crate::guest::Halt;
use crate::host::{Host, LAST_WORDS_BYTES};

/// WASI's error numbers, as far as they are used.
pub(crate) mod errno {
    pub(crate) const SUCCESS: i32 = 0;
    pub(crate) const BADF: i32 = 8;
    pub(crate) const NOSYS: i32 = 52;
}

/// Functions by which nothing is changed and zero of everything is reported.
const EMPTY_SIZES: [&str; 2] = ["environ_sizes_get", "args_sizes_get"];
const NO_OPERATION: [&str; 3] = ["environ_get", "args_get", "sched_yield"];
const ABSENT: [&str; 1] = ["poll_oneoff"];
/// As many as POSIX lets one `writev` have.
const MOST_BUFFERS: i32 = 1_024;

/// Defines every WASI function that `module` imports.
pub(crate) fn define(linker: &mut Linker<Host>, module: &Module) -> wasmtime::Result<()> {
    for import in module.imports().filter(|import| import.module() == "wasi_snapshot_preview1") {
        let name = import.name().to_owned();
        let Some(kind) = import.ty().func().cloned() else {
            continue;
        };
        linker.func_new(import.module(), import.name(), kind, move |mut caller, args, results| {
            let answer = call(&mut caller, &name, args)?;
            if let Some(result) = results.first_mut() {
                *result = Val::I32(answer);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn call(caller: &mut Caller<'_, Host>, name: &str, args: &[Val]) -> wasmtime::Result<i32> {
    let arg = |i: usize| args.get(i).and_then(Val::i32).unwrap_or(0);
    match name {
        name if EMPTY_SIZES.contains(&name) => {
            write(caller, arg(0), &[0; 4])?;
            write(caller, arg(1), &[0; 4])?;
            Ok(errno::SUCCESS)
        }
        name if NO_OPERATION.contains(&name) => Ok(errno::SUCCESS),
        name if ABSENT.contains(&name) => Ok(errno::NOSYS),
        "clock_res_get" => {
            write(caller, arg(1), &1_000u64.to_le_bytes())?;
            Ok(errno::SUCCESS)
        }
        "fd_write" if arg(0) == 1 || arg(0) == 2 => {
            let (text, length) = gather(caller, arg(1), arg(2))?;
            write(caller, arg(3), &u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes())?;
            caller.data_mut().last_words(&text);
            Ok(errno::SUCCESS)
        }
        "proc_exit" => Err(Halt::Exit(arg(0)).into()),
        // Everything else is about a file or a socket, and there is none.
        _ => Ok(errno::BADF),
    }
}

fn write(caller: &mut Caller<'_, Host>, at: i32, bytes: &[u8]) -> wasmtime::Result<()> {
    let memory = caller.data().exports().memory;
    Ok(memory.write(caller, at as u32 as usize, bytes)?)
}

/// The first bytes of a vector of buffers, and the length of all. A guest can name the same buffer again and again, so the
/// rest is never copied.
fn gather(caller: &Caller<'_, Host>, vectors: i32, count: i32) -> wasmtime::Result<(Vec<u8>, usize)> {
    let memory = caller.data().exports().memory.data(caller);
    let word = |at: usize| -> Option<usize> {
        let bytes = memory.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let (mut text, mut length) = (Vec::new(), 0usize);
    for i in 0..count.clamp(0, MOST_BUFFERS) as usize {
        let at = (vectors as u32 as usize) + 8 * i;
        let buffer =
            word(at).zip(word(at + 4)).and_then(|(start, length)| memory.get(start..start.checked_add(length)?));
        let buffer = buffer.ok_or(wasmtime::Trap::MemoryOutOfBounds)?;
        text.extend_from_slice(&buffer[..buffer.len().min(LAST_WORDS_BYTES - text.len())]);
        length += buffer.len();
    }
    Ok((text, length))
}
