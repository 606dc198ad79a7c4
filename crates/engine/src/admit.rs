//! Starting a run: what the request says is checked and pinned, then admitted in one commit (runs.md section 3).

use crate::failpoint;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::pinned::{self, PinError};
use protocol::approval::Method;
use protocol::code::Code;
use protocol::command::{Admit, Answer, Caller, Command, Request};
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::json::Canonical;
use protocol::limits::{DEFAULT_QUEUE, PRIORITY};
use protocol::principal::Principal;
use protocol::refusal::Refusal;
use protocol::rows::NewBody;
use protocol::run::{Kind, PatternRef, Run, Settings};
use protocol::schema::Schema;
use protocol::time::Time;
use protocol::workflow::Pattern;
use std::collections::BTreeMap;

/// A request for a run.
#[derive(Clone, Debug)]
pub struct StartRun {
    /// The id a client chose; it is then the idempotency key too.
    pub run: Option<RunId>,
    pub workflow: String,
    pub revision: Option<u32>,
    pub input: Canonical,
    pub idempotency_key: Option<String>,
    pub priority: Option<u8>,
    pub queue: Option<String>,
    pub session: Option<String>,
    pub deadline: Option<Time>,
    pub labels: BTreeMap<String, String>,
    pub retry_of: Option<RunId>,
}

/// A run, and whether this request made it.
#[derive(Clone, Debug)]
pub struct Started {
    pub run: Run,
    pub created: bool,
}

/// Admits a run; a worker of this engine takes it in the same commit where there is room.
pub(crate) async fn start(inner: &Inner, by: Caller, request: StartRun) -> Result<Started, Failure> {
    let queue = request.queue.clone().unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
    let priority = request.priority.unwrap_or(PRIORITY);
    let request_digest = Request {
        workflow: &request.workflow,
        revision: request.revision,
        input: request.input.digest(),
        session: request.session.as_deref(),
        queue: &queue,
        priority,
        deadline: request.deadline,
        forked_from: None,
    }
    .digest();
    let idempotency_key = request.idempotency_key.clone().or(request.run.map(|run| run.to_string()));
    if let Some(known) = known(inner, &by, idempotency_key.as_deref(), request_digest).await? {
        return Ok(known);
    }
    if queue != DEFAULT_QUEUE {
        return Err(Failure::refused(Code::UnknownQueue, format!("there is no queue `{queue}`")));
    }
    let (pattern, settings) = pin(inner, &request).await?;
    let settings = Settings { separate_requester: separates(inner, &by), ..settings };
    let admit = Admit {
        by,
        run: request.run.unwrap_or_else(|| inner.ids().mint()),
        pattern: PatternRef { key: request.workflow, revision: pattern.revision, digest: pattern.digest },
        kind: pattern.manifest.kind,
        plan: pattern.manifest.plan,
        input: NewBody::new(request.input.as_bytes()),
        settings,
        acts_for: None,
        idempotency_key,
        request_digest,
        queue,
        priority,
        session: request.session,
        deadline: request.deadline,
        labels: request.labels,
        retry_of: request.retry_of,
        fork: None,
        max_queued: inner.settings.max_queued,
        taker: inner.crew.taker(inner),
    };
    failpoint::hit("admit.before");
    let answer = inner.ledger.transact(Command::Admit(Box::new(admit))).await?;
    failpoint::hit("admit.after");
    match answer {
        Answer::Admitted { run, created } => Ok(Started { run: *run, created }),
        other => unreachable!("an admission is answered with its run: {other:?}"),
    }
}

/// C-55: whoever runs the own program on the own data directory answers it alone, a server beside it or not.
pub(crate) fn separates(inner: &Inner, by: &Caller) -> bool {
    let own = by.method == Method::Cli && by.principal.id == Principal::LOCAL;
    inner.separate_requester && !own
}

/// A repeat is answered with the earlier run before anything is evaluated again.
pub(crate) async fn known(
    inner: &Inner,
    by: &Caller,
    key: Option<&str>,
    request_digest: Digest,
) -> Result<Option<Started>, Failure> {
    let Some(key) = key else { return Ok(None) };
    let found = inner.ledger.admission(&by.principal.namespace, &by.principal.id, key).await?;
    match found {
        Some((known, run)) if known == request_digest => Ok(Some(Started { run, created: false })),
        // The decision refuses it, with the first run's id.
        Some(_) | None => Ok(None),
    }
}

async fn pin(inner: &Inner, request: &StartRun) -> Result<(Pattern, Settings), Failure> {
    let registry = inner.ledger.registry();
    let key = &request.workflow;
    let unknown = || {
        Failure::Refused(
            Refusal::new(Code::UnknownWorkflow, format!("there is no workflow `{key}`"))
                .hint("`stasis workflow register FILE` makes one; `stasis workflow list` has those that are there"),
        )
    };
    let workflow = registry.workflows.get(key).ok_or_else(unknown)?;
    let pattern = match request.revision {
        None => workflow.active().ok_or_else(unknown)?,
        Some(revision) => workflow.patterns.get(&revision).ok_or_else(|| {
            let detail = format!("`{key}` has no revision {revision}");
            Failure::refused(Code::RevisionNotActive, detail)
        })?,
    };
    check_input(&pattern.manifest.input_schema, &request.input, inner)?;
    match pinned::load(inner, pattern).await {
        // What the pattern says is the pattern's own, whichever revision was registered last.
        Ok(pinned) => {
            let (max_calls, not_after) = (pinned.plan.max_calls, pinned.plan.not_after);
            let resume = pattern.manifest.resume;
            Ok((pattern.clone(), Settings { max_calls, not_after, resume, ..workflow.settings }))
        }
        Err(PinError::Unavailable(why)) => Err(cannot_run(inner, pattern, &why)),
        Err(PinError::Unread(reason)) => Err(store::ReadError::Unavailable { reason }.into()),
    }
}

/// Whether the very pattern that another run is pinned to is registered and can run here.
pub(crate) async fn runs_here(inner: &Inner, pinned: &PatternRef) -> Result<(), Failure> {
    let registry = inner.ledger.registry();
    let of_key = registry.workflows.get(&pinned.key);
    let pattern = of_key.and_then(|workflow| workflow.patterns.get(&pinned.revision));
    let Some(pattern) = pattern.filter(|pattern| pattern.digest == pinned.digest) else {
        let detail = format!("`{}` has no revision {} any more", pinned.key, pinned.revision);
        return Err(Failure::refused(Code::RevisionNotActive, detail));
    };
    match pinned::load(inner, pattern).await {
        Ok(_) => Ok(()),
        Err(PinError::Unavailable(why)) => Err(cannot_run(inner, pattern, &why)),
        Err(PinError::Unread(reason)) => Err(store::ReadError::Unavailable { reason }.into()),
    }
}

/// A run that could not go on here is not begun here.
fn cannot_run(inner: &Inner, pattern: &Pattern, why: &str) -> Failure {
    let detail = format!("{}@{} cannot run here: {why}", pattern.manifest.key, pattern.revision);
    match (pattern.manifest.kind, inner.sandbox()) {
        (Kind::Rust, _) => {
            let hint = "start it in the program that has its code";
            Failure::Refused(Refusal::new(Code::UnknownWorkflow, detail).hint(hint))
        }
        (Kind::Script | Kind::Graph | Kind::Agent, Err(failure)) => failure,
        (Kind::Script | Kind::Graph | Kind::Agent, Ok(_)) => Failure::Image(detail),
    }
}

/// R-44, W-9: the input's size and schema.
fn check_input(schema: &Canonical, input: &Canonical, inner: &Inner) -> Result<(), Failure> {
    let (len, limit) = (input.len() as u64, inner.limits.input_bytes);
    if len > limit {
        let hint = "leave large content where it is, and give the program its name";
        let refusal = Refusal::new(Code::LimitExceeded, format!("input exceeded: {len} > {limit}"));
        return Err(Failure::Refused(refusal.hint(hint)));
    }
    let schema = Schema::compile(schema).map_err(|fault| Failure::Corrupt(fault.to_string()))?;
    schema.check(input).map_err(|violation| {
        Failure::refused(Code::InvalidInput, format!("the input at `{}`: {}", violation.pointer, violation.message))
    })
}
