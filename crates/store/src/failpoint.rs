//! Crash points: places where a test kills the process to see what a restart finds.
//!
//! `STASIS_CRASH_AT=name` kills at the first time the point is reached, `name:3` at the third. Release builds have no
//! crash points, unless they are built with the feature `failpoints`.

/// The points of this crate.
pub const NAMES: &[&str] = &[
    "before_begin",
    "after_decide",
    "after_save",
    "before_commit",
    "after_commit",
    "before_answer",
    "after_answer",
    "before_checkpoint",
    "after_checkpoint",
];

/// Dies here with SIGKILL if the environment says so; no destructor, flush or handler runs.
#[cfg(any(debug_assertions, feature = "failpoints"))]
pub fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static AT: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static HITS: AtomicU32 = AtomicU32::new(0);
    let at = AT.get_or_init(|| {
        let text = std::env::var("STASIS_CRASH_AT").ok()?;
        match text.rsplit_once(':') {
            Some((name, nth)) => Some((name.to_owned(), nth.parse().ok()?)),
            None => Some((text, 1)),
        }
    });
    let Some((wanted, nth)) = at else { return };
    if wanted == name && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal is on its way; nothing after this point may happen.
        loop {
            std::thread::park();
        }
    }
}

#[cfg(not(any(debug_assertions, feature = "failpoints")))]
#[inline(always)]
pub fn hit(_name: &str) {}
