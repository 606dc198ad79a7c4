//! `stasis approvals`, `approve`, `reject`, `approval` (I-6).

use super::{now, runs};
use crate::app::App;
use crate::args::approval::{ApprovalVerb, Approvals, ApprovalsVerb, Approve, Reject};
use crate::carry;
use crate::door::{Door, Need};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::render;
use api::approval::{ApprovalQuery, ApprovalStatus, DecisionRequest, ExtendRequest, Order};
use api::run::{ActionRequest, Until};
use api::{Approval, Json, Verdict};
use protocol::id::{ApprovalId, RunId};
use protocol::json::canonicalize;

pub(crate) async fn list(app: &App, approvals: &Approvals) -> Result<Exit, Failure> {
    let filter = match &approvals.verb {
        Some(ApprovalsVerb::List(filter)) => filter,
        None => &approvals.filter,
    };
    if let Some(status) = filter.status.as_deref().filter(|&s| s != "all" && ApprovalStatus::parse(s).is_none()) {
        let known = "pending, approved, rejected, expired, cancelled or all";
        return Err(Failure::usage_with_hint(format!("`{status}` is no status of an approval"), known));
    }
    let query = ApprovalQuery {
        status: filter.status.clone(),
        run: filter.run,
        mine: filter.mine.then_some(true),
        // For people the most urgent first; scripts get them as every list is, the newest first (I-37).
        order: app.out.format.is_table().then_some(Order::Expiring),
        limit: app.globals.limit,
        cursor: filter.paging.cursor.clone(),
    };
    let page = app.open(Need::Read).await?.client.approvals(&query).await?;
    app.out.page(&page, |approvals| render::approval::list(approvals, now()))?;
    Ok(Exit::Fine)
}

pub(crate) async fn approve(app: &App, approve: &Approve) -> Result<Exit, Failure> {
    if approve.edit.as_deref() == Some("-") && approve.answer.as_deref() == Some("-") {
        return Err(Failure::usage("stdin can be the edit or the answer, not both"));
    }
    let read =
        |argument: &Option<String>| argument.as_deref().map(|a| input::json(a, &mut std::io::stdin())).transpose();
    let (edit, answer) = (read(&approve.edit)?, read(&approve.answer)?);
    let (door, id) = address(app, &approve.id).await?;
    let found = door.client.approval(id).await?;
    if found.status == ApprovalStatus::Pending {
        app.can_call(&found).await?;
    }
    let digest = match approve.digest {
        Some(digest) => digest,
        None => {
            app.out.say(&format!(
                "approving {} {}",
                render::visible(&found.tool),
                arguments_or_changes(&found, edit.as_ref())
            ));
            found.arguments_digest
        }
    };
    let request = DecisionRequest {
        arguments_digest: Some(digest),
        edit,
        answer,
        reason: app.reason(),
        unrenderable: approve.unrenderable,
        ..DecisionRequest::of(Verdict::Approve)
    };
    let approval = door.client.decide(id, &request).await?;
    decided(app, &door, approval, approve.wait).await
}

/// The arguments as they were found, with their digest; of an edit what it changes, with both digests.
fn arguments_or_changes(found: &Approval, edit: Option<&Json>) -> String {
    let Some(edit) = edit else {
        let shown = render::visible(render::arguments(found.arguments.as_ref()));
        return format!("{shown}\ndigest {}", found.arguments_digest);
    };
    // What is no strict JSON has no digest; the server then says what is wrong with it.
    let (edit, digest) = match canonicalize(edit.as_str().as_bytes()) {
        Ok(body) => (Json::parse(body.as_str()).unwrap_or_else(|_| edit.clone()), body.digest().to_string()),
        Err(fault) => (edit.clone(), format!("none ({fault})")),
    };
    let changes = found.arguments.as_ref().map(|now| render::difference::difference(now, &edit)).unwrap_or_default();
    format!("with an edit\n{}\ndigest {} -> {digest}", changes.trim_end(), found.arguments_digest)
}

pub(crate) async fn reject(app: &App, reject: &Reject) -> Result<Exit, Failure> {
    let (door, id) = address(app, &reject.id).await?;
    let request = DecisionRequest {
        arguments_digest: reject.digest,
        reason: app.reason(),
        ..DecisionRequest::of(Verdict::Reject)
    };
    let approval = door.client.decide(id, &request).await?;
    decided(app, &door, approval, reject.wait).await
}

pub(crate) async fn approval(app: &App, verb: &ApprovalVerb) -> Result<Exit, Failure> {
    match verb {
        ApprovalVerb::Show { id } => {
            let (door, id) = addressed(app, id, Need::Read).await?;
            let approval = door.client.approval(id).await?;
            app.out.object(&approval, |approval| render::approval::show(approval, now()))?;
            Ok(Exit::Fine)
        }
        ApprovalVerb::Extend { id, until } => {
            let (door, id) = addressed(app, id, Need::Change).await?;
            let request = ExtendRequest { until: *until, reason: app.reason() };
            let approval = door.client.extend(id, &request).await?;
            app.out.object(&approval, |approval| render::approval::show(approval, now()))?;
            Ok(Exit::Fine)
        }
        ApprovalVerb::Read { id } => {
            let (door, id) = addressed(app, id, Need::Read).await?;
            let approval = door.client.read_approval(id, &ActionRequest { reason: app.reason() }).await?;
            app.out.object(&approval, |approval| render::approval::show(approval, now()))?;
            Ok(Exit::Fine)
        }
        ApprovalVerb::Abstain { id } => {
            let (door, id) = address(app, id).await?;
            let request = DecisionRequest { reason: app.reason(), ..DecisionRequest::of(Verdict::Abstain) };
            let approval = door.client.decide(id, &request).await?;
            decided(app, &door, approval, false).await
        }
    }
}

/// The decision stands: exit 0, whatever the run then does; and print the outcome with the approval in it (I-19b).
pub(crate) async fn decided(app: &App, door: &Door, approval: Approval, wait: bool) -> Result<Exit, Failure> {
    app.works_on(approval.run);
    let run = if door.carries(&app.globals, wait) && approval.status != ApprovalStatus::Pending {
        carry::wait(&app.out, door, approval.run, Until::Stopped, None).await?.0
    } else {
        door.client.run(approval.run).await?
    };
    // Read again: what became of the yes is part of it now.
    let approval = door.client.approval(approval.id).await?;
    runs::concluded(app, door, run, Some(approval)).await?;
    Ok(Exit::Fine)
}

/// The approval that is meant. A run's id is refused with its approvals as the hint (I-6, R-178).
async fn address(app: &App, id: &str) -> Result<(Door, ApprovalId), Failure> {
    addressed(app, id, runs::carrying(app)).await
}

async fn addressed(app: &App, id: &str, need: Need) -> Result<(Door, ApprovalId), Failure> {
    if let Ok(id) = id.parse::<ApprovalId>() {
        return Ok((app.open(need).await?, id));
    }
    let Ok(run) = id.parse::<RunId>() else {
        return Err(Failure::usage_with_hint(format!("`{id}` is no approval id"), "stasis approvals lists them"));
    };
    let pending = carry::pending(&app.open(Need::Read).await?, run).await?;
    let hint = match pending.as_slice() {
        [] => "it has no pending approval".to_owned(),
        some => {
            let lines = some.iter().map(|approval| format!("{} for {}", approval.id, render::visible(&approval.tool)));
            format!("its approvals: {}", lines.collect::<Vec<_>>().join(", "))
        }
    };
    Err(Failure::usage_with_hint(format!("{run} is a run; this wants an approval"), hint))
}
