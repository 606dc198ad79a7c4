//! E-1: a run comes to be (runs.md section 3).

use super::{Cx, Decision, step};
use crate::call::Call;
use crate::code::Code;
use crate::command::{Admit, Answer, KnownKey};
use crate::delivery::{Cause, Delivery, Mode, State};
use crate::event::{Event, Facts, Kind};
use crate::fork::Fork;
use crate::id::RunId;
use crate::journal;
use crate::limits::{CAPACITY_RETRY, LABELS, NAME_BYTES};
use crate::principal::Right;
use crate::refusal::Refusal;
use crate::rows::{Change, Rows, Set};
use crate::run::{Budget, Clocks, Head, Phase, Requester, Run, Status};

/// What an admission finds beside its key.
pub(super) struct Around {
    /// The run that holds its session.
    pub(super) session: Option<RunId>,
    /// How many wait in its queue, where it has a bound for them.
    pub(super) queued: u64,
    /// The namespace of the run of its id that was here, and was removed.
    pub(super) removed: Option<String>,
}

/// Admits a run, or answers with the one its key made before.
///
/// Run, delivery 0, key, session slot and event are one commit; where `taker` is given E-3 is chained to it.
pub(super) fn admit(admit: Admit, known: Option<(KnownKey, Box<Run>)>, around: Around, cx: &mut Cx<'_>) -> Decision {
    if !admit.by.principal.rights.has(Right::RunsStart) {
        return not_permitted(&admit.by, Right::RunsStart).into();
    }
    // An id that another namespace has is told of as one that nobody has.
    let namespace = known.as_ref().map(|(_, run)| &run.namespace).or(around.removed.as_ref());
    if namespace.is_some_and(|namespace| *namespace != admit.by.principal.namespace) {
        return Refusal::new(Code::NotFound, format!("there is no run {}", admit.run)).into();
    }
    if let Some((key, run)) = known {
        return repeat(&admit, key, run);
    }
    if around.removed.is_some() {
        let detail = format!("{} was here, has ended and was removed", admit.run);
        return Refusal::new(Code::RunTerminal, detail).hint("an id names one run for ever; start with another").into();
    }
    if let Err(refusal) = check(&admit, &around, cx) {
        return refusal.into();
    }
    let taker = admit.taker.clone();
    let mut change = born(admit, cx);
    if let Some(taker) = step::may_take(&change, taker, cx) {
        step::take(&mut change, taker);
    }
    let run = Box::new(change.run().clone());
    Decision::done(change, Answer::Admitted { run, created: true })
}

/// the same request answers with the earlier run as it is now; nothing is evaluated again.
fn repeat(admit: &Admit, key: KnownKey, run: Box<Run>) -> Decision {
    if key.request_digest == admit.request_digest {
        return Decision::stands(Answer::Admitted { run, created: false });
    }
    #[derive(serde::Serialize)]
    struct First {
        run: RunId,
    }
    Refusal::new(Code::IdempotencyMismatch, format!("this idempotency key made {} from another request", key.run))
        .hint("use a new key for a new request")
        .truth(&First { run: key.run })
        .into()
}

fn check(admit: &Admit, around: &Around, cx: &Cx<'_>) -> Result<(), Refusal> {
    let key = &admit.pattern.key;
    let Some(workflow) = cx.registry.workflows.get(key) else {
        return Err(Refusal::new(Code::UnknownWorkflow, format!("there is no workflow `{key}`"))
            .hint("`stasis workflow register FILE` makes one; `stasis workflow list` has those that are there"));
    };
    let active = workflow.active();
    // A fork goes on with what the other run was pinned to, which is whatever it is.
    let pinned = admit.fork.as_ref().and_then(|_| workflow.patterns.get(&admit.pattern.revision));
    if pinned.is_none_or(|pattern| pattern.digest != admit.pattern.digest)
        && active.is_none_or(|a| a.revision != admit.pattern.revision || a.digest != admit.pattern.digest)
    {
        let now = active.map_or("none".to_owned(), |a| a.revision.to_string());
        let detail = format!("revision {} of `{key}` is not active; active is {now}", admit.pattern.revision);
        return Err(Refusal::new(Code::RevisionNotActive, detail)
            .hint(format!("stasis workflow activate {key} {}", admit.pattern.revision)));
    }
    within_bounds(admit)?;
    if admit.priority > 100 {
        let detail = format!("priority {} is out of 0..100", admit.priority);
        return Err(Refusal::new(Code::InvalidRequest, detail));
    }
    if admit.deadline.is_some_and(|deadline| deadline <= cx.now) {
        return Err(Refusal::new(Code::InvalidRequest, "the deadline has passed already"));
    }
    if admit.settings.not_after.is_some_and(|end| cx.now >= end) {
        return Err(Refusal::new(Code::AuthorityUnavailable, "authority unavailable: expired")
            .hint("register the workflow again to seal a new plan"));
    }
    if let Some(other) = around.session {
        return Err(Refusal::new(Code::SessionBusy, format!("session already has an active run: {other}")));
    }
    match admit.max_queued {
        Some(most) if around.queued >= most => Err(closed(admit, around.queued, most)),
        _ => Ok(()),
    }
}

/// the queue takes no more for now. What returns is never refused: it was admitted already.
fn closed(admit: &Admit, queued: u64, most: u64) -> Refusal {
    let detail = format!("{queued} runs wait in the queue `{}`, at most {most} may", admit.queue);
    let refusal = Refusal::new(Code::CapacityClosed, detail).hint("start it again when some of them have been taken");
    Refusal { retry_after_ms: Some(CAPACITY_RETRY.as_millis() as u64), ..refusal }
}

/// What a request says of its run beside the input is kept in the run's row and told with it in every list, so it is short.
fn within_bounds(admit: &Admit) -> Result<(), Refusal> {
    let exceeded = |what: &str, is: usize, limit: usize| {
        let refusal = Refusal::new(Code::LimitExceeded, format!("{what} exceeded: {is} > {limit}"));
        Err(refusal.hint("put what is long into the input"))
    };
    if admit.labels.len() > LABELS {
        return exceeded("labels", admit.labels.len(), LABELS);
    }
    let named = [("session", admit.session.as_ref()), ("key", admit.idempotency_key.as_ref())];
    let labels = admit.labels.iter().flat_map(|(key, value)| [("label", Some(key)), ("label", Some(value))]);
    for (what, text) in labels.chain(named) {
        if let Some(text) = text.filter(|text| text.len() > NAME_BYTES) {
            return exceeded(&format!("bytes of a {what}"), text.len(), NAME_BYTES);
        }
    }
    Ok(())
}

fn born(admit: Admit, cx: &mut Cx<'_>) -> Change {
    let now = cx.now;
    let facts = Facts::new()
        .with("cause", Cause::Admission.as_str())
        .with("workflow", &admit.pattern.key)
        .number("revision", admit.pattern.revision)
        .with("pattern_digest", admit.pattern.digest)
        .with("plan_digest", admit.plan)
        .with("input_digest", admit.input.body.digest)
        .with("principal", &admit.by.principal.id)
        .with("queue", &admit.queue)
        .number("priority", admit.priority);
    let forked_from = admit.fork.as_ref().map(|fork| fork.from);
    let facts = match forked_from {
        Some(from) => facts.with("forked_from", from.run).number("forked_seq", from.seq),
        None => facts,
    };
    let input_bytes = u64::from(admit.input.body.len);
    let run = Run {
        id: admit.run,
        namespace: admit.by.principal.namespace.clone(),
        kind: admit.kind,
        plan: admit.plan,
        phase: Phase::Queued {
            delivery: Delivery {
                state: State::Pending,
                mode: Mode::Fresh,
                cause: Cause::Admission,
                ready_at: now,
                retry_at: now,
                attempts: 0,
                last_error: None,
            },
        },
        seq: 0,
        fence: 0,
        checkpoint: None,
        journal: Head::default(),
        queue: admit.queue,
        priority: admit.priority,
        requester: Requester { subject: admit.by.principal.id.clone(), acts_for: admit.acts_for },
        session: admit.session,
        input: admit.input.body,
        budget: Budget { body_bytes: input_bytes, ..Budget::default() },
        events: Head { len: 0, digest: Event::origin(admit.run, admit.pattern.digest) },
        receipts: Head::default(),
        signals: 0,
        log_lines: 0,
        clocks: Clocks::start(now),
        since: now,
        deadline: admit.deadline,
        labels: admit.labels,
        retry_of: admit.retry_of,
        forked_from,
        pause: None,
        created_at: now,
        started_at: None,
        continuations: 0,
        settings: admit.settings,
        pattern: admit.pattern,
        moved_from: Vec::new(),
    };
    let rows = Box::new(Rows {
        run,
        waits: Set::default(),
        approvals: Set::default(),
        calls: Set::default(),
        obligations: Set::default(),
        jobs: Set::default(),
        signals: Set::default(),
        payloads: Vec::new(),
    });
    let mut change = Change::fresh(rows, now);
    change.key = admit.idempotency_key.map(|key| (key, admit.request_digest));
    change.bodies.push(admit.input);
    if let Some(fork) = admit.fork {
        take_over(&mut change, *fork, cx);
    }
    change.event(Kind::Run(Status::Queued), facts);
    change
}

/// the journal, calls and budget of another run. The calls are rows of this run and name the run that made them; nothing
/// of them is left to do, so that they have no question, wait or receipt here.
fn take_over(change: &mut Change, fork: Fork, cx: &mut Cx<'_>) {
    let Fork { budget, taken, bodies, from } = fork;
    let run = change.run().id;
    let body_bytes = change.run().budget.body_bytes + bodies.iter().map(|new| u64::from(new.body.len)).sum::<u64>();
    change.rows.run.budget = Budget { calls: taken.calls.len() as u32, body_bytes, ..budget };
    change.rows.run.journal = taken.head;
    for call in taken.calls {
        let made_in = call.from.unwrap_or(from.run);
        change.rows.calls.add(Call {
            id: cx.ids.mint(),
            run,
            from: Some(made_in),
            settle: None,
            receipt: None,
            ..call
        });
    }
    let rows = taken.others.into_iter().map(|(position, entry)| journal::Row { run, position, entry });
    change.journal.extend(rows);
    change.bodies.extend(bodies);
}

/// the verb's own right is missing.
pub(super) fn not_permitted(by: &crate::command::Caller, right: Right) -> Refusal {
    Refusal::new(Code::NotPermitted, format!("{} does not have the right `{right}`", by.principal.id))
        .hint("an administrator gives rights in the configuration's [[principal]] section")
}
