//! Rewriting a WASM module so that it starts with a given memory.
//!
//! Only the sections that say what memory is at the start change: its least size, and the data segments. Nothing else is
//! looked into. Valid because the module's mutable globals have their initial values again when its setup has returned:
//! there are three, the stack pointer and asyncify's two, and a module with another is refused.

use crate::engine::ENGINE_ID;

const CUSTOM: u8 = 0;
const MEMORY: u8 = 5;
const GLOBAL: u8 = 6;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;
/// The custom section that names the guest engine.
const ENGINE_SECTION: &str = "stasis.engine";
/// The stack pointer, asyncify's state and the address of its area. What else there was would not be reset between two guests.
const MUTABLE_GLOBALS: usize = 3;
/// The unit in which zeros are left out of the data, and how many such units of zeros are kept within a segment because
/// a new segment would cost more.
const CHUNK: usize = 256;
const KEPT_GAP: usize = 4 * CHUNK;
const WASM_PAGE: usize = 1 << 16;

/// A module that this code cannot rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModuleFault {
    #[error("it is no WASM module")]
    NotWasm,
    #[error("it ends within a section")]
    Truncated,
    #[error("it has not exactly one memory")]
    Memory,
    #[error("it has other mutable globals than a stack pointer and asyncify's two")]
    Globals,
}

/// `wasm` with `memory` as its initial memory, other custom sections dropped, and the engine named.
pub(crate) fn with_memory(wasm: &[u8], memory: &[u8]) -> Result<Vec<u8>, ModuleFault> {
    let mut out = wasm.get(..8).ok_or(ModuleFault::NotWasm)?.to_vec();
    for section in sections(wasm)? {
        let (id, body) = section?;
        match id {
            CUSTOM | DATA_COUNT => {}
            MEMORY => put_section(&mut out, id, &memory_section(body, memory.len())?),
            DATA => put_section(&mut out, id, &data_section(memory)),
            GLOBAL if mutable_globals(body) > MUTABLE_GLOBALS => return Err(ModuleFault::Globals),
            _ => put_section(&mut out, id, body),
        }
    }
    let mut engine = Vec::new();
    put_number(&mut engine, ENGINE_SECTION.len() as u64);
    engine.extend_from_slice(ENGINE_SECTION.as_bytes());
    engine.extend_from_slice(ENGINE_ID.as_bytes());
    put_section(&mut out, CUSTOM, &engine);
    Ok(out)
}

/// The engine that an image names.
pub(crate) fn engine_of(wasm: &[u8]) -> Option<String> {
    sections(wasm).ok()?.filter_map(Result::ok).filter(|(id, _)| *id == CUSTOM).find_map(|(_, mut body)| {
        let length = usize::try_from(number(&mut body)?).ok()?;
        let (name, engine) = body.split_at_checked(length)?;
        (name == ENGINE_SECTION.as_bytes()).then(|| String::from_utf8_lossy(engine).into_owned())
    })
}

type Section<'a> = Result<(u8, &'a [u8]), ModuleFault>;

fn sections(wasm: &[u8]) -> Result<impl Iterator<Item = Section<'_>>, ModuleFault> {
    let mut rest = wasm.strip_prefix(b"\0asm\x01\0\0\0").ok_or(ModuleFault::NotWasm)?;
    Ok(std::iter::from_fn(move || {
        let (&id, after) = rest.split_first()?;
        rest = after;
        let length = number(&mut rest).and_then(|length| usize::try_from(length).ok());
        let Some((body, after)) = length.and_then(|length| rest.split_at_checked(length)) else {
            rest = &[];
            return Some(Err(ModuleFault::Truncated));
        };
        rest = after;
        Some(Ok((id, body)))
    }))
}

fn memory_section(mut body: &[u8], bytes: usize) -> Result<Vec<u8>, ModuleFault> {
    let count = number(&mut body);
    let flags = number(&mut body).ok_or(ModuleFault::Memory)?;
    let _old_least = number(&mut body).ok_or(ModuleFault::Memory)?;
    if count != Some(1) || !bytes.is_multiple_of(WASM_PAGE) {
        return Err(ModuleFault::Memory);
    }
    let mut section = Vec::new();
    put_number(&mut section, 1);
    put_number(&mut section, flags);
    put_number(&mut section, (bytes / WASM_PAGE) as u64);
    section.extend_from_slice(body); // the most, if there is one
    Ok(section)
}

/// How many globals can change. Their values are constants, each ended by an `end` (0x0b); one that holds such a byte itself
/// makes the count too high at worst.
fn mutable_globals(mut body: &[u8]) -> usize {
    let count = number(&mut body).unwrap_or(0);
    (0..count)
        .filter(|_| {
            let mutable = body.get(1) == Some(&1);
            let end = body.iter().skip(3).position(|&byte| byte == 0x0b);
            body = end.map_or(&[], |end| &body[3 + end + 1..]);
            mutable
        })
        .count()
}

fn data_section(memory: &[u8]) -> Vec<u8> {
    let segments = segments(memory);
    let mut section = Vec::with_capacity(memory.len());
    put_number(&mut section, segments.len() as u64);
    for (start, end) in segments {
        section.extend_from_slice(&[0, 0x41]); // active, at the constant that follows
        put_signed(&mut section, i64::from(start as u32 as i32));
        section.push(0x0b);
        put_number(&mut section, (end - start) as u64);
        section.extend_from_slice(&memory[start..end]);
    }
    section
}

/// The parts of `memory` that are not zero.
fn segments(memory: &[u8]) -> Vec<(usize, usize)> {
    let mut segments: Vec<(usize, usize)> = Vec::new();
    for (index, chunk) in memory.chunks(CHUNK).enumerate() {
        if chunk.iter().all(|&byte| byte == 0) {
            continue;
        }
        let (start, end) = (index * CHUNK, index * CHUNK + chunk.len());
        match segments.last_mut() {
            Some(last) if start - last.1 <= KEPT_GAP => last.1 = end,
            _ => segments.push((start, end)),
        }
    }
    segments
}

fn put_section(out: &mut Vec<u8>, id: u8, body: &[u8]) {
    out.push(id);
    put_number(out, body.len() as u64);
    out.extend_from_slice(body);
}

/// Reads an unsigned LEB128 number.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(module (memory 1) (data (i32.const 0) "x"))` with a data count and a name section.
    const SMALL: &[u8] =
        b"\0asm\x01\0\0\0\x05\x03\x01\x00\x01\x0c\x01\x01\x0b\x07\x01\x00\x41\x00\x0b\x01x\x00\x06\x04nameA";

    #[test]
    fn a_module_starts_with_the_memory_it_is_given() {
        let mut memory = vec![0; 3 * WASM_PAGE];
        memory[10] = 1;
        memory[2 * WASM_PAGE + 5] = 2;
        let baked = with_memory(SMALL, &memory).unwrap();
        let engine = engine::single().unwrap();
        let module = wasmtime::Module::new(&engine, &baked).unwrap();
        let mut store = wasmtime::Store::new(&engine, ());
        wasmtime::Instance::new(&mut store, &module, &[]).unwrap();
        assert_eq!(engine_of(&baked).as_deref(), Some(ENGINE_ID));
        assert_eq!(engine_of(SMALL), None);
        assert!(baked.len() < 1_200, "zeros are left out: {}", baked.len());
    }

    #[test]
    fn a_module_with_a_global_that_nobody_resets_is_refused() {
        // `(global (mut i32) (i32.const 7))`, and one that never changes.
        let globals = |mutable: usize| {
            let mut section = vec![mutable as u8 + 1, 0x7f, 0, 0x41, 7, 0x0b];
            (0..mutable).for_each(|_| section.extend_from_slice(&[0x7f, 1, 0x41, 7, 0x0b]));
            let mut module = SMALL[..13].to_vec();
            put_section(&mut module, GLOBAL, &section);
            module
        };
        assert!(with_memory(&globals(3), &vec![0; WASM_PAGE]).is_ok());
        assert_eq!(with_memory(&globals(4), &vec![0; WASM_PAGE]), Err(ModuleFault::Globals));
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            assert_eq!(number(&mut bytes.as_slice()), Some(value));
        }
        let mut bytes = Vec::new();
        put_signed(&mut bytes, -1);
        put_signed(&mut bytes, 64);
        assert_eq!(bytes, [0x7f, 0xc0, 0x00]);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert_eq!(with_memory(b"text", &[]), Err(ModuleFault::NotWasm));
        assert_eq!(with_memory(&SMALL[..SMALL.len() - 1], &[0; WASM_PAGE]), Err(ModuleFault::Truncated));
    }

    use crate::engine;
}
