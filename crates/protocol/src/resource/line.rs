//! Who waits for a change, and whose turn it is.

use super::Ticket;
use crate::id::RunId;
use std::cmp::Reverse;

/// What a ticket is for. An order to reset comes before everything that runs ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Aim {
    Warm { priority: u8 },
    Reset,
}

/// One who waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) ticket: Ticket,
    pub(super) resource: String,
    pub(super) aim: Aim,
    /// None: an operator.
    pub(super) run: Option<RunId>,
}

impl Request {
    /// Whether one execution serves both.
    pub(super) fn shares(&self, other: &Request) -> bool {
        self.resource == other.resource && self.aim == other.aim
    }
}

/// Requests in the order in which they came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line(Vec<Request>);

impl Line {
    pub(super) fn enter(&mut self, request: Request) {
        self.0.push(request);
    }

    /// Takes a run's request out; whether it was here.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let before = self.0.len();
        self.0.retain(|request| request.ticket != ticket || request.run.is_none());
        self.0.len() < before
    }

    /// The next execution: who is first, and all who share it. The higher priority goes first, then who came first.
    pub(super) fn next(&mut self) -> Option<Vec<Request>> {
        let first = self.0.iter().max_by_key(|request| (request.aim, Reverse(request.ticket)))?.clone();
        let (served, left) = std::mem::take(&mut self.0).into_iter().partition(|request| request.shares(&first));
        self.0 = left;
        Some(served)
    }

    /// How many executions come before that of `ticket`.
    pub(super) fn before(&self, ticket: Ticket) -> Option<usize> {
        let mut left = self.clone();
        let mut before = 0;
        while let Some(served) = left.next() {
            if served.iter().any(|request| request.ticket == ticket) {
                return Some(before);
            }
            before += 1;
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.iter()
    }
}
