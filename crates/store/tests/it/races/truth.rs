//! What must hold after a race, of the ledger and of what each was answered.

use std::collections::BTreeMap;

use protocol::approval::{Approval, Status as Question};
use protocol::code::Code;
use protocol::delivery::State as Delivery;
use protocol::digest::Digest;
use protocol::event::{Event, Kind};
use protocol::run::{Run, Status};
use protocol::signal::State;
use protocol::wait;
use stasis_store::conformance::World;

use super::{Race, Said, Who};

/// What the ledger holds after a race.
struct Held<'a> {
    race: &'a Race,
    said: &'a BTreeMap<Who, &'a Said>,
    run: Run,
    waits: Vec<wait::Wait>,
    question: Approval,
    events: Vec<Event>,
}

/// Panics at the first word that is not true; else what came of the question, the signal's wait and the run.
pub(super) async fn check(world: &World, race: &Race, said: &BTreeMap<Who, &Said>) -> String {
    let shown = world.shown(race.at.run.id).await;
    let question = world.ledger.approval(race.at.asked.approval).await.unwrap().unwrap().approval;
    let events = world.ledger.events(race.at.run.id, None, 200).await.unwrap().unwrap();
    let held = Held { race, said, run: shown.run, waits: shown.waits, question, events };
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        held.is_sound();
        held.tells_of_the_question();
        held.tells_of_the_signals();
        held.tells_of_the_run();
    }));
    if let Err(fault) = checked {
        let kinds: Vec<_> = held.events.iter().map(|event| event.kind.as_str()).collect();
        let who: Vec<_> = said.iter().map(|(who, said)| format!("{who:?}: {said:?}")).collect();
        eprintln!("race {} parked={}\n{}\n{kinds:?}\n{:?}", race.n, race.parked, who.join("\n"), held.run.phase);
        std::panic::resume_unwind(fault);
    }
    let signal = match (held.winners().first(), held.count(Kind::TimerFired)) {
        (Some(_), _) => "signalled",
        (None, 1) => "too late",
        (None, _) => "closed",
    };
    format!("{}, {signal}, {}", held.question.status.as_str(), held.run.status())
}

impl Held<'_> {
    fn count(&self, kind: Kind) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }

    /// The invariants of runs.md section 2 that one run can break.
    fn is_sound(&self) {
        let Held { run, events, .. } = self;
        assert_eq!(run.events.len as usize, events.len());
        assert!(events.iter().enumerate().all(|(n, event)| event.seq as usize == n));
        let returns = self.count(Kind::Run(Status::Queued)) as u32;
        assert_eq!(run.seq + 1, returns, "one return a seq"); // R-30 R-184
        assert!(run.seq <= u32::from(self.race.parked), "one return, however many end");
        let ends: Vec<Status> = events
            .iter()
            .filter_map(|event| match event.kind {
                Kind::Run(status) if status.is_final() => Some(status),
                _ => None,
            })
            .collect();
        match run.status() {
            Status::Queued => {
                assert!(run.delivery().is_some_and(|delivery| delivery.state == Delivery::Pending));
                assert!(run.claim().is_none());
            }
            Status::Running => assert_eq!(run.claim().map(|claim| claim.token), Some(run.fence)),
            Status::Cancelling => assert!(!self.race.parked || run.seq == 1), // a parked run has no hop to wait for
            Status::Done | Status::Cancelled => {
                assert!(run.delivery().is_none() && run.claim().is_none() && run.finished_at().is_some());
                assert!(self.waits.iter().all(|wait| !wait.is_open()));
            }
            other => panic!("a run whose question has ended is not {other}"),
        }
        assert_eq!(ends, Vec::from_iter(run.status().is_final().then_some(run.status()))); // R-29 R-248
        let token = events.iter().filter(|event| event.kind == Kind::Run(Status::Running)).count() as u64;
        assert_eq!(run.fence, token, "one claim a token");
    }

    /// One end of the question, and each who went at it told which.
    fn tells_of_the_question(&self) {
        let ends = [Kind::ApprovalApproved, Kind::ApprovalRejected, Kind::ApprovalExpired, Kind::ApprovalCancelled];
        assert_eq!(ends.map(|kind| self.count(kind)).iter().sum::<usize>(), 1);
        for (who, name, other) in [(Who::Approve, "ana", "bo"), (Who::Reject, "bo", "ana")] {
            match self.said[&who] {
                Said::Decided(decided) => {
                    assert_eq!(decided.approval.status.as_str(), self.question.status.as_str());
                    let stands: Vec<_> = self.question.standing().map(|vote| vote.principal.as_str()).collect();
                    assert_eq!(stands, [name]); // one decision
                    assert!(decided.changed);
                }
                Said::Refused(refusal) => {
                    let held = match &self.question.status {
                        Question::Approved { .. } | Question::Rejected { .. } => Code::AlreadyDecided,
                        Question::Expired { .. } => Code::ApprovalExpired,
                        Question::Cancelled { .. } => Code::ApprovalCancelled,
                        Question::Pending => panic!("refused, and still open"),
                    };
                    assert_eq!(refusal.code, held); // R-166 R-169 R-264
                    if held == Code::AlreadyDecided {
                        let truth = refusal.truth.as_ref().expect("with the winner").value();
                        assert_eq!(truth.get("decided_by").and_then(|by| by.as_str()), Some(other));
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        if let Said::Expired { question: true, .. } = self.said[&Who::Expire] {
            assert!(matches!(self.question.status, Question::Expired { .. }));
        }
        let votes = |who| self.question.votes.iter().filter(|vote| vote.principal == who).count();
        let late = matches!(self.question.status, Question::Expired { .. });
        let rejects = matches!(self.said[&Who::Reject], Said::Decided(_)) || late;
        assert_eq!(votes("bo"), usize::from(rejects)); // a late reject is kept
        assert_eq!(votes("ana"), usize::from(matches!(self.said[&Who::Approve], Said::Decided(_))));
    }

    /// Those whose signal was taken by the wait.
    fn winners(&self) -> Vec<&str> {
        let taken = |said: &&Said| match said {
            Said::Sent(signal) if signal.state == State::Taken(self.race.at.signal) => Some(()),
            _ => None,
        };
        let all = [(Who::SignalToWait, "to the wait"), (Who::SignalToName, "to the name")];
        all.into_iter().filter(|(who, _)| taken(&self.said[who]).is_some()).map(|(_, id)| id).collect()
    }

    /// Of two signals and the limit at most one ends the wait, and each who sent is told which.
    fn tells_of_the_signals(&self) {
        let winners = self.winners();
        let fired = self.count(Kind::TimerFired);
        assert!(winners.len() + fired <= 1); // R-235 R-243
        if let Said::Expired { limit: true, .. } = self.said[&Who::Expire] {
            assert_eq!(fired, 1);
        }
        for wait in self.waits.iter().filter(|wait| wait.id == self.race.at.signal) {
            let payload = Digest::of(format!("{:?}", winners[0]));
            assert_eq!(wait.state, wait::State::Ended { outcome: payload });
        }
        let over = fired == 1 || self.run.status().is_final() || self.run.status().is_stopping();
        match self.said[&Who::SignalToWait] {
            Said::Sent(_) => assert_eq!(winners, ["to the wait"]),
            Said::Refused(refusal) if refusal.code == Code::WaitConsumed => {
                let truth = refusal.truth.as_ref().expect("with what won").value();
                assert_eq!(truth.get("signal").and_then(|id| id.as_str()), winners.first().copied());
                assert_eq!(winners, ["to the name"]);
            }
            Said::Refused(refusal) => assert!(refusal.code == Code::WaitClosed && over, "{refusal:?}"),
            other => panic!("{other:?}"),
        }
        match self.said[&Who::SignalToName] {
            Said::Sent(signal) if signal.state == State::Kept => assert!(fired == 1 || !winners.is_empty()),
            Said::Sent(_) => assert_eq!(winners, ["to the name"]),
            Said::Refused(refusal) => {
                let held = match self.run.status() {
                    Status::Done => refusal.code == Code::RunTerminal,
                    Status::Cancelling => refusal.code == Code::RunStopping,
                    Status::Cancelled => matches!(refusal.code, Code::RunStopping | Code::RunTerminal),
                    _ => false,
                };
                assert!(held, "{refusal:?}");
            }
            other => panic!("{other:?}"),
        }
        let sent = [Who::SignalToWait, Who::SignalToName].map(|who| matches!(self.said[&who], Said::Sent(_)));
        assert_eq!(self.count(Kind::SignalReceived), sent.into_iter().filter(|sent| *sent).count());
    }

    /// A cancel and an end of the body never both stand, and both are told which did.
    fn tells_of_the_run(&self) {
        let done = self.run.status() == Status::Done;
        let stopped = matches!(self.run.status(), Status::Cancelling | Status::Cancelled);
        match self.said[&Who::Cancel] {
            Said::Cancelled { run, changed: true } => {
                assert!(stopped && matches!(run.status(), Status::Cancelling | Status::Cancelled)); // R-22 R-261
            }
            Said::Cancelled { run, changed: false } => assert!(done && run.status() == Status::Done),
            Said::Out => assert!(!stopped),
            other => panic!("{other:?}"),
        }
        match self.said[&Who::Complete] {
            Said::Done(run) => {
                assert!(done && run.status() == Status::Done);
                assert_eq!(self.run.result().map(|body| body.digest), Some(Digest::of("\"done\"")));
            }
            Said::NotDone(refusal, acknowledged) => {
                let told = [Code::RunStopping, Code::StaleClaim, Code::Skipped, Code::NotNow, Code::RunTerminal];
                assert!(!done && told.contains(&refusal.code), "{refusal:?}"); // R-22 R-92
                if let Some(run) = acknowledged {
                    assert!(run.status() == Status::Cancelled && self.run.status() == Status::Cancelled);
                }
            }
            Said::Out => assert!(!done),
            other => panic!("{other:?}"),
        }
    }
}
