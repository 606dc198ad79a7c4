//! `/v1/jobs` (I-28).

use super::Done;
use crate::auth::Caller;
use crate::http::App;
use crate::http::extract::{Body, Id, LARGE, NoQuery, Query};
use api::Problem;
use api::job::{AckRequest, ClaimRequest, ClaimedJobs, CompleteRequest, FailRequest, HeartbeatRequest, Job, JobQuery};
use api::page::Page;
use axum::Json;
use axum::extract::State;
use protocol::id::JobId;

/// List jobs, newest first, without what is to be done and what came of it.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(JobQuery), responses(
    (status = 200, description = "A page.", body = Page<Job>),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn list(State(app): State<App>, Caller(by): Caller, Query(query): Query<JobQuery>) -> Done<Page<Job>> {
    Ok(Json(app.service.jobs(&by, &query).await?))
}

/// Claim jobs of a kind, of highest priority and oldest first. The same claim id answers the same jobs.
#[utoipa::path(post, path = "/v1/jobs/claim", tag = "jobs", request_body = ClaimRequest, responses(
    (status = 200, description = "The jobs, perhaps none, each with its task and its token.", body = ClaimedJobs),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn claim(
    State(app): State<App>,
    Caller(by): Caller,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<ClaimRequest>,
) -> Done<ClaimedJobs> {
    Ok(Json(app.service.claim_jobs(&by, &request).await?))
}

/// Say that the agent lives, and learn whether to stop.
#[utoipa::path(post, path = "/v1/jobs/{id}/heartbeat", tag = "jobs", request_body = HeartbeatRequest,
    params(("id" = String, Path, description = "A `job_` id.")), responses(
    (status = 200, description = "`stop` says whether to stop.", body = Job),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<JobId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<HeartbeatRequest>,
) -> Done<Job> {
    Ok(Json(app.service.heartbeat(&by, id, request.token, request.progress.as_ref()).await?))
}

/// Bring the result. The run that waits goes on.
#[utoipa::path(post, path = "/v1/jobs/{id}/complete", tag = "jobs", request_body = CompleteRequest,
    params(("id" = String, Path, description = "A `job_` id.")), responses(
    (status = 200, description = "It succeeded, by this request or before; `changed` tells.", body = Job),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn complete(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<JobId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<CompleteRequest, LARGE>,
) -> Done<Job> {
    Ok(Json(app.service.complete(&by, id, request.token, &request.result).await?))
}

/// Say that the work failed.
#[utoipa::path(post, path = "/v1/jobs/{id}/fail", tag = "jobs", request_body = FailRequest,
    params(("id" = String, Path, description = "A `job_` id.")), responses(
    (status = 200, description = "It failed, by this request or before; `changed` tells.", body = Job),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn fail(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<JobId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<FailRequest, LARGE>,
) -> Done<Job> {
    Ok(Json(app.service.fail_job(&by, id, request.token, &request.error).await?))
}

/// Say that the agent has stopped, as it was asked to.
#[utoipa::path(post, path = "/v1/jobs/{id}/ack-cancel", tag = "jobs", request_body = AckRequest,
    params(("id" = String, Path, description = "A `job_` id.")), responses(
    (status = 200, description = "It is known to have stopped; `changed` tells whether by this request.", body = Job),
    (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json")
))]
pub(crate) async fn ack_cancel(
    State(app): State<App>,
    Caller(by): Caller,
    Id(id): Id<JobId>,
    Query(NoQuery {}): Query<NoQuery>,
    Body(request): Body<AckRequest>,
) -> Done<Job> {
    Ok(Json(app.service.ack_cancel(&by, id, request.token).await?))
}
