//! Workflows in Rust: their steps, waits, returns and ends, on a real ledger with a real payments server.

mod asks;
mod ends;
mod holds;
mod pins;
mod steps;

use crate::desk::{Desk, Setting, local, request};
use engine::workflow::{About, Cx, Step, StepError, Workflow, Workflows};
use futures_util::future::BoxFuture;
use protocol::event::Kind;
use protocol::id::RunId;
use protocol::run::Run;
use serde_json::Value;
use std::sync::Arc;

/// A workflow whose steps a test writes down where it needs them.
#[derive(Clone)]
pub(crate) struct Program<const REVISION: u32 = 1>(Arc<Body<REVISION>>);

type Body<const REVISION: u32> = dyn for<'a> Fn(String, &'a mut Value, &'a Cx) -> Stepping<'a, REVISION> + Send + Sync;
pub(crate) type Stepping<'a, const REVISION: u32 = 1> = BoxFuture<'a, Result<Step<Program<REVISION>>, StepError>>;

/// The revision that has the tools of a shop.
pub(crate) const SHOP: u32 = 2;
/// The one that has a model which must be warm.
pub(crate) const MODELS: u32 = 3;

pub(crate) fn program(
    body: impl for<'a> Fn(String, &'a mut Value, &'a Cx) -> Stepping<'a> + Send + Sync + 'static,
) -> Program {
    Program(Arc::new(body))
}

pub(crate) fn shopping(
    body: impl for<'a> Fn(String, &'a mut Value, &'a Cx) -> Stepping<'a, SHOP> + Send + Sync + 'static,
) -> Program<SHOP> {
    Program(Arc::new(body))
}

pub(crate) fn thinking(
    body: impl for<'a> Fn(String, &'a mut Value, &'a Cx) -> Stepping<'a, MODELS> + Send + Sync + 'static,
) -> Program<MODELS> {
    Program(Arc::new(body))
}

impl<const REVISION: u32> Workflow for Program<REVISION> {
    const KEY: &'static str = "program";
    const REVISION: u32 = REVISION;
    const IMPLEMENTATION: &'static str = "as the test has it";
    const SCHEMA: &'static str = "program.state.v1";
    type Input = Value;
    type Output = Value;
    type Node = String;
    type State = Value;

    fn about() -> About {
        let tools: &[&str] = match REVISION {
            SHOP => &["shop.buy", "shop.look"],
            MODELS => &["small.ask"],
            _ => &["payments.order", "payments.refund", "mail.send", "mail.drop"],
        };
        About { tools: tools.iter().map(|tool| (*tool).to_owned()).collect(), ..About::default() }
    }

    fn start(&self, input: Value) -> (String, Value) {
        ("first".to_owned(), input)
    }

    async fn step(&self, node: String, state: &mut Value, cx: &Cx) -> Result<Step<Self>, StepError> {
        (self.0)(node, state, cx).await
    }
}

pub(crate) fn next<const REVISION: u32>(node: &str) -> Step<Program<REVISION>> {
    Step::Next(node.to_owned())
}

pub(crate) fn setting<const REVISION: u32>(program: &Program<REVISION>) -> Setting {
    Setting { workflows: Workflows::default().with(program.clone()), ..Setting::default() }
}

/// A desk that has this program, registered.
pub(crate) async fn desk(program: &Program) -> Desk {
    desk_with(setting(program)).await
}

pub(crate) async fn desk_with(setting: Setting) -> Desk {
    let desk = Desk::with(setting).await;
    desk.engine.install(local()).await.expect("installed");
    desk
}

pub(crate) async fn begin(desk: &Desk, input: &str) -> RunId {
    desk.engine.start_run(local(), request(input)).await.expect("started").run.id
}

/// Starts a run and waits for its next stop.
pub(crate) async fn run(desk: &Desk, input: &str) -> Run {
    let run = begin(desk, input).await;
    desk.stopped(run).await
}

pub(crate) async fn checkpoint(desk: &Desk, run: RunId) -> Value {
    let bytes = desk.engine.ledger().checkpoint(run).await.expect("read").expect("a checkpoint");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// The events of one kind, each with its facts.
pub(crate) async fn told(desk: &Desk, run: RunId, kind: Kind) -> Vec<Value> {
    let events = desk.engine.ledger().events(run, None, 200).await.expect("read").expect("a run");
    let of = events.iter().filter(|event| event.kind == kind);
    of.map(|event| serde_json::from_str(event.facts.canonical().as_str()).expect("JSON")).collect()
}
