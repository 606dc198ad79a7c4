//! What a run is pinned to: its pattern's program, plan, tools and schemas, read by digest and kept compiled.
//!
//! Invariant: a run uses what was sealed at registration, whatever the registry holds since (C-43, R-348).

use crate::inner::Inner;
use crate::reading::{self, Unread};
use crate::register::SCRIPT_STATE;
use crate::tools::Grant;
use crate::workflow::{self, Code};
use protocol::builtin;
use protocol::digest::Digest;
use protocol::json::Canonical;
use protocol::plan::{Plan, PlanSchema};
use protocol::run::{Kind, PatternRef, Run};
use protocol::schema::Schema;
use protocol::tool::ToolSpec;
use protocol::workflow::{Manifest, Pattern};
use sandbox::Sandbox;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pattern, ready to run.
pub(crate) struct Pinned {
    pub(crate) program: Program,
    /// Id of the schema of the checkpoints that are written here.
    pub(crate) schema: &'static str,
    /// The tools of the plan and the built-in ones, by name.
    pub(crate) tools: BTreeMap<String, PinnedTool>,
    pub(crate) output: Schema,
    /// What is sealed: its tools, how many calls it may make, and until when.
    pub(crate) plan: Plan,
}

/// What is executed.
pub(crate) enum Program {
    /// A Python program and the image it is pinned to.
    Script { source: String, sandbox: Sandbox },
    /// Steps of this build.
    Rust(Arc<dyn Code>),
    /// Nothing: there is nothing here to execute it with.
    None,
}

/// A tool as the plan sealed it.
#[derive(Debug)]
pub(crate) struct PinnedTool {
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) grant: Grant,
    pub(crate) grant_digest: Digest,
    pub(crate) input: Schema,
    pub(crate) output: Schema,
}

impl Pinned {
    /// For a run whose pattern cannot be used: nothing of it is ever called.
    pub(crate) fn none() -> Pinned {
        let any = protocol::json::canonicalize(b"{}").expect("an object");
        Pinned {
            program: Program::None,
            schema: SCRIPT_STATE,
            tools: BTreeMap::new(),
            output: Schema::compile(&any).expect("the schema of anything"),
            plan: Plan { schema: PlanSchema::V1, max_calls: 0, not_after: None, tools: Vec::new() },
        }
    }

    /// The image of a script.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        match &self.program {
            Program::Script { sandbox, .. } => Some(sandbox),
            Program::Rust(_) | Program::None => None,
        }
    }
}

/// Why a pattern cannot be used here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    /// Not stored, not of its digest, or of an engine, image or checkpoint schema that is not here (W-5).
    #[error("{0}")]
    Unavailable(String),
    /// The store gave no answer; that is not absence.
    #[error("the store is not available: {0}")]
    Unread(String),
}

/// The pattern a run pins, checked in the order of R-323.
pub(crate) async fn of_run(inner: &Inner, run: &Run) -> Result<Arc<Pinned>, PinError> {
    let pattern = pattern(inner, &run.pattern)?;
    if pattern.manifest.plan != run.plan {
        return Err(PinError::Unavailable("the run's plan is not the pattern's".to_owned()));
    }
    load(inner, &pattern).await
}

fn pattern(inner: &Inner, pin: &PatternRef) -> Result<Pattern, PinError> {
    let registry = inner.ledger.registry();
    let found = registry.workflows.get(&pin.key).and_then(|w| w.patterns.get(&pin.revision));
    match found {
        Some(pattern) if pattern.digest == pin.digest && pattern.manifest.digest() == pin.digest => Ok(pattern.clone()),
        Some(_) => Err(PinError::Unavailable("its digest differs".to_owned())),
        None => Err(PinError::Unavailable("it is not stored".to_owned())),
    }
}

/// Reads source, plan and tools by digest; the guest image must be the pinned one.
pub(crate) async fn load(inner: &Inner, pattern: &Pattern) -> Result<Arc<Pinned>, PinError> {
    if let Some(known) = inner.pinned.get(pattern.digest) {
        return Ok(known);
    }
    let program = match pattern.manifest.kind {
        Kind::Rust => Program::Rust(code(inner, pattern).map_err(PinError::Unavailable)?.clone()),
        Kind::Script | Kind::Graph | Kind::Agent => {
            let image = image(&pattern.manifest).map_err(PinError::Unavailable)?;
            let sandbox = inner.sandbox_of(image).await.map_err(PinError::Unavailable)?;
            Program::Script { source: text(inner, pattern.manifest.source, "source").await?, sandbox }
        }
    };
    let pinned = parts(inner, &pattern.manifest, program).await?;
    Ok(inner.pinned.keep(pattern.digest, Arc::new(pinned)))
}

/// Why this pattern could not be used here; nothing is made ready to use it, and no image is opened for it.
pub(crate) async fn lacks(inner: &Inner, pattern: &Pattern) -> Result<(), PinError> {
    let program = match pattern.manifest.kind {
        Kind::Rust => Program::Rust(code(inner, pattern).map_err(PinError::Unavailable)?.clone()),
        Kind::Script | Kind::Graph | Kind::Agent => {
            let image = image(&pattern.manifest).map_err(PinError::Unavailable)?;
            inner.has_image(image).map_err(PinError::Unavailable)?;
            text(inner, pattern.manifest.source, "source").await?;
            Program::None
        }
    };
    parts(inner, &pattern.manifest, program).await.map(drop)
}

/// The code of a pattern in Rust; a build with other code under the same revision does not have it.
fn code<'i>(inner: &'i Inner, pattern: &Pattern) -> Result<&'i Arc<dyn Code>, String> {
    let found = inner.workflows.get(&pattern.manifest.key, pattern.revision);
    let found = found.ok_or_else(|| "this build has no code of that revision".to_owned())?;
    if workflow::is_of(&**found, pattern) {
        Ok(found)
    } else {
        Err(format!("this build has other code under that revision, `{}`", found.implementation()))
    }
}

/// The image that the manifest names, of an engine that is known here.
fn image(manifest: &Manifest) -> Result<Digest, String> {
    match (manifest.image, manifest.engine.as_deref()) {
        (Some(image), Some(sandbox::ENGINE_ID)) => Ok(image),
        (Some(_), engine) => {
            let engine = engine.unwrap_or("none");
            Err(format!("its guest engine is {engine}, here it is {}", sandbox::ENGINE_ID))
        }
        (None, _) => Err("it names no guest image".to_owned()),
    }
}

async fn parts(inner: &Inner, manifest: &Manifest, program: Program) -> Result<Pinned, PinError> {
    let schema = match &program {
        Program::Rust(code) => code.schema(),
        Program::Script { .. } | Program::None => SCRIPT_STATE,
    };
    if inner.migrators.chain(&manifest.checkpoint_schema, schema).is_none() {
        let why = format!("its checkpoint schema {} is not known here", manifest.checkpoint_schema);
        return Err(PinError::Unavailable(why));
    }
    let plan = text(inner, manifest.plan, "plan").await?;
    let plan: Plan = serde_json::from_str(&plan)
        .map_err(|error| PinError::Unavailable(format!("its plan cannot be read: {error}")))?;
    Ok(Pinned {
        tools: tools(inner, &plan).await?,
        output: compile(&manifest.output_schema, "output schema")?,
        plan,
        program,
        schema,
    })
}

async fn tools(inner: &Inner, plan: &Plan) -> Result<BTreeMap<String, PinnedTool>, PinError> {
    let registry = inner.ledger.registry();
    let mut tools = BTreeMap::new();
    for spec in builtin::all() {
        let grant = Grant::default();
        let digest = grant.canonical().digest();
        tools.insert(spec.name.clone(), tool(spec.clone(), grant, digest)?);
    }
    for row in &plan.tools {
        let spec = registry
            .tool(&row.name, &row.version)
            .filter(|spec| spec.digest() == row.tool_digest)
            .ok_or_else(|| PinError::Unavailable(format!("{} {} is not stored", row.name, row.version)))?;
        let grant = text(inner, row.grant_digest, "grant").await?;
        let grant = protocol::json::canonicalize(grant.as_bytes())
            .ok()
            .and_then(|grant| Grant::read(&grant).ok())
            .ok_or_else(|| PinError::Unavailable(format!("the grant of {} cannot be read", row.name)))?;
        tools.insert(row.name.clone(), tool(spec, grant, row.grant_digest)?);
    }
    Ok(tools)
}

fn tool(spec: Arc<ToolSpec>, grant: Grant, grant_digest: Digest) -> Result<PinnedTool, PinError> {
    Ok(PinnedTool {
        input: compile(&spec.input_schema, "input schema")?,
        output: compile(&spec.output_schema, "output schema")?,
        spec,
        grant,
        grant_digest,
    })
}

fn compile(schema: &Canonical, what: &str) -> Result<Schema, PinError> {
    Schema::compile(schema).map_err(|fault| PinError::Unavailable(format!("its {what}: {fault}")))
}

async fn text(inner: &Inner, digest: Digest, what: &str) -> Result<String, PinError> {
    let bytes = reading::read(|| inner.ledger.blob(digest)).await.map_err(|unread| match unread {
        Unread::Damaged(why) => PinError::Unavailable(format!("its {what} is damaged: {why}")),
        Unread::Unavailable(why) => PinError::Unread(why),
    })?;
    let bytes = bytes.ok_or_else(|| PinError::Unavailable(format!("its {what} is not stored")))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| PinError::Unavailable(format!("its {what} is no text")))
}
