//! Interrupts: Ctrl-C and SIGTERM ask for a clean end (I-19b, R-114).

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the process is asked to end. A second Ctrl-C while the store is being closed ends it at once.
pub(crate) async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    let Ok(mut interrupt) = signal(SignalKind::interrupt()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        interrupt.recv().await;
        impatient();
    });
}

/// What is not written by now is found by recovery, as after a crash.
#[allow(clippy::disallowed_methods, reason = "the person asked twice")]
fn impatient() -> ! {
    std::process::exit(130)
}
