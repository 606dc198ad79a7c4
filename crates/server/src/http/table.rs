//! Every route of the API: method, path, handler, and what a caller needs for it.
//!
//! The router and the list are made from one table, so a route without its right, or a right without its route, cannot be
//! written. The tests walk the list: each route against each kind of caller (C-305), each GET for changing nothing (C-214),
//! and each in the OpenAPI document.

use super::routes::{approvals, audit, effects, events, jobs, operate, runs, signals, webhooks, workflows};
use super::{App, openapi};
use axum::Router;
use axum::routing::{delete, get, post, put};
use protocol::principal::Right;

/// What a caller needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing: it tells nothing about anybody.
    Nothing,
    /// One of these rights, in the namespace of what is asked for.
    OneOf(&'static [Right]),
}

/// A route as it is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub needs: Needs,
}

macro_rules! table {
    ($($method:ident $path:literal => $handler:path, $needs:expr;)*) => {
        /// Every route, in the order of interfaces.md.
        pub const ROUTES: &[Route] = &[$(Route { method: verb!($method), path: $path, needs: $needs }),*];

        pub(super) fn router() -> Router<App> {
            Router::new()$(.route($path, $method($handler)))*
        }
    };
}

macro_rules! verb {
    (get) => {
        "GET"
    };
    (post) => {
        "POST"
    };
    (put) => {
        "PUT"
    };
    (delete) => {
        "DELETE"
    };
}

const READ: Needs = Needs::OneOf(&[Right::RunsRead]);
/// Whoever decides may know what there is to decide.
const READ_OR_DECIDE: Needs = Needs::OneOf(&[Right::RunsRead, Right::ApprovalsDecide]);
const START: Needs = Needs::OneOf(&[Right::RunsStart]);
const CANCEL: Needs = Needs::OneOf(&[Right::RunsCancel]);
const ATTEST: Needs = Needs::OneOf(&[Right::RunsAttest]);
const PAUSE: Needs = Needs::OneOf(&[Right::RunsPause]);
const MOVE: Needs = Needs::OneOf(&[Right::RunsMove]);
const SEND: Needs = Needs::OneOf(&[Right::SignalsSend]);
const CLAIM: Needs = Needs::OneOf(&[Right::JobsClaim]);
const DECIDE: Needs = Needs::OneOf(&[Right::ApprovalsDecide]);
const REGISTER: Needs = Needs::OneOf(&[Right::WorkflowsWrite]);
const TOOLS: Needs = Needs::OneOf(&[Right::ToolsWrite]);
const AUDIT: Needs = Needs::OneOf(&[Right::AuditRead]);
const ADMIN: Needs = Needs::OneOf(&[Right::Admin]);

table! {
    post "/v1/workflows" => workflows::register, REGISTER;
    get "/v1/workflows" => workflows::list, READ;
    get "/v1/workflows/{key}" => workflows::show, READ;
    post "/v1/workflows/{key}/activate" => workflows::activate, REGISTER;
    post "/v1/workflows/{key}/pause" => workflows::pause, PAUSE;
    post "/v1/workflows/{key}/resume" => workflows::resume, PAUSE;
    get "/v1/patterns/{id}" => workflows::pattern, READ;

    post "/v1/runs" => runs::start, START;
    put "/v1/runs/{id}" => runs::put, START;
    get "/v1/runs" => runs::list, READ;
    get "/v1/runs/{id}" => runs::show, READ;
    get "/v1/runs/{id}/wait" => runs::wait, READ;
    post "/v1/runs/{id}/cancel" => runs::cancel, CANCEL;
    post "/v1/runs/{id}/pause" => runs::pause, PAUSE;
    post "/v1/runs/{id}/resume" => runs::resume, PAUSE;
    post "/v1/runs/{id}/fork" => runs::fork, START;
    post "/v1/runs/{id}/move" => runs::move_run, MOVE;
    post "/v1/runs/{id}/attest" => runs::attest, ATTEST;
    get "/v1/runs/{id}/explain" => runs::explain, READ;
    get "/v1/runs/{id}/events" => events::of_run, READ;
    get "/v1/runs/{id}/calls" => runs::calls, READ;
    get "/v1/runs/{id}/log" => runs::log, READ;
    get "/v1/runs/{id}/checkpoint" => runs::checkpoint, READ;

    post "/v1/jobs/claim" => jobs::claim, CLAIM;
    post "/v1/jobs/{id}/heartbeat" => jobs::heartbeat, CLAIM;
    post "/v1/jobs/{id}/complete" => jobs::complete, CLAIM;
    post "/v1/jobs/{id}/fail" => jobs::fail, CLAIM;
    post "/v1/jobs/{id}/ack-cancel" => jobs::ack_cancel, CLAIM;
    get "/v1/jobs" => jobs::list, READ;

    post "/v1/runs/{id}/signals/{name}" => signals::to_run, SEND;
    post "/v1/waits/{id}/signals" => signals::to_wait, SEND;

    get "/v1/approvals" => approvals::list, READ_OR_DECIDE;
    get "/v1/approvals/{id}" => approvals::show, READ_OR_DECIDE;
    post "/v1/approvals/{id}/extend" => approvals::extend, DECIDE;
    post "/v1/approvals/{id}/read" => approvals::read, AUDIT;
    post "/v1/calls/{id}/read" => runs::read_call, AUDIT;
    post "/v1/approvals/{id}/decisions" => approvals::decide, DECIDE;
    post "/v1/approvals:decide" => approvals::decide_batch, DECIDE;

    get "/v1/effects" => effects::list, READ;
    post "/v1/effects/{call}/settle" => effects::settle, DECIDE;

    get "/v1/guests" => operate::guests, READ;
    get "/v1/tools" => operate::tools, READ;
    get "/v1/tools/{name}" => operate::tool, READ;
    post "/v1/tools/{name}/withdraw" => operate::withdraw, TOOLS;
    get "/v1/resources" => operate::resources, READ;
    post "/v1/resources/{name}/reset" => operate::reset_resource, ADMIN;
    get "/v1/queues" => operate::queues, READ;
    post "/v1/queues/{name}/pause" => operate::pause_queue, PAUSE;
    post "/v1/queues/{name}/resume" => operate::resume_queue, PAUSE;
    get "/v1/events" => events::of_all, READ;

    get "/v1/audit/head" => audit::head, AUDIT;
    get "/v1/audit/anchors" => audit::anchors, AUDIT;
    post "/v1/audit/verify" => audit::verify, AUDIT;
    post "/v1/audit/compare" => audit::compare, AUDIT;
    post "/v1/audit/anchor" => audit::anchor, AUDIT;
    post "/v1/audit/accept" => audit::accept, ADMIN;

    post "/v1/webhooks" => webhooks::make, ADMIN;
    get "/v1/webhooks" => webhooks::list, ADMIN;
    delete "/v1/webhooks/{id}" => webhooks::remove, ADMIN;
    get "/v1/webhooks/{id}/messages" => webhooks::messages, ADMIN;
    post "/v1/webhooks/{id}/messages/{msg}/redeliver" => webhooks::redeliver, ADMIN;

    post "/v1/tokens" => operate::new_token, ADMIN;
    get "/v1/tokens" => operate::tokens, ADMIN;
    post "/v1/tokens/{id}/revoke" => operate::revoke_token, ADMIN;
    get "/v1/doctor" => operate::doctor, ADMIN;
    post "/v1/backup" => operate::backup, ADMIN;

    get "/healthz" => operate::healthy, Needs::Nothing;
    get "/readyz" => operate::ready, Needs::Nothing;
    get "/metrics" => operate::metrics, Needs::Nothing;
    get "/openapi.json" => openapi::document, Needs::Nothing;
}
