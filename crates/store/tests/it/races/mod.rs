//! Everybody at once: approve, reject, expire, cancel, complete and two signals go at one run from a barrier, each from a
//! thread of its own. Whatever the order, no invariant breaks, and what each was answered is what the ledger holds.
//!
//! The default count is one for CI; `STASIS_RACES=100000` makes the long run.

mod truth;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::approval::Verdict;
use protocol::command::{Act, Command, Decided, Progress, Target};
use protocol::refusal::Refusal;
use protocol::run::{Run, Status};
use protocol::signal::Signal;
use stasis_store::TransactError;
use stasis_store::conformance::{Contested, START, World};
use tokio::runtime::{Builder, Runtime};

use crate::home::Home;

const RACES: usize = 3_000;
/// Races that are prepared together; they end by themselves one `STEP` after the other.
const BATCH: usize = 64;
const STEP: Duration = Duration::from_millis(100);

/// Who goes at the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Who {
    Approve,
    Reject,
    /// Lets the time come, and ends what is due.
    Expire,
    Cancel,
    /// The hop's end; if the run is stopping, its acknowledgement.
    Complete,
    SignalToWait,
    SignalToName,
}

const ALL: [Who; 7] =
    [Who::Approve, Who::Reject, Who::Expire, Who::Cancel, Who::Complete, Who::SignalToWait, Who::SignalToName];

/// What one was answered.
#[derive(Debug)]
enum Said {
    Decided(Box<Decided>),
    /// Whether the question and the limit ended by this.
    Expired {
        question: bool,
        limit: bool,
    },
    Cancelled {
        run: Box<Run>,
        changed: bool,
    },
    Done(Box<Run>),
    /// What refused the end, and the run as it was acknowledged to, if it was.
    NotDone(Box<Refusal>, Option<Box<Run>>),
    Sent(Box<Signal>),
    Refused(Box<Refusal>),
    /// It stayed out of this race.
    Out,
}

/// One race of a batch: which it is, and what is at stake.
struct Race {
    n: usize,
    parked: bool,
    at: Contested,
}

impl Race {
    async fn prepare(world: &World, n: usize) -> Race {
        let parked = n.is_multiple_of(2);
        Race { n, parked, at: world.contested(parked, STEP * (n % BATCH + 1) as u32).await }
    }

    /// Every mix of those who may end the whole run, so that none hides what the others do.
    fn has(&self, who: Who) -> bool {
        match who {
            Who::Cancel => (self.n / 2).is_multiple_of(3),
            Who::Complete => !(self.n / 6).is_multiple_of(3),
            Who::Expire => !(self.n / 18).is_multiple_of(4),
            Who::Approve | Who::Reject | Who::SignalToWait | Who::SignalToName => true,
        }
    }
}

fn refused(error: TransactError) -> Box<Refusal> {
    match error {
        TransactError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

async fn go(world: &World, home: &Home, race: &Race, who: Who) -> Said {
    let Contested { run, asked, signal, timer } = &race.at;
    let decide = async |verdict, by| match world.decide(world.verdict(asked, verdict, by)).await {
        Ok(decided) => Said::Decided(Box::new(decided)),
        Err(error) => Said::Refused(refused(error)),
    };
    let send = async |to, id| match world.send(to, id, &format!("{id:?}")).await {
        Ok((signal, _)) => Said::Sent(Box::new(signal)),
        Err(error) => Said::Refused(refused(error)),
    };
    match who {
        _ if !race.has(who) => Said::Out,
        Who::Approve => decide(Verdict::Approve, "ana").await,
        Who::Reject => decide(Verdict::Reject, "bo").await,
        Who::Expire => {
            home.clock.fetch_max((START + ends_after(race.n)).as_micros(), Ordering::SeqCst);
            let expire = async |wait| world.settle(Command::Expire { run: run.id, wait }).await.expect("answered").1;
            if race.n.is_multiple_of(4) {
                return Said::Expired { question: expire(asked.wait).await, limit: expire(*timer).await };
            }
            Said::Expired { limit: expire(*timer).await, question: expire(asked.wait).await }
        }
        Who::Cancel => {
            let (run, changed) = world.cancel(run.id).await.expect("answered");
            Said::Cancelled { run: Box::new(run), changed }
        }
        Who::Complete => complete(world, race).await,
        Who::SignalToWait => send(Target::Wait(*signal), "to the wait").await,
        Who::SignalToName => send(world.named(run.id, "paid"), "to the name").await,
    }
}

/// When everything of a race has ended by itself, after the start of its batch.
fn ends_after(n: usize) -> Duration {
    STEP * (n / BATCH * BATCH + n % BATCH + 1) as u32
}

/// In its hop at once; of a parked run by whoever claims what it came back for.
async fn complete(world: &World, race: &Race) -> Said {
    let run = match race.parked {
        true => match world.claim(race.at.run.id, 1, world.taker()).await {
            Ok(run) => run,
            Err(error) => return Said::NotDone(refused(error), None),
        },
        false => race.at.run.clone(),
    };
    match world.step(&run, Progress::default(), world.finish("\"done\"")).await {
        Ok(run) => Said::Done(Box::new(run)),
        Err(error) => {
            let acknowledged = world.step(&run, Progress::default(), Act::Acknowledge).await;
            Said::NotDone(refused(error), acknowledged.ok().map(Box::new))
        }
    }
}

/// One thread: it meets the others at each race, and goes a little earlier or later than they.
fn runner(world: &World, home: &Home, races: &[Race], barrier: &Barrier, who: Who) -> Vec<Said> {
    let runtime = Builder::new_current_thread().build().unwrap();
    let place = |race: &Race| {
        barrier.wait();
        let salt = (race.n as u64 * 7 + who as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..salt >> 52).for_each(|_| std::hint::spin_loop());
        runtime.block_on(go(world, home, race, who))
    };
    races.iter().map(place).collect()
}

fn batch(runtime: &Runtime, world: &World, home: &Home, from: usize, tally: &mut BTreeMap<String, usize>) {
    let start = (START + STEP * from as u32).as_micros();
    home.clock.fetch_max(start, Ordering::SeqCst);
    let races: Vec<Race> = runtime.block_on(async {
        futures_util::future::join_all((from..from + BATCH).map(|n| Race::prepare(world, n))).await
    });
    let barrier = Barrier::new(ALL.len());
    let said: Vec<Vec<Said>> = std::thread::scope(|scope| {
        let runners = ALL.map(|who| {
            scope.spawn({
                let (races, barrier) = (&races, &barrier);
                move || runner(world, home, races, barrier, who)
            })
        });
        runners.into_iter().map(|runner| runner.join().unwrap()).collect()
    });
    for (n, race) in races.iter().enumerate() {
        let said: BTreeMap<Who, &Said> = ALL.iter().zip(&said).map(|(who, said)| (*who, &said[n])).collect();
        let outcome = runtime.block_on(truth::check(world, race, &said));
        *tally.entry(outcome).or_default() += 1;
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "how the races went is part of what this shows")]
fn in_any_order_no_invariant_breaks_and_everybody_is_told_the_truth() {
    let races = std::env::var("STASIS_RACES").map_or(RACES, |text| text.parse().expect("STASIS_RACES is a number"));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let home = Home::new();
    let world = runtime.block_on(home.world());
    let mut tally = BTreeMap::new();
    for from in (0..races).step_by(BATCH) {
        batch(&runtime, &world, &home, from, &mut tally);
    }
    let made: usize = tally.values().sum();
    println!("{made} races:");
    tally.iter().for_each(|(outcome, count)| println!("  {count:>6}  {outcome}"));
    let check = runtime.block_on(world.ledger.check()).unwrap();
    assert_eq!(check.faults, Vec::<String>::new()); // R-25 R-29
    let ended = |status: Status| tally.keys().any(|outcome| outcome.ends_with(status.as_str()));
    assert!([Status::Done, Status::Cancelled, Status::Queued, Status::Running].into_iter().all(ended), "{tally:?}");
    for winner in ["approved", "rejected", "expired", "cancelled"] {
        assert!(tally.keys().any(|outcome| outcome.starts_with(winner)), "nobody's race was {winner}: {tally:?}");
    }
}
