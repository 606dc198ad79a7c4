//! Workflows in Rust: typed state, taken from step to step by code that is compiled into this process (runs.md section 6).
//!
//! Owns: what an embedder implements, and the set of it that a build has. It carries nothing: a hop does, in `hop::steps`.
//! Invariant: what is stored of a run is its typed state between two steps and the calls it made; no stack, no future, no
//! handle (R-37).

mod cx;
mod error;
mod install;
mod set;

pub use cx::{Answer, Call, Cx, Decision, Either, Gate, Won};
pub use error::{CallError, Ended, Errors, StepError, Waits};
pub use install::InstallError;
pub use set::Workflows;

pub(crate) use cx::{Desk, Intent, Request};
pub(crate) use error::{Ambiguous, Signal};
pub(crate) use install::{check, install, is_of};
pub(crate) use set::{Code, Stand, Went};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A workflow in Rust.
///
/// Its steps run one after the other over one state. Nothing of a step is stored while it runs: when it waits, it ends, and
/// the same step runs again from the state as it left it once the wait is over. A worker that dies inside a step ends the
/// run `worker lost`, for nobody knows what the step had done (R-299); one that dies in a wait loses nothing.
///
/// ```
/// use engine::workflow::{About, Cx, Step, StepError, Workflow};
/// use serde::{Deserialize, Serialize};
///
/// struct Refund;
///
/// #[derive(Clone, Serialize, Deserialize)]
/// #[serde(rename_all = "snake_case")]
/// enum At { Ask, Pay }
///
/// #[derive(Serialize, Deserialize)]
/// struct Order { id: String, amount: u32 }
///
/// impl Workflow for Refund {
///     const KEY: &'static str = "refund";
///     const REVISION: u32 = 1;
///     const IMPLEMENTATION: &'static str = "2026-12-01";
///     const SCHEMA: &'static str = "refund.state.v1";
///     type Input = Order;
///     type Output = String;
///     type Node = At;
///     type State = Order;
///
///     fn about() -> About {
///         About { tools: vec!["payments.refund".to_owned()], ..About::default() }
///     }
///
///     fn start(&self, order: Order) -> (At, Order) {
///         (At::Ask, order)
///     }
///
///     async fn step(&self, at: At, order: &mut Order, cx: &Cx) -> Result<Step<Self>, StepError> {
///         match at {
///             At::Ask => {
///                 let decision = cx.gate(format!("Refund {}?", order.amount)).await?;
///                 Ok(if decision.approved() { Step::Next(At::Pay) } else { Step::End("no".to_owned()) })
///             }
///             At::Pay => Ok(Step::End(cx.call("payments.refund", order).await?)),
///         }
///     }
/// }
/// ```
pub trait Workflow: Send + Sync + Sized + 'static {
    /// The workflow's key (W-1).
    const KEY: &'static str;
    /// The pattern's revision, from 1. A run returns on the revision it began with, so a build has to keep the code of each
    /// revision that runs still wait on.
    const REVISION: u32;
    /// The declared implementation revision: another text for other code. Two builds that differ in it for one revision are
    /// refused at start (R-347).
    const IMPLEMENTATION: &'static str;
    /// Id of the schema of `State`, which checkpoints name. Another shape is another schema, with a migrator to it (R-330).
    const SCHEMA: &'static str;
    /// Earlier revisions whose runs this code may go on with, once somebody moves them (R-350): it reads their state, if need be
    /// through a migrator, knows their nodes, and makes the calls of a node in their order.
    const CONTINUES: &'static [u32] = &[];

    type Input: DeserializeOwned;
    type Output: Serialize;
    /// Where a run stands; as JSON a text, such as that of an enum without fields.
    type Node: Serialize + DeserializeOwned + Clone + Send + Sync;
    type State: Serialize + DeserializeOwned + Send + Sync;

    /// What is registered beside key and revision.
    fn about() -> About {
        About::default()
    }

    /// The first node and the state in which it begins. It is called once a run, and reads nothing but the input.
    fn start(&self, input: Self::Input) -> (Self::Node, Self::State);

    /// Does one step. Whatever it is to remember it leaves in `state`; whatever leaves the process goes through `cx`.
    fn step(
        &self,
        node: Self::Node,
        state: &mut Self::State,
        cx: &Cx,
    ) -> impl Future<Output = Result<Step<Self>, StepError>> + Send;
}

/// What a step answers; its error says that it failed, or that it waits (R-128).
pub enum Step<W: Workflow> {
    /// The next step, in the state as this one left it.
    Next(W::Node),
    /// The run ends with this result.
    End(W::Output),
}

/// What a workflow says of itself, for its registration.
#[derive(Clone, Debug)]
pub struct About {
    pub title: Option<String>,
    /// Names of the tools of its plan, each as the configuration has it when this revision is registered. Built-in ones are
    /// always there.
    pub tools: Vec<String>,
    /// JSON Schema of the input; `{}` is anything.
    pub input: serde_json::Value,
    /// JSON Schema of the output.
    pub output: serde_json::Value,
    /// Counted calls of one run; none is the engine's own limit.
    pub max_calls: Option<u32>,
    /// Time that steps themselves may execute, waits and calls apart; none is the engine's default (R-375).
    pub active_limit: Option<Duration>,
    /// Whether runs may park (R-137).
    pub resume: bool,
}

impl Default for About {
    fn default() -> About {
        let any = serde_json::Value::Object(serde_json::Map::new());
        About {
            title: None,
            tools: Vec::new(),
            input: any.clone(),
            output: any,
            max_calls: None,
            active_limit: None,
            resume: true,
        }
    }
}
