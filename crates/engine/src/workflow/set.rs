//! The workflows of a build, with their types put away.
//!
//! Owns: finding the code that a pattern names, and running it over state that is kept as JSON. Invariant: a state is read
//! as the type of its code before anything of a run is executed.

use super::{About, Cx, Step, StepError, Workflow};
use futures_util::future::BoxFuture;
use protocol::digest::Digest;
use protocol::json::{Canonical, to_canonical};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The workflows in Rust that a build has, by key and revision.
#[derive(Clone, Default)]
pub struct Workflows(BTreeMap<(&'static str, u32), Arc<dyn Code>>);

impl Workflows {
    /// Adds one. Of two with the same key and revision the later one counts.
    #[must_use]
    pub fn with<W: Workflow>(mut self, workflow: W) -> Workflows {
        self.0.insert((W::KEY, W::REVISION), Arc::new(Typed(Arc::new(workflow))));
        self
    }

    pub(crate) fn get(&self, key: &str, revision: u32) -> Option<&Arc<dyn Code>> {
        self.0.iter().find(|((known, of), _)| *known == key && *of == revision).map(|(_, code)| code)
    }

    /// In the order of keys, and of each key the oldest revision first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Code>> {
        self.0.values()
    }
}

impl std::fmt::Debug for Workflows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The code of one revision.
pub(crate) trait Code: Send + Sync {
    fn key(&self) -> &'static str;
    fn revision(&self) -> u32;
    fn implementation(&self) -> &'static str;
    fn schema(&self) -> &'static str;
    fn continues(&self) -> &'static [u32];
    fn about(&self) -> About;
    /// Where a run with this input begins; else what is wrong with the input.
    fn start(&self, input: &[u8]) -> Result<Box<dyn Stand>, String>;
    /// A run at this node, in this state; else what is wrong with them.
    fn stand(&self, node: &str, state: Value) -> Result<Box<dyn Stand>, String>;

    /// The source digest of the pattern.
    fn source(&self) -> Digest {
        Digest::of(self.implementation())
    }
}

/// A run's typed state, at a node.
pub(crate) trait Stand: Send + Sync {
    fn node(&self) -> &str;
    fn state(&self) -> Result<Value, String>;
    /// Runs the step of the node. After a `Next` it stands at the next one.
    fn step<'a>(&'a mut self, cx: &'a Cx) -> BoxFuture<'a, Result<Went, StepError>>;
}

/// What a step answered.
#[derive(Debug)]
pub(crate) enum Went {
    Next,
    End(Canonical),
}

struct Typed<W>(Arc<W>);

struct At<W: Workflow> {
    workflow: Arc<W>,
    node: W::Node,
    name: String,
    state: W::State,
}

impl<W: Workflow> Code for Typed<W> {
    fn key(&self) -> &'static str {
        W::KEY
    }

    fn revision(&self) -> u32 {
        W::REVISION
    }

    fn implementation(&self) -> &'static str {
        W::IMPLEMENTATION
    }

    fn schema(&self) -> &'static str {
        W::SCHEMA
    }

    fn continues(&self) -> &'static [u32] {
        W::CONTINUES
    }

    fn about(&self) -> About {
        W::about()
    }

    fn start(&self, input: &[u8]) -> Result<Box<dyn Stand>, String> {
        let input = serde_json::from_slice(input).map_err(|error| error.to_string())?;
        let (node, state) = self.0.start(input);
        let name = name(&node)?;
        Ok(Box::new(At { workflow: self.0.clone(), node, name, state }))
    }

    fn stand(&self, node: &str, state: Value) -> Result<Box<dyn Stand>, String> {
        let name = node.to_owned();
        let node = serde_json::from_value(Value::String(name.clone())).map_err(|error| format!("node: {error}"))?;
        let state = serde_json::from_value(state).map_err(|error| format!("state: {error}"))?;
        Ok(Box::new(At { workflow: self.0.clone(), node, name, state }))
    }
}

impl<W: Workflow> Stand for At<W> {
    fn node(&self) -> &str {
        &self.name
    }

    fn state(&self) -> Result<Value, String> {
        serde_json::to_value(&self.state).map_err(|error| format!("the state cannot be written as JSON: {error}"))
    }

    fn step<'a>(&'a mut self, cx: &'a Cx) -> BoxFuture<'a, Result<Went, StepError>> {
        Box::pin(async move {
            match self.workflow.step(self.node.clone(), &mut self.state, cx).await? {
                Step::Next(node) => {
                    self.name = name(&node)?;
                    self.node = node;
                    Ok(Went::Next)
                }
                Step::End(output) => Ok(Went::End(to_canonical(&output)?)),
            }
        })
    }
}

/// A node as checkpoints and events name it.
fn name(node: &impl serde::Serialize) -> Result<String, String> {
    match serde_json::to_value(node) {
        Ok(Value::String(name)) => Ok(name),
        Ok(other) => Err(format!("a node is written as {other}, and has to be a text")),
        Err(error) => Err(format!("a node cannot be written as JSON: {error}")),
    }
}
