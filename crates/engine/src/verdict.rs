//! Bringing a verdict to its decision: bytes are parsed and judged by the immutable tool spec here, everything that can
//! change is judged in the transaction (calls.md section 10.3).

use crate::failpoint;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::tools::{Content, Grant};
use protocol::approval::{Approval, Binding, Kind, Verdict};
use protocol::code::Code;
use protocol::command::{Answer, Answered, Caller, Command, Decide, Decided, Edit};
use protocol::digest::Digest;
use protocol::id::ApprovalId;
use protocol::json::{Canonical, canonicalize};
use protocol::plan::Plan;
use protocol::rows::NewBody;
use protocol::schema::Schema;

/// A verdict as a door received it.
#[derive(Clone, Debug)]
pub struct DecideRequest {
    pub approval: ApprovalId,
    pub verdict: Verdict,
    pub arguments_digest: Option<Digest>,
    /// The complete new arguments as JSON text.
    pub edit: Option<Vec<u8>>,
    pub answer: Option<Vec<u8>>,
    pub reason: Option<String>,
    pub unrenderable: bool,
}

/// Decides; a worker of this engine takes the hop that follows in the same commit where there is room.
pub(crate) async fn decide(inner: &Inner, by: Caller, request: DecideRequest) -> Result<Decided, Failure> {
    let reason = reason(request.reason.as_deref())?;
    let approval = match request.edit.is_some() || request.answer.is_some() {
        true => inner.ledger.approval(request.approval).await?.map(|found| found.approval),
        false => None,
    };
    let edit = match (request.edit, &approval) {
        (Some(bytes), Some(approval)) => Some(edit(inner, &by, approval, &bytes).await?),
        _ => None,
    };
    let answer = match (request.answer, &approval) {
        (Some(bytes), Some(approval)) => Some(answer(inner, approval, &bytes).await?),
        _ => None,
    };
    let decide = Decide {
        by,
        approval: request.approval,
        verdict: request.verdict,
        arguments_digest: request.arguments_digest,
        edit,
        answer,
        reason,
        unrenderable: request.unrenderable,
        taker: inner.crew.taker(inner),
    };
    failpoint::hit("decide.before");
    let answer = inner.ledger.transact(Command::Decide(Box::new(decide))).await?;
    failpoint::hit("decide.after");
    match answer {
        Answer::Decided(decided) => Ok(*decided),
        other => unreachable!("a decision is answered with its approval: {other:?}"),
    }
}

/// Why a person decides or cancels, to be kept as a body.
pub(crate) fn reason(text: Option<&str>) -> Result<Option<NewBody>, Failure> {
    Ok(said(text)?.map(|reason| NewBody::new(reason.as_bytes())))
}

/// What a person says of what they do; white space alone is nothing.
pub(crate) fn said(text: Option<&str>) -> Result<Option<&str>, Failure> {
    let Some(reason) = text.map(str::trim).filter(|reason| !reason.is_empty()) else { return Ok(None) };
    if reason.len() > protocol::limits::REASON_BYTES {
        let detail = format!("reason exceeded: {} > {}", reason.len(), protocol::limits::REASON_BYTES);
        return Err(Failure::refused(Code::LimitExceeded, detail));
    }
    Ok(Some(reason))
}

/// C-173: strict parse, limit and schema of new arguments, whether the connector can send them, and what they name.
async fn edit(inner: &Inner, by: &Caller, approval: &Approval, bytes: &[u8]) -> Result<Edit, Failure> {
    let refused = |code: Code, detail: String| Failure::refused(Code::EditRefused, format!("{code}: {detail}"));
    let arguments = canonicalize(bytes).map_err(|fault| refused(Code::InvalidJson, fault.to_string()))?;
    let registry = inner.ledger.registry();
    let binding = &approval.binding;
    let spec = registry
        .tool(&binding.tool, &binding.tool_version)
        .ok_or_else(|| refused(Code::ToolUnavailable, format!("{} is not registered", binding.tool)))?;
    let schema = Schema::compile(&spec.input_schema).map_err(|fault| Failure::Corrupt(fault.to_string()))?;
    let grant = grant(inner, binding).await?;
    let mut fault = if arguments.len() as u64 > spec.limits.argument_bytes {
        Some((Code::ArgumentsTooLarge, format!("{} > {}", arguments.len(), spec.limits.argument_bytes)))
    } else {
        let at = |v: protocol::schema::Violation| (Code::InvalidArguments, format!("`{}`: {}", v.pointer, v.message));
        schema.check(&arguments).err().map(at).or_else(|| {
            let unfit = inner.connectors.fit(&spec, &grant, &arguments).err();
            unfit.map(|unfit| (Code::InvalidArguments, unfit.to_string()))
        })
    };
    let mut operands = Vec::new();
    // Nobody makes this machine read anything by an edit that is refused anyhow.
    if fault.is_none() && approval.is_pending() && approval.obligation.eligible(&by.principal) {
        let contents = inner.connectors.contents(&spec, &grant, &arguments).await;
        match Content::pinned(contents) {
            Ok(pinned) => operands = pinned,
            Err(why) => fault = Some((Code::OperandUnavailable, why)),
        }
    }
    Ok(Edit { arguments, judged_by: spec.digest(), fault, operands })
}

/// The grant that the run's plan gives the tool.
async fn grant(inner: &Inner, binding: &Binding) -> Result<Grant, Failure> {
    let lost = |what: &str| Failure::Corrupt(format!("the {what} of {} cannot be read", binding.tool));
    let plan = inner.ledger.blob(binding.plan).await?.ok_or_else(|| lost("plan"))?;
    let plan: Plan = serde_json::from_slice(&plan).map_err(|_| lost("plan"))?;
    let planned = plan.tools.iter().find(|tool| tool.name == binding.tool).ok_or_else(|| lost("plan"))?;
    let grant = inner.ledger.blob(planned.grant_digest).await?.ok_or_else(|| lost("grant"))?;
    canonicalize(&grant).ok().and_then(|grant| Grant::read(&grant).ok()).ok_or_else(|| lost("grant"))
}

/// C-172, C-238: a gate's answer fits its form, a result that happened fits the tool's output schema.
async fn answer(inner: &Inner, approval: &Approval, bytes: &[u8]) -> Result<Answered, Failure> {
    let parsed = canonicalize(bytes).map_err(|fault| Failure::refused(Code::InvalidAnswer, fault.to_string()))?;
    let schema: Option<Canonical> = match approval.kind() {
        Kind::Gate => match approval.form {
            None => None,
            Some(form) => {
                inner.ledger.body(approval.run, form.digest).await?.and_then(|bytes| Canonical::from_stored(&bytes))
            }
        },
        Kind::Settle => {
            let binding = &approval.binding;
            let registry = inner.ledger.registry();
            registry.tool(&binding.tool, &binding.tool_version).map(|spec| spec.output_schema.clone())
        }
        Kind::Call => None,
    };
    let fault = match schema {
        None => None,
        Some(schema) => {
            let schema = Schema::compile(&schema).map_err(|fault| Failure::Corrupt(fault.to_string()))?;
            schema.check(&parsed).err().map(|v| match v.pointer.as_str() {
                "" => format!("the answer does not fit: {}", v.message),
                place => format!("the answer at `{place}` does not fit: {}", v.message),
            })
        }
    };
    Ok(Answered { body: NewBody::new(parsed.as_bytes()), fault })
}
