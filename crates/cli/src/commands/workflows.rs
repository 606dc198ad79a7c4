//! `stasis workflow` (I-4).

use super::{now, program};
use crate::app::App;
use crate::args::workflow::Workflow;
use crate::door::Need;
use crate::failure::{Exit, Failure};
use crate::render::lists;
use api::page::ListQuery;
use api::run::ActionRequest;
use api::workflow::ActivateRequest;

pub(crate) async fn workflow(app: &App, verb: &Workflow) -> Result<Exit, Failure> {
    let show = |workflow: &api::Workflow| lists::workflow(workflow, now());
    match verb {
        Workflow::Register { path, inactive } => {
            let request = program::registration(path, inactive.then_some(false))?;
            let registered = app.open(Need::Change).await?.client.register(&request).await;
            let registered = registered.map_err(|error| program::named(error.into(), path))?;
            app.out.object(&registered, lists::registered)?;
        }
        Workflow::List { paging } => {
            let query = ListQuery { limit: app.globals.limit, cursor: paging.cursor.clone() };
            let page = app.open(Need::Read).await?.client.workflows(&query).await?;
            app.out.page(&page, |workflows| lists::workflows(workflows, now()))?;
        }
        Workflow::Show { key } => {
            let workflow = app.open(Need::Read).await?.client.workflow(key).await?;
            app.out.object(&workflow, show)?;
        }
        Workflow::Activate { key, revision } => {
            let request = ActivateRequest { revision: *revision, reason: app.reason() };
            let workflow = app.open(Need::Change).await?.client.activate(key, &request).await?;
            app.out.object(&workflow, show)?;
        }
        Workflow::Pause { key } => {
            let request = ActionRequest { reason: app.reason() };
            app.out.object(&app.open(Need::Change).await?.client.pause_workflow(key, &request).await?, show)?;
        }
        Workflow::Resume { key } => {
            let request = ActionRequest { reason: app.reason() };
            app.out.object(&app.open(Need::Change).await?.client.resume_workflow(key, &request).await?, show)?;
        }
    }
    Ok(Exit::Fine)
}
