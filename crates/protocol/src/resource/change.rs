//! One change: close, drain, stop, start, open; and its reversal.
//!
//! Invariant: a change ends in all that it closed being open, cold, or contained.

use super::line::{Aim, Request};
use super::manager::Manager;
use super::{Action, Done, Refused, State, Ticket, fit};
use crate::id::RunId;

/// What is being done, and for whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    no: u64,
    target: String,
    aim: Aim,
    /// All who get the result; nobody, if all withdrew after something was stopped.
    served: Vec<Request>,
    /// What was closed to make room.
    closed: Vec<String>,
    stage: Stage,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    Draining,
    Stopping {
        resource: String,
    },
    Starting,
    /// What was stopped is started again, the last one first; then the error is told.
    Reversing {
        starting: String,
        left: Vec<String>,
        error: Refused,
    },
}

impl Change {
    pub(super) fn serves(&self, ticket: Ticket) -> bool {
        self.served.iter().any(|request| request.ticket == ticket)
    }

    pub(super) fn runs_waiting_for(&self, name: &str) -> impl Iterator<Item = RunId> {
        let served = self.served.iter().filter(move |_| self.target == name);
        served.filter_map(|request| request.run)
    }

    /// Whether this change will answer such a request: one that is being reversed has its answer already, and it is not that
    /// of whoever asks again.
    fn takes(&self, request: &Request) -> bool {
        let forward = !matches!(self.stage, Stage::Reversing { .. });
        forward && self.target == request.resource && self.aim == request.aim
    }
}

impl Manager {
    /// Shares the execution that is under way, or gives the request back.
    pub(super) fn join(&mut self, request: Request) -> Result<(), Request> {
        match &mut self.change {
            Some(change) if change.takes(&request) => {
                change.served.push(request);
                Ok(())
            }
            _ => Err(request),
        }
    }

    /// Begins the next change, if none is under way and one is due.
    pub(super) fn go_on(&mut self, actions: &mut Vec<Action>) {
        while self.change.is_none() {
            let Some(served) = self.line.next() else { return };
            self.begin(served, actions);
        }
    }

    fn begin(&mut self, served: Vec<Request>, actions: &mut Vec<Action>) {
        let (target, aim) = (served[0].resource.clone(), served[0].aim);
        let closed = match aim {
            Aim::Reset => vec![target.clone()],
            Aim::Warm { .. } => match self.room_for(&target) {
                Ok(Some(closed)) => closed,
                Ok(None) => return self.answer(served, None, actions),
                Err(refused) => return self.answer(served, Some(&refused), actions),
            },
        };
        let no = self.number();
        if let Aim::Warm { .. } = aim {
            closed.iter().for_each(|name| self.set(name, State::Draining));
        }
        self.change = Some(Change { no, target, aim, served, closed, stage: Stage::Draining });
        if self.is_drained() {
            self.advance(actions);
        } else {
            actions.push(Action::AwaitDrain { change: no });
        }
    }

    /// What has to go; `None`: the resource is warm already.
    fn room_for(&self, target: &str) -> Result<Option<Vec<String>>, Refused> {
        match &self.resources[target].state {
            State::Warm => return Ok(None),
            State::Contained { why, .. } => return Err(Refused::Contained(why.clone())),
            _ => {}
        }
        let room = fit::displaced(&self.resources, self.capacity, target);
        room.map(Some).ok_or_else(|| {
            let shut = self.resources.iter().filter(|(_, r)| matches!(r.state, State::Contained { may_run: true, .. }));
            let names: Vec<&str> = shut.map(|(name, _)| name.as_str()).collect();
            Refused::Failed(format!("no room can be made: {} may still run", names.join(", ")))
        })
    }

    fn is_drained(&self) -> bool {
        let Some(change) = &self.change else { return false };
        let holds = |name: &String| self.resources[name].state == State::Draining && self.has_leases(name);
        !change.closed.iter().any(holds)
    }

    fn has_leases(&self, name: &str) -> bool {
        !self.resources[name].leases.is_empty()
    }

    /// A lease went, or its resource: the drain may be over.
    pub(super) fn drained(&mut self, actions: &mut Vec<Action>) {
        if self.change.as_ref().is_some_and(|change| change.stage == Stage::Draining) && self.is_drained() {
            self.advance(actions);
        }
    }

    /// Stops the next of what has to go; then starts the target, or is done where nothing is to be started.
    fn advance(&mut self, actions: &mut Vec<Action>) {
        let change = self.change.as_ref().expect("a change is under way");
        let going =
            change.closed.iter().find(|name| matches!(self.resources[*name].state, State::Draining | State::Unsettled));
        let (stage, name, state, action) = match going.cloned() {
            Some(name) => (
                Stage::Stopping { resource: name.clone() },
                name.clone(),
                State::Stopping,
                Action::Stop { resource: name },
            ),
            None if change.aim == Aim::Reset => return self.end(None, actions),
            None => {
                let target = change.target.clone();
                (Stage::Starting, target.clone(), State::Starting, Action::Start { resource: target })
            }
        };
        self.set(&name, state);
        self.change.as_mut().expect("looked at above").stage = stage;
        actions.push(action);
    }

    /// What came of the start or stop that was asked for.
    pub fn finished(&mut self, done: Done) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(stage) = self.change.as_ref().map(|change| change.stage.clone()) else { return actions };
        match stage {
            Stage::Draining => {}
            Stage::Stopping { resource } => self.stopped(&resource, done, &mut actions),
            Stage::Starting => self.started(done, &mut actions),
            Stage::Reversing { starting, left, error } => {
                let lost = |why| format!("it was stopped to make room and did not come back: {why}");
                match done {
                    Done::Succeeded => self.set(&starting, State::Warm),
                    Done::Failed(why) => self.contain(&starting, lost(why), false),
                    Done::Unknown(why) => self.contain(&starting, lost(why), true),
                }
                self.reverse(left, error, &mut actions);
            }
        }
        actions
    }

    fn stopped(&mut self, name: &str, done: Done, actions: &mut Vec<Action>) {
        let reset = self.change.as_ref().is_some_and(|change| change.aim == Aim::Reset);
        let why = match done {
            Done::Succeeded => {
                self.set(name, State::Cold);
                return self.advance(actions);
            }
            Done::Failed(why) | Done::Unknown(why) if reset => {
                self.contain(name, why.clone(), true);
                return self.end(Some(Refused::Contained(why)), actions);
            }
            // It runs as before, and opens again with the others.
            Done::Failed(why) => {
                self.note(name, &why);
                self.set(name, State::Draining);
                why
            }
            Done::Unknown(why) => {
                self.contain(name, why.clone(), true);
                why
            }
        };
        self.turn_back(Refused::Failed(format!("'{name}' could not be stopped to make room: {why}")), actions);
    }

    fn started(&mut self, done: Done, actions: &mut Vec<Action>) {
        let target = self.change.as_ref().expect("a change is under way").target.clone();
        match done {
            Done::Succeeded => {
                self.set(&target, State::Warm);
                self.end(None, actions);
            }
            Done::Failed(why) => {
                self.note(&target, &why);
                self.set(&target, State::Cold);
                self.turn_back(Refused::Failed(why), actions);
            }
            Done::Unknown(why) => {
                self.contain(&target, why.clone(), true);
                self.turn_back(Refused::Contained(why), actions);
            }
        }
    }

    /// what was stopped for a change that failed is started again, once.
    fn turn_back(&mut self, error: Refused, actions: &mut Vec<Action>) {
        let closed = self.change.as_ref().expect("a change is under way").closed.clone();
        let left = closed.into_iter().filter(|name| self.resources[name].state == State::Cold).collect();
        self.reverse(left, error, actions);
    }

    fn reverse(&mut self, mut left: Vec<String>, error: Refused, actions: &mut Vec<Action>) {
        while let Some(name) = left.pop() {
            if fit::has_room(&self.resources, self.capacity, &name, &[]) {
                self.set(&name, State::Starting);
                actions.push(Action::Start { resource: name.clone() });
                let change = self.change.as_mut().expect("a change is under way");
                change.stage = Stage::Reversing { starting: name, left, error };
                return;
            }
            let why = "it was stopped to make room, and what took the room may still run".to_owned();
            self.contain(&name, why, false);
        }
        self.end(Some(error), actions);
    }

    /// Opens what is still closed, tells the result, and goes on with the line.
    fn end(&mut self, error: Option<Refused>, actions: &mut Vec<Action>) {
        let Some(change) = self.change.take() else { return };
        for name in &change.closed {
            if self.resources[name].state == State::Draining {
                self.set(name, State::Warm);
            }
        }
        self.answer(change.served, error.as_ref(), actions);
        self.go_on(actions);
    }

    fn answer(&mut self, served: Vec<Request>, error: Option<&Refused>, actions: &mut Vec<Action>) {
        for request in served {
            let answer = match error {
                Some(error) => Err(error.clone()),
                None => Ok(self.granted(&request)),
            };
            actions.push(Action::Answer { ticket: request.ticket, answer });
        }
    }

    /// The time of a drain is over. A drain that has ended since does not mind.
    pub fn drain_expired(&mut self, change: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(under_way) = &self.change else { return actions };
        if under_way.no == change && under_way.stage == Stage::Draining {
            let holders = under_way.closed.iter().filter(|name| self.has_leases(name)).map(|name| {
                let runs: Vec<String> = self.resources[name].leases.values().map(ToString::to_string).collect();
                format!("'{name}' is used by {}", runs.join(", "))
            });
            let told = holders.collect::<Vec<_>>().join("; ");
            self.end(Some(Refused::Failed(format!("what has to go did not become free: {told}"))), &mut actions);
        }
        actions
    }

    /// A drain that nobody waits for ends; what was stopped or started already comes to its end.
    pub(super) fn leave_change(&mut self, ticket: Ticket, actions: &mut Vec<Action>) {
        let Some(change) = &mut self.change else { return };
        let before = change.served.len();
        change.served.retain(|request| request.ticket != ticket || request.run.is_none());
        if before > 0 && change.served.is_empty() && change.stage == Stage::Draining {
            self.end(None, actions);
        }
    }

    fn contain(&mut self, name: &str, why: String, may_run: bool) {
        self.note(name, &why);
        self.set(name, State::Contained { why, may_run });
    }

    fn note(&mut self, name: &str, why: &str) {
        self.resources.get_mut(name).expect("declared").last_error = Some(why.to_owned());
    }

    fn set(&mut self, name: &str, state: State) {
        self.resources.get_mut(name).expect("declared").state = state;
    }
}
