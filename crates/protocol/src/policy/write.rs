//! Writing policies and rules in the form in which they are read; the version of a policy is made of it.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::obligation::{Escalation, Step};
use super::parse::SCHEMA;
use super::{OwnRule, Policy, Rule, Terms, ToolPattern, Trigger, Verdict};
use crate::digest::Digest;
use crate::json::{self, Canonical};
use crate::time::format_duration;

impl Policy {
    /// The policy as it is stored: without comments, and with the tools' own rules.
    pub fn canonical(&self) -> Canonical {
        json::to_canonical(self).expect("a policy has text keys and bounded parts")
    }

    /// The version of the policy: its record digest (C-48), the tools' own rules included (C-52).
    pub fn version(&self) -> Digest {
        self.canonical().digest()
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", SCHEMA)?;
        map.serialize_entry("rules", &self.rules)?;
        map.serialize_entry("default", &self.default)?;
        map.serialize_entry("tools", &self.tools)?;
        map.end()
    }
}

/// Writes a member, if there is something to write.
fn some<M: SerializeMap>(map: &mut M, key: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, &value))
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        some(&mut map, "tool", self.tool.as_ref())?;
        some(&mut map, "effect", self.effect)?;
        some(&mut map, "workflow", self.workflow.as_ref())?;
        some(&mut map, "role", self.role.as_ref())?;
        map.serialize_entry("if", &self.conditions)?;
        map.serialize_entry("outcome", &self.verdict.outcome())?;
        match &self.verdict {
            Verdict::Allow => {}
            Verdict::Deny { reason } => some(&mut map, "reason", reason.as_ref())?,
            Verdict::Ask(terms) => terms.write(&mut map)?,
        }
        map.end()
    }
}

impl Serialize for ToolPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => serializer.serialize_str(name),
            Self::Module(module) => serializer.collect_str(&format_args!("{module}.*")),
        }
    }
}

impl Serialize for OwnRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.trigger {
            Trigger::Always => map.serialize_entry("when", "always")?,
            Trigger::Never => map.serialize_entry("when", "never")?,
            Trigger::When(when) => map.serialize_entry("when", when)?,
        }
        self.terms.write(&mut map)?;
        map.end()
    }
}

impl Terms {
    /// Writes what was said, nothing for what was not. Terms of one source have one circle at most.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let circle = self.circles.first();
        let named = |names: &'_ Vec<String>| !names.is_empty();
        some(map, "roles", circle.map(|circle| &circle.roles).filter(|names| named(names)))?;
        some(map, "principals", circle.map(|circle| &circle.principals).filter(|names| named(names)))?;
        some(map, "quorum", self.quorum)?;
        some(map, "reject_quorum", self.reject_quorum)?;
        some(map, "separate_requester", self.separate_requester)?;
        some(map, "edit", self.edit)?;
        some(map, "reason", self.reason)?;
        some(map, "lease", self.lease.map(format_duration))?;
        some(map, "on_expiry", self.on_expiry)?;
        some(map, "escalation", self.escalation.as_ref().map(WrittenEscalation))?;
        some(
            map,
            "remind",
            self.remind.as_ref().map(|offsets| offsets.iter().copied().map(format_duration).collect::<Vec<_>>()),
        )?;
        some(map, "hot", self.hot.map(format_duration))?;
        some(map, "dispatch_within", self.dispatch_within.map(format_duration))?;
        some(map, "strength", self.strength)?;
        some(map, "grants", self.grants)?;
        some(map, "batch", self.batch)
    }
}

/// An escalation with its leases as text, as rules have it; an obligation has them in milliseconds.
struct WrittenEscalation<'a>(&'a Escalation);

impl Serialize for WrittenEscalation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("steps", &self.0.steps.iter().map(WrittenStep).collect::<Vec<_>>())?;
        map.serialize_entry("then", &self.0.then)?;
        map.end()
    }
}

struct WrittenStep<'a>(&'a Step);

impl Serialize for WrittenStep<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("roles", &self.0.roles)?;
        map.serialize_entry("principals", &self.0.principals)?;
        map.serialize_entry("lease", &format_duration(self.0.lease))?;
        map.end()
    }
}
