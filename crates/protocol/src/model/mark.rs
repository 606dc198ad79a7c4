//! What tells one state from another: all that a decision, a worker or a promise could ever see of it.
//!
//! Invariant: every row is taken apart field by field, so that a new field is a compile error here: whoever adds it says
//! whether a decision reads it. Left out are ids, digests and chains (how a state was reached), texts, times that are
//! only told, and whatever nothing reads any more. Times that something waits for count from now.

use super::home::arguments;
use super::state::{CALLS, Manager, Outside, State, Worker};
use crate::approval::{self, Approval};
use crate::call::{self, Call};
use crate::delivery::Delivery;
use crate::digest::Digest;
use crate::obligation::{self, Obligation, Subject};
use crate::rows::Rows;
use crate::run::{Budget, End, Phase, Run, Stop, WaitMode};
use crate::signal::{self, Signal};
use crate::time::Time;
use crate::wait::{self, Owner, Wait};

struct Marks<'a> {
    state: &'a State,
    out: Vec<u8>,
}

/// The state as bytes; equal states have equal ones, and no others have.
pub(super) fn mark(state: &State) -> Vec<u8> {
    let mut marks = Marks { state, out: Vec::with_capacity(128) };
    let State { now: _, ids: _, policy, rows, calls, approvals, signals, workers, outside, .. } = state;
    let State { manager, terminal_events, .. } = state;
    // Loaded rows are among all of their table; payloads are all alike here, and no world hands jobs over.
    let Rows { run, waits, approvals: _, calls: _, obligations, jobs: _, signals: _, payloads: _ } = rows;
    marks.byte(*policy as u8);
    marks.run(run);
    marks.many(calls, Marks::call);
    marks.many(approvals, Marks::approval);
    marks.many(waits.iter(), Marks::wait);
    marks.many(obligations.iter(), Marks::obligation);
    marks.many(signals, Marks::signal);
    marks.many(workers, Marks::worker);
    marks.many(&outside[..CALLS.min(calls.len())], Marks::outside);
    let Manager { total, resource, in_row } = manager;
    marks.out.extend([*total, *resource, *in_row, *terminal_events]);
    marks.out
}

impl Marks<'_> {
    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    fn many<'b, T: 'b>(&mut self, rows: impl IntoIterator<Item = &'b T>, mark: impl Fn(&mut Self, &T)) {
        let at = self.out.len();
        self.byte(0);
        for row in rows {
            mark(self, row);
            self.out[at] += 1;
        }
    }

    /// What is left until a time, in seconds.
    fn until(&mut self, time: Option<Time>) {
        let left = time.map_or(u16::MAX, |time| time.since(self.state.now).as_secs() as u16);
        self.out.extend_from_slice(&left.to_be_bytes());
    }

    /// Of two kinds of arguments, which.
    fn arguments(&mut self, digest: Digest) {
        self.flag(digest == Digest::of(arguments(true).as_bytes()));
    }

    fn call_at(&mut self, id: crate::id::CallId) {
        let at = self.state.calls.iter().position(|call| call.id == id);
        self.byte(at.expect("every call is kept") as u8);
    }

    fn run(&mut self, run: &Run) {
        let Run {
            id: _,
            namespace: _,
            pattern: _,
            kind: _,
            plan: _,
            phase,
            // A hop is told from the present one by being another, a token by not being that of the claim.
            seq: _,
            fence: _,
            checkpoint,
            journal,
            queue: _,
            priority: _,
            requester: _,
            session: _,
            input: _,
            budget: Budget { calls, active_us: _, body_bytes: _, hardware },
            events: _,
            receipts: _,
            log_lines: _,
            clocks: _,
            since: _,
            deadline,
            labels: _,
            retry_of: _,
            forked_from: _,
            moved_from: _,
            pause,
            created_at: _,
            started_at: _,
            signals,
            continuations,
            settings: _,
        } = run;
        self.phase(phase);
        self.flag(checkpoint.is_some());
        self.byte(journal.len as u8);
        self.byte(*calls as u8);
        self.until(*deadline);
        self.flag(pause.is_some());
        self.byte(*continuations);
        self.byte(*signals as u8);
        self.byte(hardware.total as u8);
        for resource in ["0", "1"] {
            self.byte(hardware.in_row(resource) as u8);
        }
    }

    fn phase(&mut self, phase: &Phase) {
        self.byte(phase.status() as u8);
        match phase {
            Phase::Queued { delivery } => {
                let Delivery { state, mode, cause: _, ready_at: _, retry_at: _, attempts: _, last_error: _ } = delivery;
                self.byte(*state as u8);
                self.byte(*mode as u8);
            }
            Phase::Active { hardware: _, claim } => self.claim(claim),
            Phase::Parked { on: _, mode } => self.byte(match mode {
                WaitMode::Any => 0,
                WaitMode::All => 1,
                WaitMode::First => 2,
            }),
            Phase::Stopping { end: Stop::Cancel { .. } | Stop::Fail(_), hop } => match hop {
                Some(claim) => self.claim(claim),
                None => self.byte(u8::MAX),
            },
            Phase::Final { end: End::Done { .. } | End::Failed(_) | End::Cancelled { .. }, at: _ } => {}
        }
    }

    fn claim(&mut self, claim: &crate::run::Claim) {
        let crate::run::Claim { worker, token: _, deadline, renewed_at: _ } = claim;
        let number = (0..=u8::MAX).find(|n| super::home::worker(*n) == *worker);
        self.byte(number.expect("workers go by number"));
        self.until(Some(*deadline));
    }

    fn call(&mut self, call: &Call) {
        let Call {
            id: _,
            run: _,
            position: _,
            identity: _,
            tool: _,
            effect: _,
            recovery: _,
            timeout_ms: _,
            asked: _,
            arguments,
            edited: _,
            approval,
            settle,
            state,
            rounds,
            receipt,
            at: _,
            from: _,
        } = call;
        self.arguments(arguments.digest);
        self.flag(approval.is_some());
        self.flag(settle.is_some());
        self.byte(*rounds);
        self.flag(receipt.is_some());
        match state {
            call::State::Entered => self.byte(0),
            call::State::Asked => self.byte(1),
            call::State::Dispatched(gate) => {
                self.out.extend([2, gate.attempt]);
                self.until(super::act::over_time(call));
            }
            call::State::Ambiguous(gate) => self.out.extend([3, gate.attempt]),
            call::State::Ended(outcome) => {
                self.out.extend([4, outcome.status as u8, outcome.applied as u8]);
                self.flag(outcome.gate.is_some());
            }
        }
    }

    fn approval(&mut self, approval: &Approval) {
        let Approval {
            id: _,
            run: _,
            wait: _,
            call,
            binding,
            binding_digest: _,
            arguments,
            asked_arguments: _,
            obligation: _,
            claim: _,
            form: _,
            expires_at,
            unrenderable: _,
            status,
            votes,
            answer,
        } = approval;
        self.call_at(*call);
        self.byte(binding.kind as u8);
        self.byte(binding.revision as u8);
        self.arguments(arguments.digest);
        self.flag(answer.is_some());
        self.until(expires_at.filter(|_| approval.is_pending()));
        match status {
            approval::Status::Pending => self.byte(0),
            approval::Status::Approved { at: _, valid_until, phase } => {
                let phase = match phase {
                    approval::Phase::Open => 1,
                    approval::Phase::Gated { .. } => 2,
                    approval::Phase::Ended { .. } => 3,
                };
                self.byte(phase);
                self.until(valid_until.filter(|_| phase == 1));
            }
            approval::Status::Rejected { .. } => self.byte(4),
            approval::Status::Expired { .. } => self.byte(5),
            approval::Status::Cancelled { .. } => self.byte(6),
        }
        // The latest word of each person on each revision is what counts, and what a repeat is compared with.
        for person in ["ana", "ben"] {
            let latest = votes.iter().rfind(|vote| vote.principal == person && !vote.late);
            self.byte(latest.map_or(u8::MAX, |vote| vote.verdict as u8));
            self.flag(latest.is_some_and(|vote| vote.binding == approval.binding_digest));
            self.flag(latest.is_some_and(|vote| vote.edited));
            self.flag(votes.iter().any(|vote| vote.principal == person && vote.late));
        }
    }

    fn wait(&mut self, wait: &Wait) {
        let Wait { id: _, run: _, owner, call, state, since: _, due_at } = wait;
        self.call_at(*call);
        match owner {
            Owner::Timer(_) | Owner::Signal(_) | Owner::Job(_) => self.byte(0),
            Owner::Approval(id) => {
                let at = self.state.approvals.iter().position(|approval| approval.id == *id);
                self.byte(at.map_or(u8::MAX, |at| at as u8 + 1));
            }
        }
        self.byte(match state {
            wait::State::Live => 0,
            wait::State::Parked => 1,
            wait::State::Ended { .. } => 2,
        });
        self.until(due_at.filter(|_| wait.is_open()));
    }

    fn signal(&mut self, signal: &Signal) {
        let Signal { run: _, n, id, to: _, by: _, payload: _, at: _, state } = signal;
        self.byte(*n as u8);
        self.out.extend_from_slice(id.as_bytes());
        self.byte(match state {
            signal::State::Kept => 0,
            signal::State::Taken(_) => 1,
            signal::State::SetAside => 2,
        });
    }

    fn obligation(&mut self, row: &Obligation) {
        let Obligation { run: _, subject, state, attempts: _, last_error: _, retry_at: _ } = row;
        match subject {
            Subject::Hop(_) => self.byte(u8::MAX),
            Subject::Call(id) => self.call_at(*id),
            Subject::Job(_) => self.byte(u8::MAX - 1),
        }
        self.flag(*state == obligation::State::Open);
    }

    fn worker(&mut self, worker: &Worker) {
        let Worker { token, started } = worker;
        let counts = self.state.run().claim().map(|claim| claim.token);
        self.byte(match token {
            None => 0,
            Some(_) if *token == counts => 1,
            Some(_) => 2,
        });
        started.iter().for_each(|started| self.flag(*started));
    }

    fn outside(&mut self, outside: &Outside) {
        let Outside { running, started, landed } = outside;
        self.out.extend([*running, *started, *landed]);
    }
}
