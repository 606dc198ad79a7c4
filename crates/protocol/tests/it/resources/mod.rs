//! The manager of resources, seen from its host: questions and outcomes in, actions out.

mod random;
mod stories;

use protocol::id::RunId;
use protocol::resource::{
    Action, Capacity, Cost, Declared, Done, Given, LeaseId, Manager, Place, Refused, State, Ticket, Unleased,
};
use protocol::time::Time;
use std::collections::BTreeMap;

/// A host that does nothing by itself: what it is told to do waits until the test says how it went.
pub(crate) struct Host {
    pub(crate) manager: Manager,
    /// The start or stop that is under way.
    pub(crate) effect: Option<Action>,
    /// The last drain that is timed.
    pub(crate) drain: Option<u64>,
    pub(crate) answers: BTreeMap<Ticket, Result<Given, Refused>>,
    /// Everything that was started and stopped, in order.
    pub(crate) done: Vec<String>,
}

pub(crate) fn run(n: u64) -> RunId {
    RunId::mint(Time::from_millis(1), 0, n)
}

pub(crate) fn local(name: &str, memory_mib: u64) -> Declared {
    let cost = Cost { memory_mib, slots: 1 };
    Declared { name: name.to_owned(), place: Place::Local { cost } }
}

pub(crate) fn remote(name: &str, probed: bool) -> Declared {
    Declared { name: name.to_owned(), place: Place::Remote { probed } }
}

impl Host {
    pub(crate) fn new(memory_mib: u64, declared: Vec<Declared>) -> Host {
        Host::found(memory_mib, declared, &[])
    }

    pub(crate) fn found(memory_mib: u64, declared: Vec<Declared>, left: &[String]) -> Host {
        let capacity = Capacity { memory_mib: Some(memory_mib), slots: None };
        let (manager, actions) = Manager::new(capacity, declared, left);
        let mut host = Host { manager, effect: None, drain: None, answers: BTreeMap::new(), done: Vec::new() };
        host.take(actions);
        host
    }

    pub(crate) fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Answer { ticket, answer } => {
                    assert_eq!(self.answers.insert(ticket, answer), None, "answered once");
                }
                Action::AwaitDrain { change } => self.drain = Some(change),
                effect @ (Action::Start { .. } | Action::Stop { .. }) => {
                    self.done.push(match &effect {
                        Action::Start { resource } => format!("start {resource}"),
                        Action::Stop { resource } => format!("stop {resource}"),
                        _ => unreachable!("matched above"),
                    });
                    assert_eq!(self.effect.replace(effect), None, "one change at a time");
                }
            }
        }
    }

    pub(crate) fn converge(&mut self, name: &str, n: u64, priority: u8) -> Ticket {
        let (ticket, actions) = self.manager.converge(name, run(n), priority);
        self.take(actions);
        ticket
    }

    /// The effect under way has come to this.
    pub(crate) fn comes_to(&mut self, done: Done) {
        assert!(self.effect.take().is_some(), "something is under way");
        let actions = self.manager.finished(done);
        self.take(actions);
    }

    pub(crate) fn succeeds(&mut self) {
        self.comes_to(Done::Succeeded);
    }

    pub(crate) fn fails(&mut self, why: &str) {
        self.comes_to(Done::Failed(why.to_owned()));
    }

    pub(crate) fn release(&mut self, lease: LeaseId) {
        let actions = self.manager.release(lease);
        self.take(actions);
    }

    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let actions = self.manager.withdraw(ticket);
        self.take(actions);
    }

    pub(crate) fn drain_is_over(&mut self) {
        let actions = self.manager.drain_expired(self.drain.take().expect("a drain is timed"));
        self.take(actions);
    }

    pub(crate) fn dies(&mut self, name: &str) {
        let actions = self.manager.died(name, "it ended by itself".to_owned());
        self.take(actions);
    }

    /// Makes a resource warm, and gives the lease that came with the answer.
    pub(crate) fn warm(&mut self, name: &str, n: u64) -> LeaseId {
        let ticket = self.converge(name, n, 50);
        while self.effect.is_some() {
            self.succeeds();
        }
        self.leased(ticket)
    }

    pub(crate) fn leased(&self, ticket: Ticket) -> LeaseId {
        match &self.answers[&ticket] {
            Ok(Given::Lease(lease)) => *lease,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refused(&self, ticket: Ticket) -> Refused {
        self.answers[&ticket].clone().expect_err("refused")
    }

    pub(crate) fn state(&self, name: &str) -> State {
        self.manager.list().into_iter().find(|view| view.name == name).expect("declared").state
    }

    pub(crate) fn leases(&self, name: &str) -> usize {
        self.manager.list().into_iter().find(|view| view.name == name).expect("declared").leases.len()
    }

    pub(crate) fn lease(&mut self, name: &str) -> Result<LeaseId, Unleased> {
        self.manager.lease(name, run(9), None)
    }
}
