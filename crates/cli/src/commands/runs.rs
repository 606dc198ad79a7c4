//! `stasis run` and its verbs (I-2, I-5).

use super::{now, program, tail};
use crate::app::App;
use crate::args::run::{ABSENT_VERBS, Fork, List, RunArgs, RunVerb, Start, Wait};
use crate::carry;
use crate::door::{Door, Need};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::render;
use api::approval::{ApprovalQuery, Order};
use api::page::ListQuery;
use api::run::{ActionRequest, AttestRequest, ForkRequest, MoveRequest, RunQuery, Until};
use api::{Approval, Call, Json, Run, StartRun};
use protocol::id::RunId;

/// The most items a page may have.
const PAGE: u32 = 500;

pub(crate) async fn run(app: &App, args: &RunArgs) -> Result<Exit, Failure> {
    let Some(verb) = &args.verb else {
        let Some(file) = &args.file else { return Err(Failure::usage("give a program to run, or a verb")) };
        if let Some(word) = file.to_str().filter(|word| ABSENT_VERBS.contains(word)) {
            let hint = format!("a file of that name is ./{word}");
            return Err(Failure::usage_with_hint(format!("`{word}` is a verb that this build does not have"), hint));
        }
        return program::run(app, file, args.input.as_deref()).await;
    };
    if args.file.is_some() || args.input.is_some() {
        return Err(Failure::usage("give a program to run, or a verb, not both"));
    }
    match verb {
        RunVerb::Start(start) => begin(app, start).await,
        RunVerb::List(list) => runs(app, list).await,
        RunVerb::Show { run } => show(app, *run).await,
        RunVerb::Wait(wait) => wait_for(app, wait).await,
        RunVerb::Log(follow) => tail::log(app, follow).await,
        RunVerb::Calls { run, paging } => {
            let door = app.open(Need::Read).await?;
            let query = ListQuery { limit: app.globals.limit, cursor: paging.cursor.clone() };
            let page = door.client.calls(*run, &query).await?;
            app.out.page(&page, |calls| render::lists::calls(calls, now()))?;
            Ok(Exit::Fine)
        }
        RunVerb::Events(follow) => tail::events(app, follow).await,
        RunVerb::Explain { run } => {
            let explain = app.open(Need::Read).await?.client.explain(*run).await?;
            app.out.object(&explain, |explain| render::run::explain(explain, now()))?;
            Ok(Exit::Fine)
        }
        RunVerb::Pause { run } => {
            let request = ActionRequest { reason: app.reason() };
            let run = app.open(Need::Change).await?.client.pause(*run, &request).await?;
            app.out.object(&run, |run| render::run::paused(run, now()))?;
            Ok(Exit::Fine)
        }
        RunVerb::Resume { run } => resume(app, *run).await,
        RunVerb::Fork(given) => fork(app, given).await,
        RunVerb::Move { run, to } => {
            let request = MoveRequest { revision: *to, reason: app.reason() };
            // The proof runs the program, and needs what carries runs.
            let need = Need::Carry { hot: false };
            let run = app.open(need).await?.client.move_run(*run, &request).await?;
            app.out.object(&run, |run| render::run::brief(run, now()))?;
            Ok(Exit::Fine)
        }
        RunVerb::Attest { run, obligation } => {
            let reason =
                app.reason().ok_or_else(|| Failure::usage("give `--reason`: why you know that it has stopped"))?;
            let request = AttestRequest { obligation: obligation.clone(), reason };
            let run = app.open(Need::Change).await?.client.attest(*run, &request).await?;
            app.out.object(&run, |run| render::run::brief(run, now()))?;
            Ok(Exit::Fine)
        }
        RunVerb::Cancel { run } => cancel(app, *run).await,
    }
}

/// What a command needs that sees a run to its next stop and asks nobody: a run that waits parks at once (I-19b).
pub(crate) fn carrying(app: &App) -> Need {
    if app.globals.no_run { Need::Change } else { Need::Carry { hot: false } }
}

async fn begin(app: &App, start: &Start) -> Result<Exit, Failure> {
    let given = start.input.as_deref().map(|input| input::json(input, &mut std::io::stdin())).transpose()?;
    let request = StartRun {
        priority: start.priority,
        queue: start.queue.clone(),
        session: start.session.clone(),
        labels: start.label.iter().cloned().collect(),
        deadline: start.deadline,
        ..StartRun::of(&start.key, given)
    };
    let door = app.open(carrying(app)).await?;
    let run = match &start.idempotency_key {
        Some(key) => door.client.start(&request, Some(key)).await?,
        None => door.client.put_run(app.new_run(), &request).await?,
    };
    started(app, &door, run, start.wait).await
}

/// The new run has an id of ours, so that asking again makes no second one.
async fn fork(app: &App, given: &Fork) -> Result<Exit, Failure> {
    let labels = (!given.label.is_empty()).then(|| given.label.iter().cloned().collect());
    let request = ForkRequest { seq: given.from, id: Some(app.new_run()), labels, priority: given.priority };
    let door = app.open(carrying(app)).await?;
    let run = door.client.fork(given.run, &request).await?;
    started(app, &door, run, given.wait).await
}

/// Prints the run that was started; with `--wait` its outcome, and exits by it.
async fn started(app: &App, door: &Door, run: Run, wait: bool) -> Result<Exit, Failure> {
    let created = run.created;
    app.works_on(run.id);
    let run = if door.carries(&app.globals, wait) {
        carry::wait(&app.out, door, run.id, Until::Stopped, None).await?.0
    } else {
        run
    };
    if wait {
        return concluded(app, door, run, None).await;
    }
    app.out.object(&Run { created, ..run }, |run| render::run::brief(run, now()))?;
    Ok(Exit::Fine)
}

/// Prints the outcome and exits by it (I-2).
pub(crate) async fn concluded(app: &App, door: &Door, run: Run, decided: Option<Approval>) -> Result<Exit, Failure> {
    let outcome = carry::outcome(door, run, decided).await?;
    let exit = Exit::of_run(outcome.run.status);
    app.out.object(&outcome, |outcome| render::run::outcome(outcome, now()))?;
    Ok(exit)
}

async fn runs(app: &App, list: &List) -> Result<Exit, Failure> {
    let query = RunQuery {
        status: list.status.clone(),
        workflow: list.workflow.clone(),
        label: list.label.clone(),
        waiting_for: list.waiting_for.clone(),
        created_after: list.created_after.map(|at| at.to_string()),
        created_before: list.created_before.map(|at| at.to_string()),
        limit: app.globals.limit,
        cursor: list.paging.cursor.clone(),
    };
    let page = app.open(Need::Read).await?.client.runs(&query).await?;
    app.out.page(&page, |runs| render::run::list(runs, now()))?;
    Ok(Exit::Fine)
}

/// The run as the API gives it; for people with its calls and approvals, which are the rest of its story.
async fn show(app: &App, id: RunId) -> Result<Exit, Failure> {
    let door = app.open(Need::Read).await?;
    let run = door.client.run(id).await?;
    if !app.out.format.is_table() {
        app.out.object(&run, |_| String::new())?;
        return Ok(Exit::Fine);
    }
    let calls = all_calls(&door, id).await?;
    let query = ApprovalQuery {
        run: Some(id),
        status: Some("all".into()),
        order: Some(Order::Oldest),
        limit: Some(PAGE),
        ..ApprovalQuery::default()
    };
    let approvals = door.client.approvals(&query).await?.items;
    app.out.object(&run, |run| render::run::story(run, &calls, &approvals, now()))?;
    Ok(Exit::Fine)
}

async fn all_calls(door: &Door, id: RunId) -> Result<Vec<Call>, Failure> {
    let mut calls = Vec::new();
    let mut cursor = None;
    loop {
        let page = door.client.calls(id, &ListQuery { limit: Some(PAGE), cursor }).await?;
        calls.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(calls);
        }
    }
}

async fn wait_for(app: &App, wait: &Wait) -> Result<Exit, Failure> {
    let door = app.open(Need::Carry { hot: false }).await?;
    app.works_on(wait.run);
    let (run, there) = carry::wait(&app.out, &door, wait.run, wait.until, wait.timeout).await?;
    if !there {
        app.out.say(&format!("{} is {} after the time that was given", run.id, run.status));
    }
    concluded(app, &door, run, None).await
}

async fn cancel(app: &App, id: RunId) -> Result<Exit, Failure> {
    app.confirm(&format!("Cancel {id}? What it did stays done.")).await?;
    let door = app.open(carrying(app)).await?;
    let mut run = door.client.cancel(id, &ActionRequest { reason: app.reason() }).await?;
    if run.status.is_stopping() && door.carries(&app.globals, false) {
        let changed = run.changed;
        run = Run { changed, ..carry::wait(&app.out, &door, id, Until::Stopped, None).await?.0 };
    }
    app.out.object(&run, |run| render::run::brief(run, now()))?;
    Ok(Exit::Fine)
}

/// Without a server the run is carried on to its next stop.
async fn resume(app: &App, id: RunId) -> Result<Exit, Failure> {
    let door = app.open(carrying(app)).await?;
    app.works_on(id);
    let mut run = door.client.resume(id, &ActionRequest { reason: app.reason() }).await?;
    if door.carries(&app.globals, false) {
        let changed = run.changed;
        run = Run { changed, ..carry::wait(&app.out, &door, id, Until::Stopped, None).await?.0 };
    }
    app.out.object(&run, |run| render::run::brief(run, now()))?;
    Ok(Exit::Fine)
}

/// `{}` where no input is given (I-2).
pub(crate) fn input_or_empty(argument: Option<&str>) -> Result<Json, Failure> {
    input::json(argument.unwrap_or("{}"), &mut std::io::stdin())
}
