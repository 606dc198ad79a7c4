//! `stasis guest`, `resource`, `tool`, `queue`, `token` (I-9, I-11).

use super::{images, now};
use crate::app::App;
use crate::args::operate::{Guest, Queue, Resource, Token, Tool};
use crate::clock;
use crate::door::Need;
use crate::failure::{Exit, Failure};
use crate::render::lists;
use api::Problem;
use api::operate::NewToken;
use api::page::ListQuery;
use api::run::ActionRequest;
use protocol::code::Code;

pub(crate) async fn guest(app: &App, verb: &Guest) -> Result<Exit, Failure> {
    match verb {
        Guest::List => {
            let page = app.open(Need::Read).await?.client.guests().await?;
            app.out.page(&page, |guests| lists::guests(guests, now()))?;
        }
        Guest::Images => images::list(app).await?,
        Guest::Remove { images } => images::remove(app, images).await?,
    }
    Ok(Exit::Fine)
}

pub(crate) async fn tool(app: &App, verb: &Tool) -> Result<Exit, Failure> {
    match verb {
        Tool::List { paging } => {
            let query = ListQuery { limit: app.globals.limit, cursor: paging.cursor.clone() };
            let page = app.open(Need::Read).await?.client.tools(&query).await?;
            app.out.page(&page, lists::tools)?;
        }
        Tool::Show { name } => {
            let (name, version) = match name.split_once('@') {
                Some((name, version)) => (name, Some(version)),
                None => (name.as_str(), None),
            };
            let versions = app.open(Need::Read).await?.client.tool(name).await?.items;
            let wanted = versions.into_iter().find(|tool| version.is_none_or(|version| tool.version == version));
            let Some(tool) = wanted else {
                let detail = format!("{name} has no version {}", version.unwrap_or_default());
                return Err(Failure::of(Problem::of(Code::NotFound, detail)));
            };
            app.out.object(&tool, |tool| lists::tool(tool, now()))?;
        }
        Tool::Withdraw { name } => {
            app.confirm(&format!("Withdraw {name}? Runs that planned with it lose it.")).await?;
            let action = ActionRequest { reason: app.reason() };
            let page = app.open(Need::Change).await?.client.withdraw_tool(name, &action).await?;
            app.out.page(&page, lists::tools)?;
        }
    }
    Ok(Exit::Fine)
}

pub(crate) async fn resource(app: &App, verb: &Resource) -> Result<Exit, Failure> {
    match verb {
        Resource::List => {
            let page = app.open(Need::Read).await?.client.resources().await?;
            app.out.page(&page, lists::resources)?;
        }
        Resource::Show { name } => {
            let all = app.open(Need::Read).await?.client.resources().await?.items;
            let Some(resource) = all.into_iter().find(|resource| resource.name == *name) else {
                return Err(Failure::of(Problem::of(Code::NotFound, format!("there is no resource {name}"))));
            };
            app.out.object(&resource, |resource| lists::resources(std::slice::from_ref(resource)))?;
        }
        Resource::Reset { name } => {
            let resource = app.open(Need::Change).await?.client.reset_resource(name).await?;
            app.out.object(&resource, |resource| lists::resources(std::slice::from_ref(resource)))?;
        }
    }
    Ok(Exit::Fine)
}

pub(crate) async fn queue(app: &App, verb: &Queue) -> Result<Exit, Failure> {
    let request = ActionRequest { reason: app.reason() };
    match verb {
        Queue::List => {
            let page = app.open(Need::Read).await?.client.queues().await?;
            app.out.page(&page, |queues| lists::queues(queues, now()))?;
        }
        Queue::Pause { name } => {
            let queue = app.open(Need::Change).await?.client.pause_queue(name, &request).await?;
            app.out.object(&queue, |queue| lists::queues(std::slice::from_ref(queue), now()))?;
        }
        Queue::Resume { name } => {
            let queue = app.open(Need::Change).await?.client.resume_queue(name, &request).await?;
            app.out.object(&queue, |queue| lists::queues(std::slice::from_ref(queue), now()))?;
        }
    }
    Ok(Exit::Fine)
}

pub(crate) async fn token(app: &App, verb: &Token) -> Result<Exit, Failure> {
    match verb {
        Token::New { principal, right, expires } => {
            let expires_at = expires.map(|span| clock::now() + span);
            let request = NewToken { principal: principal.clone(), rights: right.clone(), expires_at };
            let token = app.open(Need::Change).await?.client.new_token(&request).await?;
            app.out.object(&token, |token| lists::token(token, now()))?;
        }
        Token::List { paging } => {
            let query = ListQuery { limit: app.globals.limit, cursor: paging.cursor.clone() };
            let page = app.open(Need::Read).await?.client.tokens(&query).await?;
            app.out.page(&page, |tokens| lists::tokens(tokens, now()))?;
        }
        Token::Revoke { id } => {
            let action = ActionRequest { reason: app.reason() };
            let token = app.open(Need::Change).await?.client.revoke_token(*id, &action).await?;
            app.out.object(&token, |token| lists::token(token, now()))?;
        }
    }
    Ok(Exit::Fine)
}
