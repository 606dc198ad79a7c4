//! The manager of one host: leases, and the line of those who wait for a change.

use super::change::Change;
use super::line::{Aim, Line, Request};
use super::{Action, Capacity, Declared, Given, LeaseId, Place, Refused, State, Ticket, Unleased, View, fit};
use crate::id::RunId;
use std::collections::BTreeMap;

/// A resource and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Resource {
    pub(super) declared: Declared,
    pub(super) state: State,
    pub(super) leases: BTreeMap<LeaseId, RunId>,
    /// When it was leased last, in leases of all resources.
    pub(super) used: u64,
    pub(super) last_error: Option<String>,
}

/// See the module [`super`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manager {
    pub(super) capacity: Capacity,
    pub(super) resources: BTreeMap<String, Resource>,
    pub(super) line: Line,
    pub(super) change: Option<Change>,
    next: u64,
}

impl Manager {
    /// A manager that has started nothing yet. What an earlier one may have left running is stopped before anything else.
    pub fn new(capacity: Capacity, declared: Vec<Declared>, left: &[String]) -> (Manager, Vec<Action>) {
        let resources = declared.into_iter().map(|declared| {
            let state = match declared.place {
                Place::Remote { .. } => State::Remote,
                Place::Local { .. } if left.contains(&declared.name) => State::Unsettled,
                Place::Local { .. } => State::Cold,
            };
            let name = declared.name.clone();
            (name, Resource { declared, state, leases: BTreeMap::new(), used: 0, last_error: None })
        });
        let mut manager =
            Manager { capacity, resources: resources.collect(), line: Line::default(), change: None, next: 0 };
        let unsettled = manager.resources.iter().filter(|(_, resource)| resource.state == State::Unsettled);
        for name in unsettled.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            manager.enter(name, Aim::Reset, None);
        }
        let mut actions = Vec::new();
        manager.go_on(&mut actions);
        (manager, actions)
    }

    /// A lease for one call of a run, if the resource is warm and open. `seen` is what a probe of a remote one said just now.
    pub fn lease(&mut self, name: &str, run: RunId, seen: Option<Result<(), String>>) -> Result<LeaseId, Unleased> {
        let failed = |cause: String| Err(Unleased::Refused(Refused::Failed(cause)));
        let Some(resource) = self.resources.get(name) else { return failed("it is not declared".to_owned()) };
        match (&resource.state, resource.declared.place) {
            (State::Remote, Place::Remote { probed: true }) => match seen {
                None => return Err(Unleased::Unprobed),
                Some(Err(cause)) => return failed(cause),
                Some(Ok(())) => {}
            },
            (State::Remote | State::Warm, _) => {}
            (State::Contained { why, .. }, _) => return Err(Unleased::Refused(Refused::Contained(why.clone()))),
            _ => match self.capacity.lacks(fit::cost(resource)) {
                Some(lack) => return failed(lack),
                None => return Err(Unleased::Cold),
            },
        }
        Ok(self.give(name, run))
    }

    /// Gives a lease on what is warm and open.
    pub(super) fn give(&mut self, name: &str, run: RunId) -> LeaseId {
        let (id, used) = (LeaseId(self.number()), self.next);
        let resource = self.resources.get_mut(name).expect("only what is declared is leased");
        assert!(matches!(resource.state, State::Warm | State::Remote), "{name} is {}", resource.state.as_str());
        resource.leases.insert(id, run);
        resource.used = used;
        id
    }

    /// Gives a lease back; once is as good as often.
    pub fn release(&mut self, lease: LeaseId) -> Vec<Action> {
        let mut actions = Vec::new();
        let gone = self.resources.values_mut().filter_map(|resource| resource.leases.remove(&lease)).count();
        if gone > 0 {
            self.drained(&mut actions);
        }
        actions
    }

    /// Asks for a resource to be warm, at the priority of the run. The answer comes as an action, perhaps at once.
    pub fn converge(&mut self, name: &str, run: RunId, priority: u8) -> (Ticket, Vec<Action>) {
        let mut actions = Vec::new();
        let refused = match self.resources.get(name) {
            None => Some(Refused::Failed("it is not declared".to_owned())),
            Some(Resource { state: State::Remote, .. }) => {
                Some(Refused::Failed("it is not of this host, and nobody here can start it".to_owned()))
            }
            Some(resource) => self.capacity.lacks(fit::cost(resource)).map(Refused::Failed),
        };
        if let Some(refused) = refused {
            let ticket = Ticket(self.number());
            actions.push(Action::Answer { ticket, answer: Err(refused) });
            return (ticket, actions);
        }
        let ticket = self.enter(name.to_owned(), Aim::Warm { priority }, Some(run));
        self.answer_what_is_known(ticket, &mut actions);
        self.go_on(&mut actions);
        (ticket, actions)
    }

    /// What needs no change is answered beside whatever change is being made.
    fn answer_what_is_known(&mut self, ticket: Ticket, actions: &mut Vec<Action>) {
        let Some(request) = self.line.iter().find(|request| request.ticket == ticket).cloned() else { return };
        let answer = match &self.resources[&request.resource].state {
            State::Warm => Ok(self.granted(&request)),
            State::Contained { why, .. } => Err(Refused::Contained(why.clone())),
            _ => return,
        };
        self.line.leave(ticket);
        actions.push(Action::Answer { ticket, answer });
    }

    pub(super) fn granted(&mut self, request: &Request) -> Given {
        match request.run {
            Some(run) => Given::Lease(self.give(&request.resource, run)),
            None => Given::Reset,
        }
    }

    /// Orders that a contained resource is brought to a known state. `None`: it is not contained.
    pub fn reset(&mut self, name: &str) -> Option<(Ticket, Vec<Action>)> {
        let resource = self.resources.get_mut(name)?;
        let State::Contained { may_run, .. } = resource.state else { return None };
        if !may_run {
            resource.state = State::Cold;
            let ticket = Ticket(self.number());
            return Some((ticket, vec![Action::Answer { ticket, answer: Ok(Given::Reset) }]));
        }
        resource.state = State::Unsettled;
        let ticket = self.enter(name.to_owned(), Aim::Reset, None);
        let mut actions = Vec::new();
        self.go_on(&mut actions);
        Some((ticket, actions))
    }

    /// A run does not wait any more: others who wait are not touched by it. An order to reset stands, whoever
    /// still listens for what comes of it.
    pub fn withdraw(&mut self, ticket: Ticket) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.line.leave(ticket) {
            self.leave_change(ticket, &mut actions);
        }
        actions
    }

    /// A warm resource ended by itself.
    pub fn died(&mut self, name: &str, why: String) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(resource) = self.resources.get_mut(name)
            && matches!(resource.state, State::Warm | State::Draining)
        {
            resource.state = State::Cold;
            resource.last_error = Some(why);
            self.drained(&mut actions);
        }
        actions
    }

    fn enter(&mut self, resource: String, aim: Aim, run: Option<RunId>) -> Ticket {
        let ticket = Ticket(self.number());
        let request = Request { ticket, resource, aim, run };
        if let Err(request) = self.join(request) {
            self.line.enter(request);
        }
        ticket
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// How many executions a ticket waits for before its own begins; `None` for one that was answered or withdrawn.
    pub fn place(&self, ticket: Ticket) -> Option<usize> {
        match &self.change {
            Some(change) if change.serves(ticket) => Some(0),
            Some(_) => self.line.before(ticket).map(|before| before + 1),
            None => self.line.before(ticket),
        }
    }

    /// Every resource, by name.
    pub fn list(&self) -> Vec<View> {
        let waiting = |name: &str| {
            let served = self.change.iter().flat_map(|change| change.runs_waiting_for(name));
            let in_line = self.line.iter().filter(|request| request.resource == *name);
            served.chain(in_line.filter_map(|request| request.run)).collect()
        };
        let view = |(name, resource): (&String, &Resource)| View {
            name: name.clone(),
            place: resource.declared.place,
            state: resource.state.clone(),
            leases: resource.leases.values().copied().collect(),
            waiting: waiting(name),
            last_error: resource.last_error.clone(),
        };
        self.resources.iter().map(view).collect()
    }
}
