//! Signals and timers: kept until a wait comes, taken once, and answered for as long as anybody asks.

use protocol::code::Code;
use protocol::command::{Act, Answer, AwaitSignal, Command, Due, Progress, SendSignal, Target, Timer};
use protocol::id::{CallId, RunId, WaitId};
use protocol::journal::{Entropy, Entry, Other};
use protocol::policy::Obligation;
use protocol::rows::NewBody;
use protocol::run::{Run, Status};
use protocol::signal::{Awaited, Signal, State};
use protocol::wait;
use std::sync::Arc;
use std::time::Duration;

use super::world::{Asked, World, canonical, obligation, refused};
use crate::error::TransactError;

/// A run of which several may end something.
#[derive(Debug)]
pub struct Contested {
    pub run: Run,
    pub asked: Asked,
    pub signal: WaitId,
    /// The limit of `signal`.
    pub timer: WaitId,
}

impl World {
    /// Sends a signal; the signal, and whether this very one was new.
    pub async fn send(&self, to: Target, id: &str, payload: &str) -> Result<(Signal, bool), TransactError> {
        let text = canonical(payload);
        let payload = NewBody::new(text.as_bytes());
        let send = SendSignal { by: self.by("ana"), to, id: id.to_owned(), payload, text, taker: None };
        match self.ledger.transact(Command::Send(Box::new(send))).await? {
            Answer::Sent { signal, changed, .. } => Ok((*signal, changed)),
            other => panic!("{other:?}"),
        }
    }

    pub fn named(&self, run: RunId, name: &str) -> Target {
        Target::Name { run, name: name.to_owned() }
    }

    /// A hop's progress that waits for a signal, with or without a shape.
    fn awaiting(&self, run: &Run, name: &str, schema: Option<&str>) -> (Progress, WaitId) {
        let (progress, call) = self.entering(run);
        let awaited = Arc::new(Awaited { name: name.to_owned(), schema: schema.map(canonical) });
        let wait = self.id();
        (Progress { signals: vec![AwaitSignal { wait, call, awaited }], ..progress }, wait)
    }

    /// A run that is parked on a timer.
    pub async fn asleep(&self, span: Duration) -> Run {
        let run = self.running().await;
        let (progress, call) = self.entering(&run);
        let timer = Timer { wait: self.id(), call, due: Due::In(span) };
        let progress = Progress { timers: vec![timer], ..progress };
        let act = self.park(&run, &progress, "checkpoint 1");
        self.step(&run, progress, act).await.expect("a park is accepted")
    }

    /// A run with a question and a wait for a signal, each of which ends by itself after `limit`; parked on them, or in its hop.
    pub async fn contested(&self, parked: bool, limit: Duration) -> Contested {
        let run = self.running().await;
        let (mut progress, asked) = self.asks(&run);
        progress.asks[0].obligation = Obligation { lease: limit, ..obligation() }.into();
        let run = self.step(&run, progress, Act::Record).await.expect("the question is published");
        let (mut progress, signal) = self.awaiting(&run, "paid", None);
        let timer = Timer { wait: self.id(), call: progress.signals[0].call, due: Due::In(limit) };
        let limit = timer.wait;
        progress.timers.push(timer);
        let act = if parked { self.park(&run, &progress, "checkpoint 1") } else { Act::Record };
        let run = self.step(&run, progress, act).await.expect("it waits");
        Contested { run, asked, signal, timer: limit }
    }

    /// A hop's progress that enters one more call, which no question is asked about.
    fn entering(&self, run: &Run) -> (Progress, CallId) {
        let arguments = NewBody::new(&b"{}"[..]);
        let call = self.call(run, run.budget.calls + 1, &arguments);
        let start = Entry::Other(Other::Start {
            pattern: run.pattern.digest,
            input: run.input.digest,
            now: self.ledger.now(),
            entropy: Entropy([3; 32]),
        });
        let id = call.id;
        let mut entries = vec![Entry::Call(Box::new(call))];
        if run.journal.len == 0 {
            entries.insert(0, start);
        }
        (Progress { base: run.journal.len, entries, bodies: vec![arguments], ..Progress::default() }, id)
    }
}

pub async fn a_signal_returns_the_run_that_waits_for_it(world: World) {
    let run = world.running().await;
    let (progress, wait) = world.awaiting(&run, "paid", None);
    let act = world.park(&run, &progress, "checkpoint 1");
    let run = world.step(&run, progress, act).await.unwrap();
    assert_eq!(run.status(), Status::AwaitingSignal); // R-183
    let (signal, new) = world.send(world.named(run.id, "paid"), "k", "{\"n\":1}").await.unwrap();
    assert!(new && signal.state == State::Taken(wait)); // R-235
    let shown = world.shown(run.id).await;
    assert_eq!((shown.run.status(), shown.run.seq), (Status::Queued, 1)); // R-235
    let wait::State::Ended { outcome } = shown.waits[0].state else { panic!("{:?}", shown.waits) };
    assert_eq!(world.ledger.body(run.id, outcome).await.unwrap().unwrap(), b"{\"n\":1}"); // R-235
    let again = world.send(world.named(run.id, "paid"), "k", "{\"n\":1}").await.unwrap();
    assert_eq!(again, (signal, false)); // R-233
    let other = world.send(world.named(run.id, "paid"), "k", "{\"n\":2}").await;
    assert_eq!(refused(other), Code::IdempotencyMismatch); // R-233
    assert_eq!(refused(world.send(Target::Wait(wait), "l", "1").await), Code::WaitConsumed); // R-236
    assert_eq!(refused(world.send(Target::Wait(world.id()), "l", "1").await), Code::NotFound); // R-240
    assert_eq!(refused(world.send(world.named(world.id(), "paid"), "l", "1").await), Code::NotFound); // R-240
    // A wait of a run that has ended is still known to be over.
    let run = world.claim(run.id, 1, world.taker()).await.unwrap();
    let (progress, second) = world.awaiting(&run, "paid", None);
    world.step(&run, progress, Act::Record).await.unwrap();
    world.cancel(run.id).await.unwrap();
    assert_eq!(refused(world.send(Target::Wait(second), "m", "1").await), Code::WaitClosed); // R-236
}

pub async fn signals_are_kept_until_a_wait_takes_them(world: World) {
    let run = world.running().await;
    for (id, payload) in [("a", "\"one\""), ("b", "2"), ("c", "3")] {
        let (signal, _) = world.send(world.named(run.id, "paid"), id, payload).await.unwrap();
        assert_eq!(signal.state, State::Kept); // R-234
    }
    let (progress, wait) = world.awaiting(&run, "paid", Some(r#"{"type":"number"}"#));
    let run = world.step(&run, progress, Act::Record).await.unwrap();
    let shown = world.shown(run.id).await;
    let taken = shown.waits.iter().find(|row| row.id == wait).unwrap();
    let wait::State::Ended { outcome } = taken.state else { panic!("{taken:?}") };
    assert_eq!(world.ledger.body(run.id, outcome).await.unwrap().unwrap(), b"2"); // R-238: the first did not fit
    let events = world.ledger.events(run.id, None, 100).await.unwrap().unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.ends_with(&["wait.opened", "signal.set_aside", "signal.taken"]), "{kinds:?}"); // R-238
    let (again, new) = world.send(world.named(run.id, "paid"), "a", "\"one\"").await.unwrap();
    assert_eq!((again.state, new), (State::SetAside, false)); // R-233
}
