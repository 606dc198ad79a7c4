//! Plans: the sealed set of tools and grants that a run may use (calls.md section 4).
//!
//! A plan holds digests; what they stand for is stored beside it, so a parked run reads exactly what was sealed (C-43).
//! Nothing here looks a tool up: sealing takes specs and grants, and storing the result is a transition of the ledger.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::digest::Digest;
use crate::fields::{self, Fault, Fields};
use crate::json::{self, Canonical, Value};
use crate::limits;
use crate::time::Time;
use crate::tool::registry::check_references;
use crate::tool::{Connector, ToolSpec};

/// The kind of record a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanSchema {
    #[serde(rename = "stasis.plan.v1")]
    V1,
}

/// A sealed plan (C-41).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub schema: PlanSchema,
    /// Counted calls that a run may make: 1 to 10,000.
    pub max_calls: u32,
    /// When the plan expires, if it does.
    pub not_after: Option<Time>,
    /// Sorted bytewise by name.
    pub tools: Vec<PlanTool>,
}

/// One tool of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTool {
    pub name: String,
    pub version: String,
    pub tool_digest: Digest,
    pub grant_digest: Digest,
}

impl Plan {
    /// Seals tools with the digests of their grants, or lists what keeps them from being a plan.
    ///
    /// Every tool that another refers to must be among them (C-13). The order of `tools` changes nothing (C-42).
    pub fn seal(max_calls: u32, not_after: Option<Time>, tools: &[(&ToolSpec, Digest)]) -> Result<Self, Vec<Fault>> {
        let mut faults = check_references(tools.iter().map(|(spec, _)| *spec));
        if !(1..=limits::CALLS_MAX).contains(&max_calls) {
            let message = format!("expected a whole number from 1 to {}", limits::CALLS_MAX);
            faults.push(Fault { pointer: "/max_calls".to_owned(), code: Code::LimitExceeded, message });
        }
        let entry = |(spec, grant): &(&ToolSpec, Digest)| PlanTool {
            name: spec.name.clone(),
            version: spec.version.clone(),
            tool_digest: spec.digest(),
            grant_digest: *grant,
        };
        let mut entries: Vec<PlanTool> = tools.iter().map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for pair in entries.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            let message = format!("`{}` is there twice", pair[0].name);
            faults.push(Fault { pointer: "/tools".to_owned(), code: Code::ToolConflict, message });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { schema: PlanSchema::V1, max_calls, not_after, tools: entries })
    }

    /// The plan digest: its record digest (C-42).
    pub fn digest(&self) -> Digest {
        Digest::record(self)
    }

    /// The plan as it is stored.
    pub fn canonical(&self) -> Canonical {
        json::to_canonical(self).expect("a plan has text keys and whole numbers")
    }

    /// The tool of that name, if it is in the plan.
    pub fn tool(&self, name: &str) -> Option<&PlanTool> {
        self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok().map(|at| &self.tools[at])
    }

    /// Whether the plan is past its date.
    pub fn expired(&self, now: Time) -> bool {
        self.not_after.is_some_and(|end| now >= end)
    }

    /// Checks that a delegated plan attenuates this one; the first difference refuses it (C-46). Equality is legal.
    ///
    /// `left` is how many calls this plan's run may still make.
    pub fn check_attenuation(&self, left: u32, delegated: &Self) -> Result<(), Widened> {
        if delegated.max_calls > left {
            return Err(Widened::Calls { left, wanted: delegated.max_calls });
        }
        if let Some(end) = self.not_after
            && delegated.not_after.is_none_or(|wanted| wanted > end)
        {
            return Err(Widened::Lifetime { end, wanted: delegated.not_after });
        }
        for tool in &delegated.tools {
            let name = || tool.name.clone();
            match self.tool(&tool.name) {
                None => return Err(Widened::Tool(name())),
                Some(own) if (&own.version, own.tool_digest) != (&tool.version, tool.tool_digest) => {
                    return Err(Widened::Spec(name()));
                }
                Some(own) if own.grant_digest != tool.grant_digest => return Err(Widened::Grant(name())),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// How a delegated plan reaches further than its parent's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Widened {
    #[error("{wanted} calls are asked for, {left} are left")]
    Calls { left: u32, wanted: u32 },
    #[error("the plan ends at {end}, the delegated one later or never")]
    Lifetime { end: Time, wanted: Option<Time> },
    #[error("`{0}` is not in the plan")]
    Tool(String),
    #[error("`{0}` is another version or another tool than in the plan")]
    Spec(String),
    #[error("`{0}` has another grant than in the plan")]
    Grant(String),
}

impl Widened {
    pub const fn code(&self) -> Code {
        match self {
            Self::Calls { .. } => Code::CallsWidened,
            Self::Lifetime { .. } => Code::LifetimeWidened,
            Self::Tool(_) => Code::ToolWidened,
            Self::Spec(_) => Code::SpecMismatch,
            Self::Grant(_) => Code::GrantMismatch,
        }
    }
}

/// Host policy for one tool, which no guest sees (C-39).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Hosts that may be contacted, as `host:port`, sorted.
    pub hosts: Vec<String>,
    /// Names of secrets that arguments may name (C-270), sorted.
    pub secrets: Vec<String>,
}

impl Grant {
    /// The grant of a tool that is configured with none: the host and port of its url (I-62).
    pub fn of(tool: &ToolSpec) -> Self {
        let hosts = match &tool.connector {
            Connector::Http(http) => vec![http.url.authority()],
            Connector::Mcp(_) | Connector::Command(_) | Connector::Builtin(_) => Vec::new(),
        };
        Self { hosts, secrets: Vec::new() }
    }

    /// Reads `{hosts, secrets}`, each optional.
    pub fn parse(document: &Canonical) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let value = document.value();
        let mut fields = Fields::new(&value, String::new(), Code::ToolInvalid, &mut faults);
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        let grant = Self {
            hosts: fields.read("hosts", fields::list(host)).map(sorted).unwrap_or_default(),
            secrets: fields.read("secrets", fields::list(fields::owned)).map(sorted).unwrap_or_default(),
        };
        fields.finish();
        if faults.is_empty() { Ok(grant) } else { Err(faults) }
    }

    /// The grant as it is stored.
    pub fn canonical(&self) -> Canonical {
        json::to_canonical(self).expect("a grant holds text")
    }

    /// The digest of a grant is that of a body (C-39).
    pub fn digest(&self) -> Digest {
        self.canonical().digest()
    }

    /// Whether `host:port` may be contacted.
    pub fn has_host(&self, authority: &str) -> bool {
        self.hosts.iter().any(|host| host == authority)
    }
}

/// `host:port`, the host in lower case.
fn host(value: &Value) -> Result<String, fields::Wrong> {
    let text = fields::text(value)?;
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
        !host.is_empty() && host.bytes().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if good { Ok(text.to_ascii_lowercase()) } else { Err("expected `host:port`".to_owned()) }
}
