//! `stasis job` (I-7).

use super::{now, runs};
use crate::app::App;
use crate::args::job::Job as Verb;
use crate::carry;
use crate::door::Need;
use crate::failure::{Exit, Failure};
use crate::{input, render};
use api::Json;
use api::job::{AckRequest, ClaimRequest, CompleteRequest, FailRequest, HeartbeatRequest, Job, JobQuery};
use api::run::Until;

pub(crate) async fn job(app: &App, verb: &Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::List { kind, run, open, paging } => {
            let (limit, cursor) = (app.globals.limit, paging.cursor.clone());
            let query = JobQuery { run: *run, kind: kind.clone(), open: open.then_some(true), limit, cursor };
            let page = app.open(Need::Read).await?.client.jobs(&query).await?;
            app.out.page(&page, |jobs| render::lists::jobs(jobs, now()))?;
        }
        Verb::Claim(claim) => {
            let request = ClaimRequest {
                kind: claim.kind.clone(),
                worker: claim.worker.clone(),
                lease: claim.lease.clone(),
                claim_id: claim.claim_id.clone().unwrap_or_else(|| app.new_signal().to_string()),
                limit: app.globals.limit,
            };
            let claimed = app.open(Need::Change).await?.client.claim_jobs(&request).await?;
            app.out.object(&claimed, |claimed| render::lists::claimed(&claimed.items))?;
        }
        Verb::Heartbeat { held, progress } => {
            let progress = progress.as_deref().map(|text| input::json(text, &mut std::io::stdin())).transpose()?;
            let request = HeartbeatRequest { token: held.job_token, progress };
            let job = app.open(Need::Change).await?.client.heartbeat(held.id, &request).await?;
            app.out.object(&job, render::lists::job)?;
        }
        Verb::Complete { held, result, wait } => {
            let result = input::json(result, &mut std::io::stdin())?;
            let request = CompleteRequest { token: held.job_token, result };
            let door = app.open(runs::carrying(app)).await?;
            let job = door.client.complete_job(held.id, &request).await?;
            ended(app, &door, job, *wait).await?;
        }
        Verb::Fail { held, error, wait } => {
            let error = Json::of(error).map_err(|error| Failure::unreadable(error.to_string()))?;
            let request = FailRequest { token: held.job_token, error };
            let door = app.open(runs::carrying(app)).await?;
            let job = door.client.fail_job(held.id, &request).await?;
            ended(app, &door, job, *wait).await?;
        }
        Verb::AckCancel { held } => {
            let request = AckRequest { token: held.job_token };
            let job = app.open(Need::Change).await?.client.ack_cancel(held.id, &request).await?;
            app.out.object(&job, render::lists::job)?;
        }
    }
    Ok(Exit::Fine)
}

/// Prints a job that has ended, and without a server carries its run on to its next stop (I-1b).
async fn ended(app: &App, door: &crate::door::Door, job: Job, wait: bool) -> Result<(), Failure> {
    app.works_on(job.run);
    if door.carries(&app.globals, wait) {
        let run = carry::wait(&app.out, door, job.run, Until::Stopped, None).await?.0;
        app.out.say(render::run::brief(&run, now()).trim_end());
    }
    app.out.object(&job, render::lists::job)
}
