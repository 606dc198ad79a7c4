//! Forking a run: what another one had come to at an event is read, and admitted with a new run in one commit.

use crate::admit::{self, Started};
use crate::failpoint;
use crate::failure::Failure;
use crate::inner::Inner;
use protocol::code::Code;
use protocol::command::{Admit, Answer, Caller, Command, Request};
use protocol::digest::Digest;
use protocol::fork::{self, Fork, Taken};
use protocol::id::RunId;
use protocol::limits::PRIORITY;
use protocol::reading::concerns;
use protocol::refusal::Refusal;
use protocol::rows::NewBody;
use protocol::run::{Forked, Run, Settings};
use std::collections::BTreeMap;

/// A request for a fork.
#[derive(Clone, Debug)]
pub struct ForkRun {
    /// The id a client chose for the new run; it is then the idempotency key too.
    pub run: Option<RunId>,
    /// The run to take over from, and its event.
    pub from: Forked,
    /// Those of the other run if none are given.
    pub labels: Option<BTreeMap<String, String>>,
    pub priority: Option<u8>,
}

/// Admits the fork; a worker of this engine takes it in the same commit where there is room.
pub(crate) async fn fork(inner: &Inner, by: Caller, request: ForkRun) -> Result<Started, Failure> {
    let source = source(inner, &by, request.from.run).await?;
    let request_digest = Request {
        workflow: &source.pattern.key,
        revision: Some(source.pattern.revision),
        input: source.input.digest,
        session: None,
        queue: &source.queue,
        priority: request.priority.unwrap_or(PRIORITY),
        deadline: None,
        forked_from: Some(request.from),
    }
    .digest();
    let idempotency_key = request.run.map(|run| run.to_string());
    if let Some(known) = admit::known(inner, &by, idempotency_key.as_deref(), request_digest).await? {
        return Ok(known);
    }
    admit::runs_here(inner, &source.pattern).await?;
    let events = inner.ledger.events(source.id, None, usize::MAX).await?.unwrap_or_default();
    let journal = inner.ledger.journal(source.id).await?.unwrap_or_default();
    let taken = fork::taken(&source, request.from.seq, &events, journal)?;
    let input = body(inner, &source, source.input.digest).await?;
    let bodies = bodies(inner, &source, &taken).await?;
    let fork = Fork { from: request.from, budget: source.budget.clone(), taken, bodies };
    let admit = Admit {
        run: request.run.unwrap_or_else(|| inner.ids().mint()),
        kind: source.kind,
        plan: source.plan,
        input,
        settings: Settings { separate_requester: admit::separates(inner, &by), ..source.settings },
        pattern: source.pattern,
        acts_for: None,
        idempotency_key,
        request_digest,
        queue: source.queue,
        priority: request.priority.unwrap_or(PRIORITY),
        session: None,
        deadline: None,
        labels: request.labels.unwrap_or(source.labels),
        retry_of: None,
        fork: Some(Box::new(fork)),
        max_queued: inner.settings.max_queued,
        taker: inner.crew.taker(inner),
        by,
    };
    failpoint::hit("admit.before");
    let answer = inner.ledger.transact(Command::Admit(Box::new(admit))).await?;
    failpoint::hit("admit.after");
    match answer {
        Answer::Admitted { run, created } => Ok(Started { run: *run, created }),
        other => unreachable!("an admission is answered with its run: {other:?}"),
    }
}

/// The run to take over from. The new one shows its bodies to whoever started it, so that nobody else's run is forked (C-282).
async fn source(inner: &Inner, by: &Caller, id: RunId) -> Result<Run, Failure> {
    let source = inner.ledger.run(id).await?.filter(|run| run.namespace == by.principal.namespace);
    let source = source.ok_or_else(|| Failure::refused(Code::NotFound, format!("there is no run {id}")))?;
    let Run { requester, .. } = &source;
    if !concerns(&by.principal, &requester.subject, requester.acts_for.as_deref(), []) {
        let detail =
            format!("{id} was started by {}, and its fork would show what it read to others", requester.subject);
        let refusal = Refusal::new(Code::NotPermitted, detail);
        return Err(Failure::Refused(refusal.hint("whoever started it may fork it")));
    }
    Ok(source)
}

/// Every body that the calls name, once.
async fn bodies(inner: &Inner, source: &Run, taken: &Taken) -> Result<Vec<NewBody>, Failure> {
    let named =
        taken.calls.iter().flat_map(|call| [Some(call.arguments), call.outcome().and_then(|outcome| outcome.body)]);
    let mut digests: Vec<Digest> = named.flatten().map(|body| body.digest).collect();
    digests.sort_unstable();
    digests.dedup();
    let mut bodies = Vec::with_capacity(digests.len());
    for digest in digests.into_iter().filter(|digest| *digest != source.input.digest) {
        bodies.push(body(inner, source, digest).await?);
    }
    Ok(bodies)
}

async fn body(inner: &Inner, source: &Run, digest: Digest) -> Result<NewBody, Failure> {
    let bytes = inner.ledger.body(source.id, digest).await?;
    let lost = || Failure::Corrupt(format!("{} lacks its body {digest}", source.id));
    bytes.map(NewBody::new).ok_or_else(lost)
}
