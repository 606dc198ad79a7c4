//! The sandbox: one image, compiled once and shared, and the guests made from it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::digest::Digest;
use serde::Deserialize;
use wasmtime::InstancePre;

use crate::body::Body;
use crate::cache::CacheError;
use crate::code::{self, Codes};
use crate::engine;
use crate::guest::{ActiveClock, Guest, describe};
use crate::host::{self, Door, Ending, Host, MemoryGauge};
use crate::image::{self, ImageInfo, Progress};
use crate::limits::{CODE_BYTES, GuestLimits, MEMORY_CEILING};
use crate::log::Log;
use crate::memory::Delta;
use crate::snapshot::{self, Binding, Damage, Fault};
use crate::ticker::Ticker;
use crate::wire::{self, NotJson, Program};

/// How long a compile check may take; the compiler itself refuses sources that are too deep.
const CHECK_TIME: Duration = Duration::from_secs(10);
/// Compile checks that run at once, beside the guests.
const CHECK_SEATS: u32 = 16;
/// Bodies that are kept while no guest has them: more than there are guests executing at once, and at most 64 MiB in all.
const IDLE_BODIES: u32 = 16;

/// Where a sandbox finds its image, and how large it is.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The cache folder of I-69; see [`crate::cache::default_dir`].
    pub cache: std::path::PathBuf,
    /// An image file instead of the newest one of the cache.
    pub image: Option<std::path::PathBuf>,
    /// How many guests can live at once.
    pub max_guests: u32,
}

impl SandboxConfig {
    /// The newest image of `cache`, and room for 256 guests.
    pub fn new(cache: std::path::PathBuf) -> Self {
        Self { cache, image: None, max_guests: 256 }
    }
}

/// Why no guest can run here.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no guest image in {}: build one with `cargo xtask guest`, or name one as [guest] image", .searched.display())]
    NoImage { searched: std::path::PathBuf },
    #[error("the guest image {digest} is not in {}: put its file back, or restore the cache folder", .searched.display())]
    NotHere { digest: Digest, searched: std::path::PathBuf },
    #[error("the guest image {} cannot be read: {source}", .path.display())]
    Unreadable { path: std::path::PathBuf, source: std::io::Error },
    #[error("{} is no guest image of engine {}: {reason}", .path.display(), engine::ENGINE_ID)]
    NotAnImage { path: std::path::PathBuf, reason: String },
    #[error("the guest image {} is damaged: its digest is not the one in its name; build it again with `cargo xtask guest`", .path.display())]
    Damaged { path: std::path::PathBuf },
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("the guest engine did not start: {0}")]
    Engine(String),
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("all {limit} guests that can live at once are in use")]
    Full { limit: u32 },
    #[error("a guest has at most {limit_bytes} bytes of memory, {asked_bytes} were asked for")]
    Memory { limit_bytes: u64, asked_bytes: u64 },
    #[error("the program cannot be handed over: {0}")]
    Program(#[from] NotJson),
    #[error("the guest was not made: {0}")]
    Guest(String),
}

/// Source that does not compile (W-152). Line and column count from 1; the column counts characters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct SourceFault {
    pub line: u32,
    pub column: u32,
    /// The compiler's words.
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Source(#[from] SourceFault),
    /// The source could not be judged.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl CheckError {
    /// The compiler came to no verdict: whatever the reason, it lies in the source.
    fn stopped(why: &str) -> Self {
        Self::Source(SourceFault { line: 1, column: 1, text: format!("the compiler gave up: {why}") })
    }
}

/// Why a snapshot was not used. Whatever the reason, the run returns by replay (W-245, W-246).
#[derive(Debug, thiserror::Error)]
pub enum ThawError {
    #[error("the snapshot is of another guest engine")]
    Engine,
    #[error("the snapshot is of another guest image")]
    Image,
    #[error("the snapshot is of another run")]
    Run,
    #[error("the snapshot is of another hop")]
    Hop,
    #[error("the snapshot is of another position of the journal")]
    Position,
    #[error("the snapshot is damaged: {0}")]
    Damaged(#[from] Damage),
    #[error("the snapshot's guest did not come back: {0}")]
    Guest(String),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl From<Fault> for ThawError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine => Self::Engine,
            Fault::Image => Self::Image,
            Fault::Run => Self::Run,
            Fault::Hop => Self::Hop,
            Fault::Position => Self::Position,
            Fault::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

/// Makes guests. Cloning shares everything.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

/// What all guests share.
pub(crate) struct Inner {
    image: ImageInfo,
    cache: std::path::PathBuf,
    engine: wasmtime::Engine,
    pre: InstancePre<Host>,
    /// A guest that is never run: its memory is the image's, against which others are compared.
    pristine: Body,
    /// Bodies whose guests have gone, reset and ready for the next. Making one anew costs more than a small program, nearly
    /// all of it page faults.
    idle: Mutex<Vec<Body>>,
    /// Bodies that have served their last guest, since it could not be shown that nothing of that is left in them.
    retired: Arc<AtomicU64>,
    pub(crate) ticker: Ticker,
    seats: Arc<Seats>,
    check_seats: Arc<Seats>,
    codes: Codes,
    /// Buffers of earlier freezes. Allocated anew each time they would cost more than the compression.
    scratch: Mutex<Vec<Delta>>,
}

struct Seats {
    limit: u32,
    taken: AtomicU32,
}

/// One of the places for a living guest.
pub(crate) struct Seat(Arc<Seats>);

impl Seats {
    fn new(limit: u32) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU32::new(0) })
    }

    fn take(self: &Arc<Self>) -> Result<Seat, StartError> {
        let step = |taken| (taken < self.limit).then_some(taken + 1);
        match self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            Ok(_) => Ok(Seat(Arc::clone(self))),
            Err(_) => Err(StartError::Full { limit: self.limit }),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Sandbox {
    /// Finds the image, compiles it unless the cache has it compiled, and prepares to make guests from it.
    ///
    /// This blocks: some milliseconds, or with an image that is new here some seconds, which `progress` is told.
    pub fn open(config: &SandboxConfig, progress: &mut dyn FnMut(Progress)) -> Result<Self, OpenError> {
        Self::open_as(config, None, progress)
    }

    fn open_as(
        config: &SandboxConfig,
        wanted: Option<Digest>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, OpenError> {
        let failed = |error: wasmtime::Error| OpenError::Engine(describe(&error));
        // One slot for the pristine instance.
        let engine = engine::pooled(config.max_guests + CHECK_SEATS + IDLE_BODIES + 1).map_err(failed)?;
        let (image, module) = image::load(&engine, config, wanted, progress)?;
        let pre = host::linker(&engine, &module).and_then(|linker| linker.instantiate_pre(&module)).map_err(failed)?;
        let pristine = now_or_never(Body::new(&engine, &pre)).map_err(failed)?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| OpenError::Engine(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            image,
            cache: config.cache.clone(),
            engine,
            pre,
            pristine,
            idle: Mutex::default(),
            retired: Arc::default(),
            ticker,
            seats: Seats::new(config.max_guests),
            check_seats: Seats::new(CHECK_SEATS),
            codes: Codes::default(),
            scratch: Mutex::default(),
        })))
    }

    /// Opens the image of this digest from a cache folder: a run returns on the image it was pinned to, which need not be
    /// the newest any more. As [`Sandbox::open`], this blocks.
    pub fn of_digest(cache: &std::path::Path, digest: Digest) -> Result<Self, OpenError> {
        let path = crate::cache::find(cache, digest)?;
        let config = SandboxConfig { image: Some(path), ..SandboxConfig::new(cache.to_owned()) };
        Self::open_as(&config, Some(digest), &mut |_| ())
    }

    pub fn image(&self) -> &ImageInfo {
        &self.0.image
    }

    /// The cache folder that it was opened with.
    pub fn cache(&self) -> &std::path::Path {
        &self.0.cache
    }

    #[cfg(test)]
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Whether as many guests live as can at once.
    pub fn is_full(&self) -> bool {
        self.guests() >= self.0.seats.limit
    }

    /// How many guests live now.
    pub fn guests(&self) -> u32 {
        self.0.seats.taken.load(Ordering::Acquire)
    }

    /// How many places of guests were not used again, since they could not be shown to be as the image is (W-226).
    pub fn retired(&self) -> u64 {
        self.0.retired.load(Ordering::Relaxed)
    }

    /// Compiles a source without running it (W-152).
    pub async fn check(&self, source: &str, name: &str) -> Result<(), CheckError> {
        let seat = self.0.check_seats.take()?;
        self.0.compile(source, name, &seat).await.map(drop)
    }

    /// Makes a guest for a program. None of its code runs before the first [`Guest::next`].
    pub async fn start(&self, program: &Program, limits: GuestLimits) -> Result<Guest, StartError> {
        let seat = self.0.seats.take()?;
        let code = match self.0.compile(&program.source, &program.name, &seat).await {
            Ok(code) => code,
            // The guest compiles it again, and ends by the error.
            Err(CheckError::Source(_)) => Arc::default(),
            Err(CheckError::Start(error)) => return Err(error),
        };
        let frame = program.frame(&code)?;
        let mut made = self.0.make(limits, seat).await?;
        made.body.put(&frame).await.map_err(|error| StartError::Guest(describe(&error)))?;
        Ok(made.into_guest(Arc::clone(&self.0), false))
    }

    /// Brings a frozen guest back to the call it was frozen in, where it awaits its answer. `snapshot` is used only if it
    /// belongs to this image and to `expected`, and only whole.
    pub async fn thaw(&self, snapshot: &[u8], expected: &Binding, limits: GuestLimits) -> Result<Guest, ThawError> {
        let opened = snapshot::open(snapshot, self.0.image.digest, expected)?;
        let seat = self.0.seats.take()?;
        let mut made = self.0.make(limits, seat).await?;
        made.body.restore(opened).await.map_err(|error| ThawError::Guest(describe(&error)))?;
        let mut guest = made.into_guest(Arc::clone(&self.0), true);
        guest.rewind().await.map_err(ThawError::Guest)?;
        Ok(guest)
    }
}

/// A guest that was made and has not begun.
struct Made {
    body: Box<Body>,
    door: Arc<Door>,
    clock: Arc<ActiveClock>,
    seat: Seat,
}

impl Made {
    fn into_guest(self, sandbox: Arc<Inner>, thawed: bool) -> Guest {
        let meter = self.body.meter();
        Guest::new(sandbox, self.seat, self.door, self.clock, meter, self.body.run(), thawed)
    }
}

impl Inner {
    /// The code of a source, from the cache or from a guest that does nothing else. `_seat` is the place it takes up.
    async fn compile(&self, source: &str, name: &str, _seat: &Seat) -> Result<Arc<[u8]>, CheckError> {
        let key = code::key(name, source);
        if let Some(code) = self.codes.get(&key) {
            return Ok(code);
        }
        let limits = GuestLimits { active: CHECK_TIME, ..GuestLimits::default() };
        let (mut body, _, clock) = self.body(limits).await?;
        let frame = wire::check_frame(name, source);
        body.put(&frame).await.map_err(|error| StartError::Guest(describe(&error)))?;
        let _executing = self.ticker.executing();
        let (mut body, outcome) = body.check(&clock).await;
        let code: Arc<[u8]> = match (body.host().ending.take(), outcome) {
            (Some(Ending::Checked(code)), Ok(_)) if code.len() <= CODE_BYTES => code.into(),
            (Some(Ending::Checked(_)), Ok(_)) => return Err(CheckError::stopped("its code is too long")),
            (Some(Ending::SourceFault(fault)), Ok(_)) => match serde_json::from_str::<SourceFault>(&fault) {
                Ok(fault) => {
                    self.take_back(body);
                    return Err(fault.into());
                }
                Err(error) => return Err(CheckError::stopped(&error.to_string())),
            },
            (_, Ok(_)) => return Err(CheckError::stopped("it gave no verdict")),
            (_, Err(error)) => return Err(CheckError::stopped(&describe(&error))),
        };
        self.take_back(body);
        self.codes.put(key, &code);
        Ok(code)
    }

    async fn make(&self, limits: GuestLimits, seat: Seat) -> Result<Made, StartError> {
        let (body, door, clock) = self.body(limits).await?;
        Ok(Made { body, door, clock, seat })
    }

    async fn body(&self, limits: GuestLimits) -> Result<(Box<Body>, Arc<Door>, Arc<ActiveClock>), StartError> {
        let GuestLimits { memory_bytes, active, spent, log, log_limit, log_used } = limits;
        if memory_bytes > MEMORY_CEILING {
            return Err(StartError::Memory { limit_bytes: MEMORY_CEILING, asked_bytes: memory_bytes });
        }
        let door = Arc::<Door>::default();
        let clock = ActiveClock::new(spent, active);
        let host = Host::new(Arc::clone(&door), MemoryGauge::new(memory_bytes), Log::new(log, log_limit, log_used));
        let idle = self.idle().pop();
        let mut body = Box::new(match idle {
            Some(body) => body,
            None => match Body::new(&self.engine, &self.pre).await {
                Ok(body) => body,
                Err(error) => return Err(StartError::Guest(describe(&error))),
            },
        });
        if !body.occupy(host, &clock, &self.retired) {
            let image = self.base().len();
            return Err(StartError::Guest(format!(
                "its image alone takes {image} bytes of the {memory_bytes} allowed"
            )));
        }
        Ok((body, door, clock))
    }

    /// Keeps the body of a guest that has gone, unless there are enough, or it cannot be made as it was.
    pub(crate) fn take_back(&self, mut body: Box<Body>) {
        let is_full = |idle: &Vec<_>| idle.len() >= IDLE_BODIES as usize;
        if is_full(&self.idle()) {
            return body.spare();
        }
        if !body.reset(self.base()) {
            return;
        }
        let mut idle = self.idle();
        if !is_full(&idle) {
            idle.push(*body);
        }
    }

    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<Body>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image's memory as every guest finds it.
    pub(crate) fn base(&self) -> &[u8] {
        self.pristine.memory()
    }

    /// Gives the buffers of an earlier freeze, and the image's digest and memory.
    pub(crate) fn with_scratch<T>(&self, use_it: impl FnOnce(&mut Delta, Digest, &[u8]) -> T) -> T {
        let lock = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut delta = lock().pop().unwrap_or_default();
        let result = use_it(&mut delta, self.image.digest, self.base());
        lock().push(delta);
        result
    }
}

/// Runs a future that has nothing to wait for: making an instance of an image that has no start function.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => {
            unreachable!("an image has no start function, so nothing in this can wait")
        }
    }
}
