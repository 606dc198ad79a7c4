//! Tool specs: what the host offers to guests (calls.md section 2).
//!
//! A [`ToolSpec`] is made by [`ToolSpec::parse`] alone, which lists every bad part at once (C-21), so a spec that exists
//! is a valid one apart from what needs the other tools ([`registry`]). Its digest covers everything but what is only for
//! people and the tool's own approval rule (C-9). Nothing here contacts anything.

mod connector;
mod names;
mod parse;
mod parse_connector;
pub mod registry;
mod template;
mod url;

use std::time::Duration;

use serde::Serialize;

use crate::digest::Digest;
use crate::json::{self, Canonical};
use crate::policy::OwnRule;
use crate::time::{duration_text, format_duration};

pub use connector::{Builtin, Command, Connector, EnvValue, Http, Mcp, Meaning, Method, Setting};
pub use template::{Template, TemplateFault, TemplateInput};
pub use url::{FillFault, UrlFault, UrlTemplate, percent_encode};

pub use crate::fields::Fault;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A function of its arguments.
    Pure,
    /// Observes the world.
    Read,
    /// Changes the world.
    Write,
}

/// How a call is settled whose outcome is not known (C-228).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// The handler runs again; only for tools that change nothing.
    Retry,
    /// Dispatched again with the same key, as long as the other side remembers it (C-12).
    Idempotent { key_life: Duration },
    /// Another tool is asked what happened.
    Lookup(Followup),
    /// A person is asked.
    Manual,
}

/// A call that the engine makes about another call: a tool, and how its arguments are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Followup {
    pub tool: String,
    pub arguments: Template,
}

/// What a cancel does to a running handler (C-22).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnCancel {
    /// The handler may end within its timeout.
    Wait,
    /// The handler is cut.
    Abort,
    /// The other side is asked to stop; then the handler is waited for.
    Ask(Followup),
}

/// An argument that names content kept elsewhere (C-142).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operand {
    pub pointer: String,
    pub kind: OperandKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperandKind {
    File,
    Url,
}

/// The limits of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolLimits {
    /// How long one handler may run: 1 ms to 1 h.
    #[serde(with = "duration_text")]
    pub timeout: Duration,
    pub argument_bytes: u64,
    pub result_bytes: u64,
    /// Handlers at once: 1 to 1,024.
    pub concurrency: u32,
    /// Most calls of one run, where there is such a limit.
    pub calls: Option<u32>,
}

/// One tool, as it is offered to guests. Fields follow C-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// Module and function, such as `payments.refund`.
    pub name: String,
    pub version: String,
    pub description: String,
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub notes: Option<String>,
    pub effect: Effect,
    pub recovery: Recovery,
    pub input_schema: Canonical,
    pub output_schema: Canonical,
    /// The tool's own rule; without one the policy decides (I-63).
    pub approval: Option<OwnRule>,
    pub apply_defaults: bool,
    pub operands: Vec<Operand>,
    /// Pointers to arguments whose values are names of secrets (C-270).
    pub secret_params: Vec<String>,
    pub on_cancel: OnCancel,
    /// How an applied effect is compensated, if it can be.
    pub compensate: Option<Followup>,
    pub limits: ToolLimits,
    /// The resource that must be warm while the handler runs.
    pub resource: Option<String>,
    pub connector: Connector,
}

/// The fields that the digest covers, in the form in which they are parsed.
#[derive(Serialize)]
struct Covered<'a> {
    schema: &'static str,
    name: &'a str,
    /// Absent only where the version itself is made from the others (I-62).
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    description: &'a str,
    effect: Effect,
    recovery: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_life: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lookup: Option<&'a Followup>,
    input_schema: &'a Canonical,
    output_schema: &'a Canonical,
    apply_defaults: bool,
    operands: &'a [Operand],
    secret_params: &'a [String],
    on_cancel: &'a OnCancel,
    #[serde(skip_serializing_if = "Option::is_none")]
    compensate: Option<&'a Followup>,
    limits: &'a ToolLimits,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(flatten)]
    connector: &'a Connector,
}

/// Every field: what is stored, and parses to the same spec.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    covered: Covered<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a OwnRule>,
}

impl Effect {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl Recovery {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Idempotent { .. } => "idempotent",
            Self::Lookup(_) => "lookup",
            Self::Manual => "manual",
        }
    }
}

impl Serialize for OnCancel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Wait => serializer.serialize_str("wait"),
            Self::Abort => serializer.serialize_str("abort"),
            Self::Ask(followup) => followup.serialize(serializer),
        }
    }
}

impl ToolSpec {
    /// The digest of everything but `title`, `tags`, `notes` and `approval` (C-9).
    pub fn digest(&self) -> Digest {
        Digest::record(&self.covered(Some(&self.version)))
    }

    /// The spec as it is stored: it parses to the same spec.
    pub fn canonical(&self) -> Canonical {
        let whole = Whole {
            covered: self.covered(Some(&self.version)),
            title: self.title.as_deref(),
            tags: &self.tags,
            notes: self.notes.as_deref(),
            approval: self.approval.as_ref(),
        };
        json::to_canonical(&whole).expect("a spec has text keys and canonical bodies")
    }

    /// Name and version, as `payments.refund@1`: what a registration is known by (C-10).
    pub fn identity(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// The module, as agent code writes it.
    pub fn module(&self) -> &str {
        split_name(&self.name).expect("checked when it was parsed").0
    }

    /// The function in its module, as agent code writes it.
    pub fn function(&self) -> &str {
        split_name(&self.name).expect("checked when it was parsed").1
    }

    /// The version of a spec that gives none: the first 12 hex digits of the digest of its other covered fields (I-62).
    fn version_of_content(&self) -> String {
        Digest::record(&self.covered(None)).hex()[..12].to_owned()
    }

    fn covered<'a>(&'a self, version: Option<&'a str>) -> Covered<'a> {
        Covered {
            schema: "stasis.tool.v1",
            name: &self.name,
            version,
            description: &self.description,
            effect: self.effect,
            recovery: self.recovery.as_str(),
            key_life: match self.recovery {
                Recovery::Idempotent { key_life } => Some(format_duration(key_life)),
                _ => None,
            },
            lookup: match &self.recovery {
                Recovery::Lookup(followup) => Some(followup),
                _ => None,
            },
            input_schema: &self.input_schema,
            output_schema: &self.output_schema,
            apply_defaults: self.apply_defaults,
            operands: &self.operands,
            secret_params: &self.secret_params,
            on_cancel: &self.on_cancel,
            compensate: self.compensate.as_ref(),
            limits: &self.limits,
            resource: self.resource.as_deref(),
            connector: &self.connector,
        }
    }
}

/// Module and function of a tool's name, if it is one (C-8).
pub(crate) fn split_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('.').filter(|(module, function)| is_word(module) && is_word(function))
}

/// One part of a name: `[a-z][a-z0-9_]{0,30}`.
pub(crate) fn is_word(word: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    word.len() <= 31 && word.starts_with(|first: char| first.is_ascii_lowercase()) && word.bytes().all(rest)
}
