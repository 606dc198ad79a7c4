//! The body of a guest: its store, its memory, and all that stays when its code has returned.
//!
//! A body serves one guest after the other. Between two it is reset to what the image holds: each page that was written is
//! laid over with the image's, the globals are set back, and the host's side is made anew. Invariant: a body that cannot be
//! shown to be as the image is has served its last guest (W-225, W-226).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::{InstancePre, Store, Val};

use crate::guest::{ActiveClock, describe, watch};
use crate::host::{Exports, Host, MemoryGauge, Request};
use crate::limits::MEMORY_CEILING;
use crate::log::Log;
use crate::memory::{self, Delta, Meter};
use crate::pool::{Inner, now_or_never};
use crate::snapshot::{self, Binding, Facts, FreezeError, Opened, Snapshot};

/// An epoch deadline that never comes.
const NEVER: u64 = u64::MAX / 2;
/// Most pages of memory that a body may keep between two guests: 4 MiB, some times what an ordinary program writes.
const KEPT_PAGES: usize = 1_024;

pub(crate) struct Body {
    store: Store<Host>,
    exports: Exports,
    /// The arguments of `guest_run`.
    frame_at: i32,
    frame_bytes: i32,
    /// While a guest has the body: where it is counted if it serves no other.
    occupied: Option<Arc<AtomicU64>>,
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(retired) = self.occupied.take() {
            retired.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Body {
    pub(crate) async fn new(engine: &wasmtime::Engine, pre: &InstancePre<Host>) -> wasmtime::Result<Self> {
        let mut store = Store::new(engine, Host::idle());
        store.limiter(|host| &mut host.memory);
        store.set_epoch_deadline(NEVER);
        let instance = pre.instantiate_async(&mut store).await?;
        let exports = Exports::of(&mut store, &instance)?;
        store.data_mut().set_exports(exports.clone());
        Ok(Self { store, exports, frame_at: 0, frame_bytes: 0, occupied: None })
    }

    /// Gives the body to a guest, whose clock and door are asked at every tick. False if the guest may not have as much
    /// memory as the image takes up. A body that is gone before it was reset is counted in `retired`.
    pub(crate) fn occupy(&mut self, mut host: Host, clock: &Arc<ActiveClock>, retired: &Arc<AtomicU64>) -> bool {
        let fits = host.memory.begin(self.memory().len());
        host.set_exports(self.exports.clone());
        let door = Arc::clone(&host.door);
        *self.store.data_mut() = host;
        watch(&mut self.store, Arc::clone(clock), door);
        self.occupied = fits.then(|| Arc::clone(retired));
        fits
    }

    /// Its guest has gone, and nobody needs the body: nothing was found wrong with it.
    pub(crate) fn spare(mut self: Box<Self>) {
        self.occupied = None;
    }

    /// Makes the body as it was before its guest. False if it cannot be shown to be so: then it must not be used again.
    pub(crate) fn reset(&mut self, base: &[u8]) -> bool {
        *self.store.data_mut() = Host::idle();
        self.store.data_mut().set_exports(self.exports.clone());
        self.store.set_epoch_deadline(NEVER);
        (self.frame_at, self.frame_bytes) = (0, 0);
        // Memory never shrinks: a guest that was given more of it is the last one here.
        let is_reset = self.memory().len() == base.len()
            && memory::restore(self.exports.memory.data_mut(&mut self.store), base, KEPT_PAGES)
            && self.reset_globals();
        if is_reset {
            self.occupied = None;
        }
        is_reset
    }

    /// Beside the stack pointer an image has two mutable globals, both asyncify's: its state, and the address of its area,
    /// which means nothing while the state is 0, neither unwinding nor rewinding.
    fn reset_globals(&mut self) -> bool {
        let initial = Val::I32(self.exports.initial_stack_pointer);
        self.exports.stack_pointer.set(&mut self.store, initial).is_ok()
            && matches!(now_or_never(self.exports.unwind_state.call_async(&mut self.store, ())), Ok(0))
    }

    pub(crate) fn memory(&self) -> &[u8] {
        self.exports.memory.data(&self.store)
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        self.store.data_mut()
    }

    pub(crate) fn meter(&self) -> Meter {
        // A memory of the pool never moves.
        let start = self.exports.memory.data_ptr(&self.store).addr();
        Meter::new(start, Arc::clone(&self.store.data().memory.bytes))
    }

    /// Places a start frame in the guest's memory.
    pub(crate) async fn put(&mut self, frame: &[u8]) -> wasmtime::Result<()> {
        let area = self.exports.unwind_area.call_async(&mut self.store, ()).await?;
        self.store.data_mut().unwind_area = area;
        self.frame_bytes = i32::try_from(frame.len())?;
        self.frame_at = self.exports.alloc.call_async(&mut self.store, self.frame_bytes).await?;
        if self.frame_at == 0 {
            return Err(wasmtime::Error::msg("the guest has no memory for its program"));
        }
        self.exports.memory.write(&mut self.store, self.frame_at as u32 as usize, frame)?;
        Ok(())
    }

    /// Lays a snapshot over the image and turns the guest to rewinding: when it is run it goes to its call.
    pub(crate) async fn restore(&mut self, opened: Opened) -> wasmtime::Result<()> {
        let Opened { facts, request, pages, bytes } = opened;
        let memory = self.exports.memory;
        let wanted = u64::from(facts.memory_pages);
        let grow = wanted.checked_sub(memory.size(&self.store));
        let grow = grow.ok_or_else(|| wasmtime::Error::msg("its memory is smaller than the image's"))?;
        if grow > 0 {
            memory.grow_async(&mut self.store, grow).await?;
        }
        Delta::apply(&pages, &bytes, memory.data_mut(&mut self.store));
        self.exports.stack_pointer.set(&mut self.store, Val::I32(facts.stack_pointer as i32))?;
        self.frame_at = facts.frame_at as i32;
        self.frame_bytes = facts.frame_bytes as i32;
        let host = self.store.data_mut();
        host.unwind_area = facts.unwind_area as i32;
        host.rewinding = Some(Request::Bytes(request));
        self.exports.start_rewind.call_async(&mut self.store, facts.unwind_area as i32).await
    }

    pub(crate) async fn run(mut self: Box<Self>) -> (Box<Self>, wasmtime::Result<i32>) {
        let arguments = (self.frame_at, self.frame_bytes);
        let outcome = self.exports.run.clone().call_async(&mut self.store, arguments).await;
        (self, outcome)
    }

    pub(crate) async fn check(mut self: Box<Self>, clock: &ActiveClock) -> (Box<Self>, wasmtime::Result<i32>) {
        let arguments = (self.frame_at, self.frame_bytes);
        let check = self.exports.check.clone();
        let mut call = Box::pin(check.call_async(&mut self.store, arguments));
        let outcome = std::future::poll_fn(|context| {
            let _counted = clock.run();
            call.as_mut().poll(context)
        })
        .await;
        drop(call);
        (self, outcome)
    }

    /// The snapshot of a guest that has just saved its stack.
    pub(crate) async fn seal(&mut self, sandbox: &Inner, binding: &Binding) -> Result<Snapshot, FreezeError> {
        let trap = |error: wasmtime::Error| FreezeError::Trap(describe(&error));
        let Some(Request::Bytes(request)) = self.host().frozen_in.take() else {
            return Err(FreezeError::NotWaiting);
        };
        self.exports.stop_unwind.clone().call_async(&mut self.store, ()).await.map_err(trap)?;
        let stack_pointer = self.exports.stack_pointer.get(&mut self.store).i32().unwrap_or_default();
        let facts = Facts {
            memory_pages: u32::try_from(self.exports.memory.size(&self.store)).expect("a 32-bit memory"),
            stack_pointer: stack_pointer as u32,
            unwind_area: self.host().unwind_area as u32,
            frame_at: self.frame_at as u32,
            frame_bytes: self.frame_bytes as u32,
        };
        let sealed = sandbox.with_scratch(|delta, image, base| {
            delta.take(self.memory(), base);
            snapshot::seal(image, binding, facts, &request, delta)
        });
        sealed.map_err(FreezeError::Compress)
    }
}

impl Host {
    /// Of a guest that is never run.
    pub(crate) fn idle() -> Self {
        Self::new(Arc::default(), MemoryGauge::new(MEMORY_CEILING), Log::new(Box::new(|_| ()), 0, 0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::time::Time;

    use super::*;
    use crate::guest::{End, Event, Guest};
    use crate::limits::GuestLimits;
    use crate::pool::{Sandbox, SandboxConfig};
    use crate::wire::Program;

    const BINDING: Binding = Binding { run: [7; 16], hop: 1, position: 1 };
    /// Writes to the image's own objects, to free memory of every size, and to the C stack.
    const SPOILS: &str = "\
import json, sys, stasis
secret = ['a secret %d' % i for i in range(300)]
json.secret = secret
stasis._calls.secret = {one: bytearray(one.encode() * 9) for one in secret[:50]}
def deep(n):
    return n and deep(n - 1)
deep(300)
sys.stdout.write('half a line')
";

    fn program(end: &str) -> Program {
        Program {
            name: "program.py".into(),
            source: format!("{SPOILS}{end}"),
            inputs: "{}".into(),
            tools: Vec::new(),
            now: Time::EPOCH,
            entropy: [7; 32],
            next: 1,
        }
    }

    async fn waiting(sandbox: &Sandbox) -> Guest {
        let mut guest = sandbox.start(&program("stasis.now()"), GuestLimits::default()).await.unwrap();
        assert!(matches!(guest.next().await, Event::Call(_)));
        guest
    }

    async fn ends(sandbox: &Sandbox, end: &str) -> End {
        let limits = GuestLimits { active: Duration::from_millis(300), ..GuestLimits::default() };
        let mut guest = sandbox.start(&program(end), limits).await.unwrap();
        let Event::Ended(end) = guest.next().await else { panic!("it makes no call") };
        end
    }

    /// How many bodies wait for a guest: each is as the image is, in every byte. They are gone then, for to read all of a
    /// memory makes it look as if it had been written.
    fn kept(sandbox: &Sandbox) -> usize {
        let inner = sandbox.inner();
        let mut idle = std::mem::take(&mut *inner.idle());
        for body in &mut idle {
            assert!(body.memory() == inner.base(), "memory of an earlier guest was left"); // W-225 W-226
            let pointer = body.exports.stack_pointer.get(&mut body.store).i32();
            assert_eq!(pointer, Some(body.exports.initial_stack_pointer));
            assert!(body.reset_globals(), "asyncify is neither unwinding nor rewinding");
        }
        idle.len()
    }

    #[tokio::test]
    async fn however_a_guest_ends_its_body_goes_on_as_the_image_is() {
        let config = SandboxConfig::new(crate::cache::default_dir().unwrap());
        let sandbox = Sandbox::open(&config, &mut |_| ()).unwrap();
        // Each twice: the second has the body of the first, as the program has that of the compiler.
        for _ in 0..2 {
            assert!(matches!(ends(&sandbox, "").await, End::Returned { .. }));
        }
        assert_eq!(kept(&sandbox), 1);
        for _ in 0..2 {
            assert!(matches!(ends(&sandbox, "raise ValueError(secret)").await, End::Raised(_)));
        }
        assert_eq!(kept(&sandbox), 1);
        for _ in 0..2 {
            assert!(matches!(ends(&sandbox, "while True: pass").await, End::Limit(_)));
        }
        assert_eq!(kept(&sandbox), 1);
        for _ in 0..2 {
            drop(waiting(&sandbox).await);
        }
        assert_eq!(kept(&sandbox), 1);
        for _ in 0..2 {
            let mut stopped = waiting(&sandbox).await;
            stopped.stopper().stop();
            assert!(matches!(stopped.next().await, Event::Ended(End::Stopped)));
        }
        assert_eq!(kept(&sandbox), 1);
        for _ in 0..2 {
            let snapshot = waiting(&sandbox).await.freeze(&BINDING).await.unwrap();
            drop(sandbox.thaw(snapshot.bytes(), &BINDING, GuestLimits::default()).await.unwrap());
        }
        assert_eq!(kept(&sandbox), 1);
        // Two at once need two.
        drop((waiting(&sandbox).await, waiting(&sandbox).await));
        assert_eq!(kept(&sandbox), 2); // W-226
        assert_eq!(sandbox.retired(), 0); // W-226
    }

    #[tokio::test]
    async fn a_body_that_cannot_be_made_as_it_was_is_used_no_more() {
        let config = SandboxConfig::new(crate::cache::default_dir().unwrap());
        let sandbox = Sandbox::open(&config, &mut |_| ()).unwrap();
        assert!(matches!(ends(&sandbox, "").await, End::Returned { .. }));
        for (retired, (end, why)) in (1..).zip([
            ("kept = b'x' * (64 << 20)", "its memory has grown"),
            ("import gc\ngc.unfreeze()\ngc.collect()", "more was written than is kept"),
            ("import os\nos.abort()", "its code broke down"),
        ]) {
            // The compiler's body is kept, and this guest has it.
            ends(&sandbox, end).await;
            assert_eq!((kept(&sandbox), sandbox.retired()), (0, retired), "{why}"); // W-226
        }
        let little = GuestLimits { memory_bytes: 1 << 20, ..GuestLimits::default() };
        assert!(sandbox.start(&program(""), little).await.is_err(), "less memory than the image has");
    }
}
