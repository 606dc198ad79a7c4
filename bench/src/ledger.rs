//! Approval cycles on the ledger alone: no HTTP, guest or broker.
//!
//! A cycle is four commands, each answered after its commit: admit and claim; park with one approval, a 300 B checkpoint
//! and its arguments; approve and claim; finish. Clients and ledger share this process, and its CPU counts them all.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context, Result};
use protocol::approval::Verdict;
use protocol::call::OutcomeStatus;
use protocol::command::{Admit, Decide, Progress};
use protocol::digest::Digest;
use protocol::rows::NewBody;
use store::conformance::World;
use store::{Ledger, StoreConfig};

use crate::{Figures, clock, median, say};

pub(crate) const FIGURES: &[&str] = &[
    "ledger_cpu_ms_per_cycle_at_128",
    "ledger_cycles_per_s_at_1",
    "ledger_cycles_per_s_at_128",
    "ledger_resume_ms_at_1",
];

/// How long each measurement lasts; the middle one of three counts.
const SPAN: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;

pub(crate) fn measure() -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let middle = |concurrency| -> Result<Round> {
        say(&format!("ledger: {ROUNDS} times {} s at concurrency {concurrency}", SPAN.as_secs()));
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| runtime.block_on(round(concurrency))).collect::<Result<_>>()?;
        let of = |part: fn(&Round) -> f64| median(rounds.iter().map(part).collect());
        Ok(Round { per_s: of(|r| r.per_s), cpu_ms: of(|r| r.cpu_ms), resume_ms: of(|r| r.resume_ms) })
    };
    let (one, many) = (middle(1)?, middle(128)?);
    Ok(Figures::from([
        ("ledger_cpu_ms_per_cycle_at_128", many.cpu_ms),
        ("ledger_cycles_per_s_at_1", one.per_s),
        ("ledger_cycles_per_s_at_128", many.per_s),
        ("ledger_resume_ms_at_1", one.resume_ms),
    ]))
}

struct Round {
    per_s: f64,
    /// CPU of the whole process, a cycle.
    cpu_ms: f64,
    /// The middle time from a verdict to the end of its run.
    resume_ms: f64,
}

async fn round(concurrency: usize) -> Result<Round> {
    let home = tempfile::tempdir()?;
    let ledger = Ledger::open(StoreConfig::new(home.path().join("ledger.db")))?;
    // The clock given to the world is not the store's: this store keeps the system's.
    let world = Arc::new(World::on(ledger, Arc::new(AtomicI64::new(0)), ()).await);
    let (start, before) = (clock(), cpu()?);
    let stop = start + SPAN;
    let clients = (0..concurrency).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let mut resumes = Vec::new();
            while clock() < stop {
                resumes.push(cycle(&world).await.as_secs_f64() * 1e3);
            }
            resumes
        })
    });
    let mut resumes = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        resumes.extend(client.await?);
    }
    let (passed, spent, cycles) = (start.elapsed().as_secs_f64(), cpu()? - before, resumes.len() as f64);
    Ok(Round { per_s: cycles / passed, cpu_ms: spent * 1e3 / cycles, resume_ms: median(resumes) })
}

/// One cycle; gives the time from the verdict to the end.
async fn cycle(world: &World) -> Duration {
    let input = NewBody::new(noise(1_024));
    let admit = Admit { taker: Some(world.taker()), input, ..world.admission() };
    let run = world.admit(admit).await.expect("admitted").0;
    let (mut progress, asked) = world.asks(&run);
    progress.log.clear();
    let act = world.park(&run, &progress, std::str::from_utf8(&noise(300)).expect("hex is text"));
    world.step(&run, progress, act).await.expect("parked");
    let resumed = clock();
    let decide = Decide { taker: Some(world.taker()), ..world.verdict(&asked, Verdict::Approve, "bo") };
    let run = world.decide(decide).await.expect("approved").run;
    let conclusions = vec![world.outcome(asked.call, OutcomeStatus::Denied, None)];
    let progress = Progress { conclusions, ..Progress::default() };
    world.step(&run, progress, world.finish("{\"ok\":true}")).await.expect("finished");
    resumed.elapsed()
}

/// Hexadecimal digits that no other text has, and that do not compress well: cut from one long text, so that making them
/// costs next to nothing.
fn noise(len: usize) -> Vec<u8> {
    static CUTS: AtomicUsize = AtomicUsize::new(0);
    static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let digests = (0..32_768).map(|n: u32| Digest::of(n.to_le_bytes()).hex());
        digests.collect::<String>().into_bytes()
    });
    let at = CUTS.fetch_add(7, Ordering::Relaxed) % (TEXT.len() - len);
    TEXT[at..at + len].to_vec()
}

/// CPU seconds of this process.
fn cpu() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after = text.rsplit(") ").next().context("the name ends in a bracket")?;
    let ticks = |at: usize| -> Result<f64> { Ok(after.split(' ').nth(at).context("too few figures")?.parse()?) };
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}
