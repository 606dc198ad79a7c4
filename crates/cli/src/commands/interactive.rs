//! `stasis run FILE` on a terminal: what happens, as it happens, and each approval asked where the person is (I-2).
//!
//! Reads the run's own events and log; it keeps no state of the run beside them. A person may put a question off
//! (`later`): the run then stops where it is, and `stasis approve` goes on with it.

use super::tail;
use crate::app::App;
use crate::door::Door;
use crate::failure::Failure;
use crate::render;
use crate::terminal::Terminal;
use api::approval::{ApprovalKind, ApprovalStatus, DecisionRequest, EditRule, ReasonRule};
use api::client::StreamItem;
use api::{Approval, ClientError, Event, Json, Run, Verdict};
use protocol::id::{ApprovalId, RunId};
use protocol::run::Status;
use std::collections::BTreeSet;

/// Follows the run until it stops with nothing left that the person here would answer.
pub(crate) async fn carry(app: &App, door: &Door, run: Run, terminal: Terminal) -> Result<Run, Failure> {
    let mut session = Session { app, door, run: run.id, terminal, log_after: None, later: BTreeSet::new() };
    let mut events = door.client.follow(Some(run.id), None);
    while let Some(item) = events.next().await {
        let StreamItem::Event(event) = item? else { continue };
        session.show(&event).await?;
        if session.stops_at(&event).await? {
            break;
        }
    }
    session.print_log().await?;
    Ok(door.client.run(run.id).await?)
}

/// The event of a run that waits in its worker.
const HOLDS: &str = "run.awaiting_hardware";

struct Session<'a> {
    app: &'a App,
    door: &'a Door,
    run: RunId,
    terminal: Terminal,
    log_after: Option<String>,
    /// Questions that the person put off.
    later: BTreeSet<ApprovalId>,
}

/// What a person said to a question.
enum Answer {
    Decision(DecisionRequest),
    Later,
}

impl Session<'_> {
    async fn show(&mut self, event: &Event) -> Result<(), Failure> {
        self.print_log().await?;
        // Timelines have more than a person at a prompt wants; `stasis run events` has all of it.
        if event.kind.starts_with("run.") || event.kind.starts_with("approval.") || event.kind.starts_with("call.") {
            self.app.out.say(&render::events::brief(event));
        }
        if event.kind == HOLDS {
            // By now it may have gone on.
            let explained = self.door.client.explain(self.run).await?;
            if explained.status == Status::AwaitingHardware {
                self.app.out.say(&format!("  {}", explained.why));
            }
        }
        Ok(())
    }

    async fn print_log(&mut self) -> Result<(), Failure> {
        let lines = tail::all_log(self.door, self.run, self.log_after.take(), None).await?;
        for line in &lines.items {
            self.app.out.say(&format!("  | {}", render::visible(&line.text)));
        }
        self.log_after = lines.next_after;
        Ok(())
    }

    /// Asks what became askable, and tells whether to stop following.
    async fn stops_at(&mut self, event: &Event) -> Result<bool, Failure> {
        let parked = event.kind.starts_with("run.awaiting_") && event.kind != HOLDS;
        if event.kind != "approval.requested" && !parked {
            return Ok(event.is_terminal());
        }
        loop {
            let pending = crate::carry::pending(self.door, self.run).await?;
            let Some(next) = pending.iter().find(|approval| !self.later.contains(&approval.id)) else {
                // All put off: stop here. Nothing to ask: stop if it is parked now, whatever it was at this event.
                return Ok(!pending.is_empty() || (parked && self.door.client.run(self.run).await?.status.is_parked()));
            };
            self.ask(next).await?;
            if pending.len() == 1 && !self.later.contains(&next.id) {
                return Ok(false);
            }
        }
    }

    async fn ask(&mut self, approval: &Approval) -> Result<(), Failure> {
        self.app.out.say(&format!("\n{}", render::approval::show(approval, super::now())));
        loop {
            let Some(answer) = self.answer(approval).await else { continue };
            let Answer::Decision(request) = answer else {
                self.later.insert(approval.id);
                return Ok(());
            };
            if request.decision == Verdict::Approve
                && let Err(failure) = self.app.can_call(approval).await
            {
                self.app.out.say(failure.render(false).trim_end());
                self.later.insert(approval.id);
                return Ok(());
            }
            match self.door.client.decide(approval.id, &request).await {
                Ok(decided) if decided.status == ApprovalStatus::Pending => {
                    self.app.out.say("recorded; it needs more votes than yours");
                    self.later.insert(approval.id);
                    return Ok(());
                }
                Ok(_) => return Ok(()),
                Err(ClientError::Problem(problem)) if matches!(problem.status, 409 | 410 | 403) => {
                    self.app.out.say(&format!("not decided: {}", problem.detail));
                    if problem.status == 403 {
                        self.later.insert(approval.id);
                    }
                    return Ok(());
                }
                Err(ClientError::Problem(problem)) => self.app.out.say(&format!("refused: {}", problem.detail)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One answer; `None` where it was none and is to be asked for again.
    async fn answer(&mut self, approval: &Approval) -> Option<Answer> {
        if approval.kind == ApprovalKind::Settle || approval.unrenderable {
            self.app.out.say("This one is decided by a command of its own, see the hint.");
            return Some(Answer::Later);
        }
        let edits = approval.rule.edit != EditRule::No && approval.kind == ApprovalKind::Call;
        let question = if edits { "[a]pprove, [r]eject, [e]dit, [l]ater?" } else { "[a]pprove, [r]eject, [l]ater?" };
        // A terminal that was closed puts off everything.
        let Some(word) = self.terminal.ask(question).await else { return Some(Answer::Later) };
        let mut request = match word.to_ascii_lowercase().as_str() {
            "a" | "approve" => DecisionRequest::of(Verdict::Approve),
            "r" | "reject" => DecisionRequest::of(Verdict::Reject),
            "e" | "edit" if edits => {
                let edit = self.json("the complete new arguments, one line of JSON:").await?;
                DecisionRequest { edit: Some(edit), ..DecisionRequest::of(Verdict::Approve) }
            }
            "l" | "later" => return Some(Answer::Later),
            _ => return None,
        };
        request.arguments_digest = Some(approval.arguments_digest);
        if request.decision == Verdict::Approve && approval.form.is_some() {
            request.answer = Some(self.json("the answer, one line of JSON:").await?);
        }
        request.reason = self.reason(approval, request.decision).await;
        Some(Answer::Decision(request))
    }

    async fn json(&mut self, question: &str) -> Option<Json> {
        let line = self.terminal.ask(question).await?;
        match Json::parse(&line) {
            Ok(json) => Some(json),
            Err(error) => {
                self.app.out.say(&format!("no JSON: {error}"));
                None
            }
        }
    }

    /// `--reason`, else asked for where the rule wants one.
    async fn reason(&mut self, approval: &Approval, verdict: Verdict) -> Option<String> {
        if let Some(reason) = self.app.reason() {
            return Some(reason);
        }
        let wanted = match approval.rule.reason {
            ReasonRule::None => false,
            ReasonRule::Reject => verdict == Verdict::Reject,
            ReasonRule::Always => true,
        };
        if !wanted {
            return None;
        }
        self.terminal.ask("reason:").await.filter(|reason| !reason.is_empty())
    }
}
