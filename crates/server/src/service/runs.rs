//! The verbs of runs (I-21 to I-24).

use super::failure::{told, unread};
use super::list::{self, Filling};
use super::problem::{Answer, not_found, problem};
use super::read::Read;
use super::reading;
use super::{Service, invalid};
use crate::view;
use crate::view::explain::Around;
use api::event::TailQuery;
use api::page::{ListQuery, Page, Tail};
use api::run::{ActionRequest, AttestRequest, Checkpoint, ForkRequest, MoveRequest, RunQuery, SnapshotInfo, Until};
use api::{Call, Explain, Json, LogLine, Run, StartRun};
use engine::{ForkRun, StartRun as Start};
use protocol::code::Code;
use protocol::command::Caller;
use protocol::id::RunId;
use protocol::json::{Canonical, Reason, canonicalize};
use protocol::obligation::Subject;
use protocol::principal::Right;
use protocol::run::{Forked, Status};
use protocol::time::Time;
use std::time::Duration;
use store::{RunFilter, WaitingFor};

/// What to do about an input that is too large.
const TOO_LARGE: &str = "leave large content where it is, and give the program its name";

impl Service {
    /// Admits a run under `id` if the caller chose one. `created` of the answer says whether this request made it.
    pub async fn start(&self, by: &Caller, id: Option<RunId>, key: Option<String>, request: StartRun) -> Answer<Run> {
        // Before anything is evaluated: what a workflow is called is not told to whoever may not start it.
        self.need(by, &[Right::RunsStart])?;
        if request.held {
            return Err(invalid(
                "field `held`: held admissions are not built; an idempotency key serves the same caller",
            ));
        }
        if let Some(earlier) = request.retry_of {
            self.row(by, earlier).await?;
        }
        let input = match &request.input {
            Some(input) => self::input(input)?,
            None => Canonical::empty_object(),
        };
        let start = Start {
            run: id,
            workflow: request.workflow,
            revision: request.revision,
            input,
            idempotency_key: key,
            priority: request.priority,
            queue: request.queue,
            session: request.session,
            deadline: request.deadline,
            labels: request.labels,
            retry_of: request.retry_of,
        };
        let started = self.engine.start_run(by.clone(), start).await.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, started.run.id).await?);
        Ok(Run { created: Some(started.created), ..run })
    }

    pub async fn run(&self, by: &Caller, id: RunId) -> Answer<Run> {
        self.reads(by)?;
        Ok(self.draw(&self.whole(by, id).await?))
    }

    /// A page of runs, newest first.
    pub async fn runs(&self, by: &Caller, query: &RunQuery) -> Answer<Page<Run>> {
        self.reads(by)?;
        let (limit, after) = (list::limit(query.limit)?, list::cursor(query.cursor.as_deref())?);
        let Some(filter) = filter(by, query)? else { return Ok(Page::whole(Vec::new())) };
        let page = self.engine.ledger().runs(filter, after, limit).await.map_err(|error| unread(error, by))?;
        let mut filling = Filling::new();
        for row in &page.items {
            filling.keep(self.whole(by, row.id).await.map(|whole| self.draw(&whole)))?;
        }
        filling.lost(&page.faults);
        Ok(filling.page(page.next))
    }

    /// Waits until the run is there; `None` when the time is over first.
    pub async fn wait(&self, by: &Caller, id: RunId, until: Until, timeout: Duration) -> Answer<Option<Run>> {
        self.reads(by)?;
        self.row(by, id).await?;
        let until = match until {
            Until::Stopped => engine::Until::Stopped,
            Until::Terminal => engine::Until::Terminal,
        };
        match self.engine.wait(id, until, timeout).await.map_err(|failure| told(failure, by))? {
            Some(row) => Ok(Some(self.draw(&self.whole(by, row.id).await?))),
            None => Ok(None),
        }
    }

    /// Elects the cancel of a run. `changed` of the answer says whether this request did.
    pub async fn cancel(&self, by: &Caller, id: RunId, request: &ActionRequest) -> Answer<Run> {
        self.row(by, id).await?;
        let reason = request.reason.as_deref();
        let (row, changed) = self.engine.cancel(by.clone(), id, reason).await.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, row.id).await?);
        Ok(Run { changed: Some(changed), ..run })
    }

    /// Keeps a run from workers. `changed` of the answer says whether it was not paused before; what goes on all the same
    /// stands in it with its time.
    pub async fn pause(&self, by: &Caller, id: RunId, request: &ActionRequest) -> Answer<Run> {
        self.row(by, id).await?;
        let paused = self.engine.pause(by.clone(), id, request.reason.as_deref()).await;
        let (_, changed) = paused.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, id).await?);
        Ok(Run { changed: Some(changed), ..run })
    }

    /// Clears the pause of a run, and no other over it.
    pub async fn resume(&self, by: &Caller, id: RunId, request: &ActionRequest) -> Answer<Run> {
        self.row(by, id).await?;
        let resumed = self.engine.resume(by.clone(), id, request.reason.as_deref()).await;
        let (_, changed) = resumed.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, id).await?);
        Ok(Run { changed: Some(changed), ..run })
    }

    /// Begins a run with what another one had come to at an event. `created` of the answer says whether this request
    /// made it.
    pub async fn fork(&self, by: &Caller, id: RunId, request: &ForkRequest) -> Answer<Run> {
        self.need(by, &[Right::RunsStart])?;
        self.row(by, id).await?;
        let fork = ForkRun {
            run: request.id,
            from: Forked { run: id, seq: request.seq },
            labels: request.labels.clone(),
            priority: request.priority,
        };
        let started = self.engine.fork_run(by.clone(), fork).await.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, started.run.id).await?);
        Ok(Run { created: Some(started.created), ..run })
    }

    /// Pins a run that rests to another revision, once it is proved that it goes on there.
    pub async fn move_run(&self, by: &Caller, id: RunId, request: &MoveRequest) -> Answer<Run> {
        self.need(by, &[Right::RunsMove])?;
        self.row(by, id).await?;
        let moved = self.engine.move_run(by.clone(), id, request.revision, request.reason.as_deref()).await;
        let (_, changed) = moved.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, id).await?);
        Ok(Run { changed: Some(changed), ..run })
    }

    /// Records the caller's word that something of a stopping run has stopped. `changed` of the answer says whether
    /// it was still open.
    pub async fn attest(&self, by: &Caller, id: RunId, request: &AttestRequest) -> Answer<Run> {
        self.need(by, &[Right::RunsAttest])?;
        let shown = self.shown(by, id).await?;
        let subject = Subject::parse(&request.obligation);
        let known = |subject: &Subject| shown.obligations.iter().any(|row| row.subject == *subject);
        let Some(subject) = subject.filter(|subject| shown.run.status().is_final() || known(subject)) else {
            let mut problem = problem(Code::NotFound, format!("{id} has no obligation {}", request.obligation));
            problem.hint = Some(format!("stasis run explain {id}"));
            return Err(problem);
        };
        let attested = self.engine.attest(by.clone(), id, subject, &request.reason).await;
        let (_, changed) = attested.map_err(|failure| told(failure, by))?;
        let run = self.draw(&self.whole(by, id).await?);
        Ok(Run { changed: Some(changed), ..run })
    }

    pub async fn explain(&self, by: &Caller, id: RunId) -> Answer<Explain> {
        self.reads(by)?;
        let Read { row, parts, debts } = self.whole(by, id).await?;
        let around = Around { carries: self.facts.carries, limits: &self.facts.limits, debts };
        Ok(view::explain::explain(&row, &parts, &around, self.now()))
    }

    /// The calls of a run in the order in which they were made.
    pub async fn calls(&self, by: &Caller, id: RunId, query: &ListQuery) -> Answer<Page<Call>> {
        self.reads(by)?;
        let limit = list::limit(query.limit)?;
        let shown = self.shown(by, id).await?;
        let receipts = self.receipts(by, id).await?;
        let page = list::page_of(shown.calls, |call| call.id.to_string(), query.cursor.as_deref(), limit)?;
        let mut items = Vec::with_capacity(page.items.len());
        for row in &page.items {
            let bodies = reading::of_call(by, &shown.run, row, &shown.approvals);
            let receipt = receipts.get(&row.identity.text(id)).copied();
            items.push(self.draw_call(by, row, receipt, bodies).await?);
        }
        Ok(Page { items, next_cursor: page.next_cursor, unreadable: page.unreadable })
    }

    /// Lines that the program printed.
    pub async fn log(&self, by: &Caller, id: RunId, query: &TailQuery) -> Answer<Tail<LogLine>> {
        self.reads(by)?;
        self.row(by, id).await?;
        let (limit, after) = (list::lines(query.limit)?, list::place(query.after.as_deref())?);
        let lines = self.engine.ledger().log(id, after, limit).await.map_err(|error| unread(error, by))?;
        let lines: Vec<LogLine> = lines.ok_or_else(not_found)?.iter().map(view::event::log_line).collect();
        Ok(list::tail(lines, |line| line.n, after))
    }

    /// What the current checkpoint says of itself; a run that never parked has none.
    pub async fn checkpoint(&self, by: &Caller, id: RunId) -> Answer<Checkpoint> {
        self.reads(by)?;
        let row = self.row(by, id).await?;
        let checkpoint = row.checkpoint.as_ref().ok_or_else(not_found)?;
        Ok(Checkpoint {
            run: row.id,
            n: checkpoint.n,
            seq: u64::from(checkpoint.seq),
            schema: checkpoint.schema.clone(),
            journal_length: checkpoint.journal.len,
            journal_digest: checkpoint.journal.digest,
            body_digest: checkpoint.body.digest,
            body_bytes: u64::from(checkpoint.body.len),
            snapshot: checkpoint.snapshot.as_ref().map(|snapshot| SnapshotInfo {
                engine: snapshot.engine.clone(),
                image_digest: snapshot.image,
                body_digest: snapshot.body.digest,
                bytes: u64::from(snapshot.body.len),
                consumed: snapshot.consumed_by.is_some(),
            }),
        })
    }
}

/// The canonical input, judged as every body that meets a digest is (C-37).
fn input(input: &Json) -> Answer<Canonical> {
    canonicalize(input.as_str().as_bytes()).map_err(|fault| match fault.reason {
        Reason::Size => {
            let detail = format!("input exceeded: {} > {}", input.as_str().len(), fault.offset);
            let mut problem = problem(Code::LimitExceeded, detail);
            problem.status = 413;
            problem.hint = Some(TOO_LARGE.to_owned());
            problem
        }
        reason => problem(Code::InvalidJson, format!("field `input`: {reason} at byte {}", fault.offset)),
    })
}

/// The store's filter for a query; `None` where nothing can fit it.
fn filter(by: &Caller, query: &RunQuery) -> Answer<Option<RunFilter>> {
    let time = |name: &str, text: &Option<String>| -> Answer<Option<Time>> {
        let read = |text: &String| text.parse().map_err(|error| invalid(format!("query parameter `{name}`: {error}")));
        text.as_ref().map(read).transpose()
    };
    let mut statuses = Vec::new();
    for word in query.status.iter().flat_map(|words| words.split(',')) {
        statuses
            .push(Status::parse(word.trim()).ok_or_else(|| unknown("status", word, &Status::ALL.map(Status::as_str)))?);
    }
    let waiting_for = match query.waiting_for.as_deref() {
        None => None,
        Some("approval") => Some(WaitingFor::Approval),
        Some("timer") => Some(WaitingFor::Timer),
        Some("signal") => Some(WaitingFor::Signal),
        Some("job") => Some(WaitingFor::Job),
        Some("hardware") => {
            if !statuses.is_empty() && !statuses.contains(&Status::AwaitingHardware) {
                return Ok(None);
            }
            statuses = vec![Status::AwaitingHardware];
            None
        }
        Some(word) => return Err(unknown("waiting_for", word, &["approval", "job", "signal", "timer", "hardware"])),
    };
    let label = |text: &String| {
        let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| invalid("query parameter `label`: write it as key=value"))
    };
    Ok(Some(RunFilter {
        namespace: Some(by.principal.namespace.clone()),
        statuses,
        workflow: query.workflow.clone(),
        labels: query.label.as_ref().map(label).transpose()?.into_iter().collect(),
        waiting_for,
        created_from: time("created_after", &query.created_after)?,
        created_to: time("created_before", &query.created_before)?,
    }))
}

/// A word that is none of those known.
pub(super) fn unknown(name: &str, word: &str, known: &[&str]) -> Box<api::Problem> {
    let mut problem = invalid(format!("query parameter `{name}`: `{word}` is none of those known"));
    problem.hint = Some(format!("known: {}", known.join(", ")));
    problem
}
