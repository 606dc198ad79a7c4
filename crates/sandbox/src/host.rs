//! The host's side of the door: the four functions that a guest's shim imports, and what the host keeps while a guest lives.
//!
//! Invariants: bytes of a guest are copied once, bounded, before anything is read (C-66); a guest has one call at a time, and
//! nothing enters it from inside one (C-67) but asyncify's two control functions, which run no code of the guest.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use wasmtime::{Caller, Instance, Linker, Memory, Module, ResourceLimiter, Store, TypedFunc};

use crate::guest::Halt;
use protocol::limits::{BODY_BYTES as RESULT_BYTES, LOG_LINE_BYTES, REQUEST_BYTES};

use crate::limits::CODE_BYTES;
use crate::log::Log;
use crate::wasi;

/// How much is kept of what a guest's C code says before it aborts.
pub(crate) const LAST_WORDS_BYTES: usize = 4 << 10;
/// How many bytes past the limit of a log line are copied: enough to see that it has to be cut.
const LINE_COPY_BYTES: usize = LOG_LINE_BYTES + 4;

/// What a guest asks for, or says, when it leaves its own code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Bytes(Vec<u8>),
    /// Longer than a request may be; only its length is known.
    Oversized(u64),
}

/// How a program ended, as the boot module tells it. The numbers stand in `_boot.py` too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Result(String),
    Raised(String),
    ResultInvalid(String),
    SourceFault(String),
    /// The source compiles, to this code.
    Checked(Vec<u8>),
}

/// What a blocked call is told.
enum Command {
    Answer(Vec<u8>),
    Freeze,
}

/// The blocked call, as the owner of the guest and the guest's fiber both see it.
#[derive(Default)]
pub(crate) struct Door(Mutex<DoorState>);

#[derive(Default)]
struct DoorState {
    /// How many calls the guest has made since it was made or thawed.
    calls: u64,
    /// Set while the guest is blocked in a call and has not taken its answer.
    waiting: Option<Request>,
    command: Option<Command>,
    stopped: bool,
    waker: Option<Waker>,
}

impl Door {
    fn lock(&self) -> MutexGuard<'_, DoorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads how many calls there were, and the one that blocks.
    pub(crate) fn with_waiting<T>(&self, read: impl FnOnce(u64, Option<&Request>) -> T) -> T {
        let state = self.lock();
        read(state.calls, state.waiting.as_ref())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.lock().waiting.is_some()
    }

    /// Answers the blocked call. False if there is none.
    pub(crate) fn answer(&self, frame: Vec<u8>) -> bool {
        self.command(Command::Answer(frame))
    }

    /// Tells the blocked call to save its stack and leave. False if there is none.
    pub(crate) fn freeze(&self) -> bool {
        self.command(Command::Freeze)
    }

    fn command(&self, command: Command) -> bool {
        let mut state = self.lock();
        if state.waiting.is_none() || state.command.is_some() {
            return false;
        }
        state.command = Some(command);
        state.wake();
        true
    }

    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.wake();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Blocks the guest in a call until it is told what to do.
    async fn wait(&self, request: Request) -> Result<(Request, Command), Halt> {
        {
            let mut state = self.lock();
            state.calls += 1;
            state.waiting = Some(request);
        }
        poll_fn(|context| {
            let mut state = self.lock();
            if state.stopped {
                return Poll::Ready(Err(Halt::Stopped));
            }
            match state.command.take() {
                Some(command) => {
                    let request = state.waiting.take().expect("set until a command is taken");
                    Poll::Ready(Ok((request, command)))
                }
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl DoorState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What an image exports, resolved once for each body.
#[derive(Clone)]
pub(crate) struct Exports {
    pub(crate) memory: Memory,
    pub(crate) stack_pointer: wasmtime::Global,
    pub(crate) initial_stack_pointer: i32,
    pub(crate) alloc: TypedFunc<i32, i32>,
    pub(crate) run: TypedFunc<(i32, i32), i32>,
    pub(crate) check: TypedFunc<(i32, i32), i32>,
    pub(crate) unwind_area: TypedFunc<(), i32>,
    pub(crate) start_unwind: TypedFunc<i32, ()>,
    pub(crate) stop_unwind: TypedFunc<(), ()>,
    pub(crate) start_rewind: TypedFunc<i32, ()>,
    pub(crate) stop_rewind: TypedFunc<(), ()>,
    /// 0 but between a start and a stop of the above.
    pub(crate) unwind_state: TypedFunc<(), i32>,
}

impl Exports {
    pub(crate) fn of(store: &mut Store<Host>, instance: &Instance) -> wasmtime::Result<Self> {
        let missing = |name: &str| wasmtime::Error::msg(format!("the image exports no {name}"));
        let stack_pointer =
            instance.get_global(&mut *store, "__stack_pointer").ok_or_else(|| missing("__stack_pointer"))?;
        Ok(Self {
            memory: instance.get_memory(&mut *store, "memory").ok_or_else(|| missing("memory"))?,
            stack_pointer,
            initial_stack_pointer: stack_pointer.get(&mut *store).i32().ok_or_else(|| missing("__stack_pointer"))?,
            alloc: instance.get_typed_func(&mut *store, "guest_alloc")?,
            run: instance.get_typed_func(&mut *store, "guest_run")?,
            check: instance.get_typed_func(&mut *store, "guest_check")?,
            unwind_area: instance.get_typed_func(&mut *store, "guest_unwind_area")?,
            start_unwind: instance.get_typed_func(&mut *store, "asyncify_start_unwind")?,
            stop_unwind: instance.get_typed_func(&mut *store, "asyncify_stop_unwind")?,
            start_rewind: instance.get_typed_func(&mut *store, "asyncify_start_rewind")?,
            stop_rewind: instance.get_typed_func(&mut *store, "asyncify_stop_rewind")?,
            unwind_state: instance.get_typed_func(&mut *store, "asyncify_get_state")?,
        })
    }
}

/// What the host keeps for one living guest. None of it is part of a snapshot.
pub(crate) struct Host {
    pub(crate) door: Arc<Door>,
    pub(crate) memory: MemoryGauge,
    /// Behind a lock only so that a host can be shared; it is always reached by `get_mut`.
    log: Mutex<Log>,
    pub(crate) ending: Option<Ending>,
    /// Set while a thawed guest finds its way back to the call it was frozen in.
    pub(crate) rewinding: Option<Request>,
    /// The call in which the guest just saved its stack.
    pub(crate) frozen_in: Option<Request>,
    /// Where the C stack is saved.
    pub(crate) unwind_area: i32,
    answer: Vec<u8>,
    exports: Option<Exports>,
    last_words: Vec<u8>,
}

impl Host {
    pub(crate) fn new(door: Arc<Door>, memory: MemoryGauge, log: Log) -> Self {
        Self {
            door,
            memory,
            log: Mutex::new(log),
            ending: None,
            rewinding: None,
            frozen_in: None,
            unwind_area: 0,
            answer: Vec::new(),
            exports: None,
            last_words: Vec::new(),
        }
    }

    pub(crate) fn set_exports(&mut self, exports: Exports) {
        self.exports = Some(exports);
    }

    pub(crate) fn exports(&self) -> &Exports {
        self.exports.as_ref().expect("set right after the instance is made, before its code runs")
    }

    pub(crate) fn last_words(&mut self, text: &[u8]) {
        let room = LAST_WORDS_BYTES.saturating_sub(self.last_words.len());
        self.last_words.extend_from_slice(&text[..text.len().min(room)]);
    }

    pub(crate) fn take_last_words(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.last_words)).trim().to_owned()
    }
}

/// How much memory a guest may have and has, and the first wish that was refused.
pub(crate) struct MemoryGauge {
    limit: usize,
    pub(crate) bytes: Arc<AtomicUsize>,
    refused: Option<usize>,
}

impl MemoryGauge {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: usize::try_from(limit).unwrap_or(usize::MAX), bytes: Arc::default(), refused: None }
    }

    /// Takes note of the memory that there is from the start. False if that is more than there may be.
    pub(crate) fn begin(&mut self, bytes: usize) -> bool {
        self.bytes.store(bytes, Ordering::Relaxed);
        bytes <= self.limit
    }

    /// The limit and the wish that was refused, if one was.
    pub(crate) fn refused(&self) -> Option<(u64, u64)> {
        self.refused.map(|wanted| (self.limit as u64, wanted as u64))
    }
}

impl ResourceLimiter for MemoryGauge {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // Refused growth is an ordinary failure to the guest: its allocator says no, and Python raises MemoryError.
        let allowed = desired <= self.limit;
        match allowed {
            true => self.bytes.store(desired, Ordering::Relaxed),
            false => self.refused = Some(desired),
        }
        Ok(allowed)
    }

    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // The pool's own limit holds, and no guest grows its table.
        Ok(true)
    }
}

/// Defines everything that an image imports.
pub(crate) fn linker(engine: &wasmtime::Engine, module: &Module) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap_async("host", "call", |caller: Caller<'_, Host>, (at, length): (i32, i32)| {
        Box::new(call(caller, at, length))
    })?;
    linker.func_wrap("host", "take", take)?;
    linker.func_wrap("host", "log", log)?;
    linker.func_wrap("host", "end", end)?;
    wasi::define(&mut linker, module)?;
    Ok(linker)
}

/// `host.call`: blocks the guest until its answer is there, and returns the length of the answer's frame.
async fn call(mut caller: Caller<'_, Host>, at: i32, length: i32) -> wasmtime::Result<i32> {
    let request = match caller.data_mut().rewinding.take() {
        Some(request) => {
            let stop_rewind = caller.data().exports().stop_rewind.clone();
            stop_rewind.call_async(&mut caller, ()).await?;
            request
        }
        None if length as u32 as usize > REQUEST_BYTES => Request::Oversized(u64::from(length as u32)),
        None => Request::Bytes(copy(&caller, at, length)?),
    };
    let door = Arc::clone(&caller.data().door);
    match door.wait(request).await? {
        (_, Command::Answer(frame)) => {
            let length = i32::try_from(frame.len())?;
            caller.data_mut().answer = frame;
            Ok(length)
        }
        (request, Command::Freeze) => {
            let (start_unwind, area) = (caller.data().exports().start_unwind.clone(), caller.data().unwind_area);
            start_unwind.call_async(&mut caller, area).await?;
            caller.data_mut().frozen_in = Some(request);
            Ok(0)
        }
    }
}

/// `host.take`: copies the answer into the guest.
fn take(mut caller: Caller<'_, Host>, at: i32) -> wasmtime::Result<()> {
    let answer = std::mem::take(&mut caller.data_mut().answer);
    let memory = caller.data().exports().memory;
    Ok(memory.write(&mut caller, at as u32 as usize, &answer)?)
}

/// `host.log`: one line.
fn log(mut caller: Caller<'_, Host>, at: i32, length: i32) -> wasmtime::Result<()> {
    let memory = caller.data().exports().memory;
    let (bytes, host) = memory.data_and_store_mut(&mut caller);
    let line = range(bytes, at, (length as u32 as usize).min(LINE_COPY_BYTES) as i32)?;
    host.log.get_mut().unwrap_or_else(PoisonError::into_inner).line(line);
    Ok(())
}

/// `host.end`: how the program ended.
fn end(mut caller: Caller<'_, Host>, kind: i32, at: i32, length: i32) -> wasmtime::Result<()> {
    let length_bytes = length as u32 as usize;
    if kind == 0 && length_bytes > RESULT_BYTES {
        let message = format!("the result has {length_bytes} bytes, the limit is {RESULT_BYTES}");
        caller.data_mut().ending = Some(Ending::ResultInvalid(message));
        return Ok(());
    }
    if kind == 4 {
        let code = copy(&caller, at, length_bytes.min(CODE_BYTES + 1) as i32)?;
        caller.data_mut().ending = Some(Ending::Checked(code));
        return Ok(());
    }
    let text = String::from_utf8_lossy(&copy(&caller, at, length_bytes.min(RESULT_BYTES) as i32)?).into_owned();
    caller.data_mut().ending = Some(match kind {
        0 => Ending::Result(text),
        1 => Ending::Raised(text),
        2 => Ending::ResultInvalid(text),
        3 => Ending::SourceFault(text),
        _ => return Err(wasmtime::Error::msg("the guest ended in an unknown way")),
    });
    Ok(())
}

fn copy(caller: &Caller<'_, Host>, at: i32, length: i32) -> wasmtime::Result<Vec<u8>> {
    let memory = caller.data().exports().memory;
    Ok(range(memory.data(caller), at, length)?.to_vec())
}

fn range(memory: &[u8], at: i32, length: i32) -> wasmtime::Result<&[u8]> {
    let (start, length) = (at as u32 as usize, length as u32 as usize);
    Ok(memory.get(start..start + length).ok_or(wasmtime::Trap::MemoryOutOfBounds)?)
}
