//! How a tool reaches the outside: the fields of each connector (calls.md section 13, I-64).
//!
//! These are declarations. Contacting anything is the engine's.

use std::collections::BTreeMap;

use serde::Serialize;

use super::url::UrlTemplate;
use crate::digest::Digest;

/// Exactly one of these per tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Connector {
    Http(Http),
    Mcp(Mcp),
    Command(Command),
    Builtin(Builtin),
}

/// One HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Http {
    pub method: Method,
    pub url: UrlTemplate,
    /// Top-level arguments that go to the query whatever the method.
    pub query: Vec<String>,
    pub headers: BTreeMap<String, Setting>,
    /// The name of the header that carries the key, instead of `Idempotency-Key` (C-254).
    pub idempotency_header: Option<String>,
    /// What a status means, where that is not C-255 to C-258.
    pub statuses: BTreeMap<u16, Meaning>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the arguments that are left go to the body; else they go to the query.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// A text, or a text around a secret that is named and resolved at dispatch (C-269, I-61).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Setting {
    Text(String),
    Secret {
        /// `env:NAME` or `file:PATH`.
        secret: String,
        prefix: String,
    },
}

/// What a status or an exit code says about the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    Ok,
    Error,
    Ambiguous,
}

/// One local command (C-265, C-266).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// An absolute path and fixed arguments; no shell.
    pub argv: Vec<String>,
    pub env: BTreeMap<String, EnvValue>,
    /// What an exit code but 0 means, where that is not C-266.
    pub exit: BTreeMap<u8, Meaning>,
}

/// The value of a variable in a command's environment, which is empty but for those named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EnvValue {
    Set(Setting),
    /// The server's own value, written as `true`.
    Inherit(bool),
}

/// One tool of an MCP server, pinned (C-261).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mcp {
    /// The name of the configured server.
    pub server: String,
    /// The tool's name there.
    pub tool: String,
    /// The digest of the advertised name, description and schemas.
    pub advertised: Option<Digest>,
    /// Whether an `isError` result of a `write` says that nothing was applied (C-263).
    pub errors_not_applied: bool,
}

/// One function built into the engine, in the module `stasis` (C-268).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Builtin {
    pub function: String,
}
