//! The OpenAPI 3.1 document, generated from the handlers and the wire types (interfaces.md, section 2).

use super::extract::{NoQuery, Query};
use super::routes::{approvals, audit, effects, events, jobs, operate, runs, signals, webhooks, workflows};
use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(title = "Stasis", description = "A runtime for agent work that has to stop and wait."),
    security(("bearer" = [])),
    modifiers(&Bearer),
    tags(
        (name = "runs", description = "One execution of a workflow; its row is the truth about it."),
        (name = "signals", description = "Messages from outside, for which programs wait."),
        (name = "jobs", description = "Work that runs hand over to agents outside."),
        (name = "approvals", description = "The question whether one call, or one gate, may go ahead."),
        (name = "effects", description = "Calls that change the world, and what is not known of them."),
        (name = "workflows", description = "Named things that can be run, in immutable revisions."),
        (name = "events", description = "The timeline of runs, which is also their audit log."),
        (name = "webhooks", description = "Messages to the outside about runs."),
        (name = "audit", description = "The proof that the record is what it was."),
        (name = "operate", description = "Guests, tools, tokens and the state of the installation."),
        (name = "health", description = "Open to everybody: whether the process lives, and its counts."),
    ),
    components(schemas(api::approval::Order, api::run::Until)),
    paths(
        workflows::register, workflows::list, workflows::show, workflows::activate, workflows::pause,
        workflows::resume, workflows::pattern,
        runs::start, runs::put, runs::list, runs::show, runs::wait, runs::cancel, runs::pause, runs::resume,
        runs::fork, runs::move_run, runs::attest, runs::explain, events::of_run, runs::calls, runs::log, runs::checkpoint,
        jobs::claim, jobs::heartbeat, jobs::complete, jobs::fail, jobs::ack_cancel, jobs::list,
        signals::to_run, signals::to_wait,
        approvals::list, approvals::show, approvals::read, runs::read_call, approvals::decide, approvals::extend, approvals::decide_batch,
        effects::list, effects::settle,
        operate::guests, operate::tools, operate::tool, operate::withdraw, operate::resources, operate::reset_resource, operate::queues,
        operate::pause_queue, operate::resume_queue, events::of_all,
        audit::head, audit::anchors, audit::verify, audit::compare, audit::anchor, audit::accept,
        webhooks::make, webhooks::list, webhooks::remove, webhooks::messages, webhooks::redeliver,
        operate::new_token, operate::tokens, operate::revoke_token, operate::doctor, operate::backup,
        operate::healthy, operate::ready, operate::metrics, document,
    ),
)]
struct Document;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// The document as it is served and as `docs/openapi.json` has it.
pub fn text() -> String {
    let mut document = Document::openapi();
    document.info.license = Some(utoipa::openapi::License::new("Apache-2.0"));
    document.to_pretty_json().expect("the document has text keys only") + "\n"
}

/// Read this document.
#[utoipa::path(get, path = "/openapi.json", tag = "health", security(()), responses((status = 200, description = "OpenAPI 3.1.")))]
pub(crate) async fn document(Query(NoQuery {}): Query<NoQuery>) -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}
