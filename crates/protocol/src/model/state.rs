//! One state of a small world: the ledger's rows, what each worker believes, and what really happened outside.
//!
//! Invariant: rows change by the real decisions alone, and are saved as a store saves them. What a worker believes may be
//! old; what happened outside is known to nobody who decides.

use super::home::{self, Home, Policy};
use super::world::World;
use crate::approval::Approval;
use crate::call::{Call, RecoveryClass};
use crate::command::{Answer, Command, Subject};
use crate::decide::{Cx, Decision, Loaded, decide};
use crate::event::Kind;
use crate::id::{ApprovalId, Ids};
use crate::refusal::Refusal;
use crate::rows::{Change, Keyed, Rows, Set};
use crate::run::{Run, Status};
use crate::signal::Signal;
use crate::time::Time;

/// Most workers, and most calls, of a small world.
pub(super) const WORKERS: usize = 2;
pub(super) const CALLS: usize = 3;

#[derive(Clone)]
pub(super) struct State {
    pub(super) now: Time,
    pub(super) ids: Ids,
    pub(super) policy: Policy,
    pub(super) rows: Rows,
    /// Every call, approval and signal there ever was, in the order in which they were made.
    pub(super) calls: Vec<Call>,
    pub(super) approvals: Vec<Approval>,
    pub(super) signals: Vec<Signal>,
    pub(super) workers: [Worker; WORKERS],
    /// By the place of the call.
    pub(super) outside: [Outside; CALLS],
    pub(super) manager: Manager,
    pub(super) terminal_events: u8,
}

/// Calls that the manager of resources got.
#[derive(Clone, Copy, Default)]
pub(super) struct Manager {
    pub(super) total: u8,
    /// The last resource, and how many calls in a row were for it.
    pub(super) resource: u8,
    pub(super) in_row: u8,
}

/// What a worker remembers. One that has crashed remembers nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Worker {
    /// The token of the last claim that it was given, whether or not it still counts.
    pub(super) token: Option<u64>,
    /// Calls whose handlers it started under that token.
    pub(super) started: [bool; CALLS],
}

/// What became of a call in the world.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Outside {
    /// Handlers that run now.
    pub(super) running: u8,
    pub(super) started: u8,
    /// How often the effect happened.
    pub(super) landed: u8,
}

/// What a command did.
pub(super) struct Given {
    pub(super) answer: Result<Answer, Refusal>,
    /// Statuses entered, in order.
    pub(super) entered: Vec<Status>,
    /// Whether anything was saved.
    pub(super) saved: bool,
}

impl State {
    /// A run that has been admitted.
    pub(super) fn start(home: &Home, world: &World) -> State {
        let mut ids = home::ids();
        let (admit, now) = home::admission(world, &mut ids);
        let policy = world.policies[0];
        let loaded = Loaded::New { known: None, session: None, queued: 0, removed: None };
        let cx = &mut Cx { now, ids: &mut ids, registry: home.registry(policy), limits: &home.limits };
        let decision = decide(Command::Admit(Box::new(admit)), loaded, cx);
        let rows = *decision.change.expect("a new run is admitted").rows;
        State {
            now,
            ids,
            policy,
            rows,
            calls: Vec::new(),
            approvals: Vec::new(),
            signals: Vec::new(),
            workers: [Worker::default(); WORKERS],
            outside: [Outside::default(); CALLS],
            manager: Manager::default(),
            terminal_events: 0,
        }
    }

    pub(super) fn run(&self) -> &Run {
        &self.rows.run
    }

    pub(super) fn status(&self) -> Status {
        self.run().status()
    }

    /// The approval, wherever its row stands.
    pub(super) fn approval(&self, id: ApprovalId) -> Option<&Approval> {
        self.approvals.iter().find(|approval| approval.id == id)
    }

    /// The question whether the call may be made, and the one what became of it.
    pub(super) fn question(&self, call: usize) -> Option<&Approval> {
        self.calls.get(call)?.approval.and_then(|id| self.approval(id))
    }

    pub(super) fn settling(&self, call: usize) -> Option<&Approval> {
        self.calls.get(call)?.settle.and_then(|id| self.approval(id))
    }

    /// Gives a command to its decision, and saves what comes back.
    pub(super) fn give(&mut self, home: &Home, command: Command) -> Given {
        let loaded = self.load(&command);
        let registry = home.registry(self.policy);
        let cx = &mut Cx { now: self.now, ids: &mut self.ids, registry, limits: &home.limits };
        let Decision { change, answer } = decide(command, loaded, cx);
        let saved = change.is_some();
        let entered = change.map_or_else(Vec::new, |change| self.save(*change));
        Given { answer, entered, saved }
    }

    /// The live rows, and those that the command names.
    fn load(&self, command: &Command) -> Loaded {
        let mut rows = self.rows.clone();
        if let Subject::Approval(id) = command.subject() {
            let Some(approval) = self.approval(id) else { return Loaded::Missing };
            rows.approvals = with(rows.approvals, approval);
            let call = self.calls.iter().find(|call| call.id == approval.call);
            rows.calls = with(rows.calls, call.expect("an approval is about a call"));
        }
        if let Subject::Signal(_, id) = command.subject()
            && let Some(signal) = self.signals.iter().find(|signal| signal.id == id)
        {
            rows.signals = with(rows.signals, signal);
        }
        Loaded::Rows(Box::new(rows))
    }

    fn save(&mut self, change: Change) -> Vec<Status> {
        let Change { mut rows, events, .. } = change;
        for (call, _) in rows.calls.dirty() {
            put(&mut self.calls, call);
        }
        for (approval, _) in rows.approvals.dirty() {
            put(&mut self.approvals, approval);
        }
        for (signal, _) in rows.signals.dirty() {
            put(&mut self.signals, signal);
        }
        let ended = |id| self.calls.iter().any(|call: &Call| call.id == id && call.is_ended());
        rows.waits.settle(|_| true);
        rows.obligations.settle(|_| true);
        rows.signals.settle(Signal::is_kept);
        rows.calls.settle(|call| !call.is_ended());
        rows.approvals.settle(|a| a.is_pending() || a.is_open_yes() || !ended(a.call));
        self.rows = *rows;
        let of_run = |kind| if let Kind::Run(status) = kind { Some(status) } else { None };
        let entered: Vec<Status> = events.iter().filter_map(|event| of_run(event.kind)).collect();
        self.terminal_events += events.iter().filter(|event| event.kind.is_terminal()).count() as u8;
        entered
    }
}

impl Manager {
    pub(super) fn call(&mut self, resource: u8) {
        let same = self.total > 0 && self.resource == resource;
        *self = Manager { total: self.total + 1, resource, in_row: if same { self.in_row + 1 } else { 1 } };
    }
}

impl Outside {
    pub(super) fn start(&mut self) {
        self.running += 1;
        self.started += 1;
    }

    /// The handler did what it was asked. Who declares a key does it once, however often it is asked.
    pub(super) fn land(&mut self, class: RecoveryClass) {
        self.running -= 1;
        self.landed = if class == RecoveryClass::Idempotent { 1 } else { self.landed + 1 };
    }
}

fn put<T: Keyed + Clone>(rows: &mut Vec<T>, row: &T) {
    match rows.iter_mut().find(|known| known.key() == row.key()) {
        Some(known) => *known = row.clone(),
        None => rows.push(row.clone()),
    }
}

fn with<T: Keyed + Clone>(set: Set<T>, row: &T) -> Set<T> {
    if set.get(row.key()).is_some() {
        return set;
    }
    Set::load(set.iter().cloned().chain(std::iter::once(row.clone())))
}
