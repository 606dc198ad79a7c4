//! `stasis effect` (I-8, I-30).

use super::{approvals, now, runs};
use crate::app::App;
use crate::args::operate::{Call, Effect, Settle};
use crate::door::{Door, Need};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::render;
use api::approval::DecisionRequest;
use api::call::{CallState, EffectQuery};
use api::run::ActionRequest;
use api::{Approval, Verdict};
use protocol::id::CallId;

/// The most items a page may have.
const PAGE: u32 = 500;

pub(crate) async fn effect(app: &App, verb: &Effect) -> Result<Exit, Failure> {
    match verb {
        Effect::List { ambiguous, paging } => {
            let query = EffectQuery {
                state: ambiguous.then_some(CallState::Ambiguous),
                limit: app.globals.limit,
                cursor: paging.cursor.clone(),
            };
            let page = app.open(Need::Read).await?.client.effects(&query).await?;
            app.out.page(&page, |effects| render::lists::effects(effects, now()))?;
            Ok(Exit::Fine)
        }
        Effect::Settle(given) => settle(app, given).await,
    }
}

/// The bodies of a call, for an auditor (C-282).
pub(crate) async fn call(app: &App, verb: &Call) -> Result<Exit, Failure> {
    let Call::Read { id } = verb;
    let door = app.open(Need::Read).await?;
    let call = door.client.read_call(*id, &ActionRequest { reason: app.reason() }).await?;
    app.out.object(&call, |call| render::lists::call(call, now()))?;
    Ok(Exit::Fine)
}

/// The decision of the call's `settle` approval, by another name.
async fn settle(app: &App, given: &Settle) -> Result<Exit, Failure> {
    let result =
        given.answer.happened.as_deref().map(|result| input::json(result, &mut std::io::stdin())).transpose()?;
    let verdict = match (&result, given.answer.did_not_happen) {
        (Some(_), _) => Verdict::Happened,
        (None, true) => Verdict::DidNotHappen,
        (None, false) => Verdict::GiveUp,
    };
    if verdict == Verdict::GiveUp {
        app.confirm("Give up on it? The run fails, and the effect stays unknown.").await?;
    }
    let door = app.open(runs::carrying(app)).await?;
    let found = question(&door, given.call).await?;
    if let Some(found) = &found {
        app.out.say(&format!(
            "settling {} {}",
            render::visible(&found.tool),
            render::visible(render::arguments(found.arguments.as_ref()))
        ));
        if let Some(settle) = found.settle.as_ref().filter(|_| verdict == Verdict::Happened) {
            app.out.say(render::approval::about_settling(settle).trim_end());
        }
    }
    let request = DecisionRequest {
        arguments_digest: found.map(|found| found.arguments_digest),
        answer: result,
        reason: app.reason(),
        ..DecisionRequest::of(verdict)
    };
    let approval = door.client.settle(given.call, &request).await?;
    approvals::decided(app, &door, approval, given.wait).await
}

/// The open question whether this call happened; where there is none the server says why.
async fn question(door: &Door, call: CallId) -> Result<Option<Approval>, Failure> {
    let mut cursor = None;
    loop {
        let query = EffectQuery { state: Some(CallState::Ambiguous), limit: Some(PAGE), cursor };
        let page = door.client.effects(&query).await?;
        if let Some(id) = page.items.iter().find(|effect| effect.call == call).and_then(|effect| effect.approval) {
            return Ok(Some(door.client.approval(id).await?));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(None);
        }
    }
}
