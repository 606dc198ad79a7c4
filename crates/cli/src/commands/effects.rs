//! `stasis effect` (I-8, I-30).

use super::{approvals, now, runs};
use crate::app::App;
use crate::args::operate::{Effect, Settle};
use crate::door::Need;
use crate::failure::{Exit, Failure};
use crate::input;
use crate::render;
use api::Verdict;
use api::approval::DecisionRequest;
use api::call::{CallState, EffectQuery};

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
    let request = DecisionRequest { answer: result, reason: app.reason(), ..DecisionRequest::of(verdict) };
    let approval = door.client.settle(given.call, &request).await?;
    approvals::decided(app, &door, approval, given.wait).await
}
