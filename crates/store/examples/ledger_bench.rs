//! Approval cycles on the ledger alone: no HTTP, guest or broker.
//!
//! A cycle is four commands: admit and claim; park with one approval, a 300 B checkpoint and its arguments; approve and
//! claim; finish. `ledger_bench [CONCURRENCY] [SECONDS] [DIR]` prints one line of JSON.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::approval::Verdict;
use protocol::call::OutcomeStatus;
use protocol::command::{Admit, Decide, Progress};
use protocol::rows::NewBody;
use stasis_store::conformance::World;
use stasis_store::{Ledger, StoreConfig};

/// The allocator of the binary `stasis`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut args = std::env::args().skip(1);
    let concurrency: usize = args.next().map_or(128, |text| text.parse().expect("a number of clients"));
    let seconds: u64 = args.next().map_or(3, |text| text.parse().expect("a number of seconds"));
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let home = tempfile::tempdir_in(dir).expect("a directory for the store");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let line = runtime.block_on(measure(&home, concurrency, Duration::from_secs(seconds)));
    #[allow(clippy::print_stdout, reason = "the line is what the program is for")]
    {
        println!("{line}");
    }
}

async fn measure(home: &tempfile::TempDir, concurrency: usize, span: Duration) -> String {
    let ledger = Ledger::open(StoreConfig::new(home.path().join("ledger.db"))).expect("a store opens");
    // The clock given to the world is not the store's: this store keeps the system's.
    let world = Arc::new(World::on(ledger, Arc::new(AtomicI64::new(0)), ()).await);
    let stop = clock() + span;
    let cycles = Arc::new(AtomicU64::new(0));
    let resumes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (start, cpu, commits) = (clock(), cpu(), world.ledger.commits());
    let clients: Vec<_> = (0..concurrency)
        .map(|_| {
            let (world, cycles, resumes) = (Arc::clone(&world), Arc::clone(&cycles), Arc::clone(&resumes));
            tokio::spawn(async move {
                let mut own = Vec::new();
                while clock() < stop {
                    own.push(cycle(&world).await);
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
                resumes.lock().expect("no client panicked").extend(own);
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client finishes");
    }
    let (passed, spent) = (start.elapsed().as_secs_f64(), self::cpu() - cpu);
    let cycles = cycles.load(Ordering::Relaxed) as f64;
    let mut resumes = std::mem::take(&mut *resumes.lock().expect("no client panicked"));
    resumes.sort_unstable();
    let at = |part: f64| resumes[((resumes.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    let bytes = std::fs::metadata(home.path().join("ledger.db")).map_or(0, |file| file.len());
    format!(
        "{{\"concurrency\": {concurrency}, \"cycles_s\": {:.0}, \"cpu_ms_cycle\": {:.4}, \"commits_cycle\": {:.4}, \
         \"resume_ms_p50\": {:.3}, \"resume_ms_p99\": {:.3}, \"db_bytes_cycle\": {:.0}}}",
        cycles / passed,
        spent * 1e3 / cycles,
        (world.ledger.commits() - commits) as f64 / cycles,
        at(0.5),
        at(0.99),
        bytes as f64 / cycles,
    )
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

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn clock() -> Instant {
    Instant::now()
}

/// Hexadecimal digits that no other text has, and that do not compress well.
fn noise(len: usize) -> Vec<u8> {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let mut state = SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1;
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let digits: [u8; 16] = std::array::from_fn(|digit| b"0123456789abcdef"[(state >> (4 * digit)) as usize & 15]);
        bytes.extend_from_slice(&digits);
    }
    bytes.truncate(len);
    bytes
}

/// CPU seconds of this process.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux tells a process its own figures");
    let after = text.rsplit(") ").next().expect("the name ends in a bracket");
    let ticks = |at: usize| -> f64 { after.split(' ').nth(at).and_then(|t| t.parse().ok()).expect("a count of ticks") };
    (ticks(11) + ticks(12)) / 100.0
}
