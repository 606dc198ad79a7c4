//! What an approval is tied to (C-136): change any one field and the digest changes, so a yes to one thing is never a
//! yes to another (C-137).

use super::Kind;
use crate::digest::Digest;
use crate::id::RunId;
use crate::json::{self, Canonical, Record};
use crate::time::Time;

/// The binding record `stasis.binding.v1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    pub schema: &'static str,
    pub kind: Kind,
    pub run: RunId,
    /// The hop that asked (C-138).
    pub hop: u32,
    /// The call's identity, `<run>/<scope>/<n>`.
    pub call: String,
    pub parent: Option<String>,
    pub tool: String,
    pub tool_version: String,
    pub tool_digest: Digest,
    pub arguments: Digest,
    /// Grows with each edit.
    pub revision: u32,
    /// Hashes of the content that `operands` name (C-142), by pointer.
    pub operands: Vec<(String, Digest)>,
    pub plan: Digest,
    /// Version of the policy that asked.
    pub policy: Digest,
    pub obligation: Digest,
    pub requester: String,
    pub acts_for: Option<String>,
    pub created_at: Time,
    /// Milliseconds; none for `settle`.
    pub lease: Option<u64>,
}

impl Binding {
    pub const SCHEMA: &'static str = "stasis.binding.v1";

    /// Whether a person asked for the call, or somebody did for them (C-167).
    pub fn is_asked_by(&self, person: &str) -> bool {
        self.requester == person || self.acts_for.as_deref() == Some(person)
    }

    pub fn digest(&self) -> Digest {
        let mut record = Record::new();
        record.maybe("acts_for", self.acts_for.as_ref()).text("arguments", self.arguments).text("call", &self.call);
        record.text("created_at", self.created_at).number("hop", self.hop).text("kind", self.kind.as_str());
        record.maybe_number("lease", self.lease).text("obligation", self.obligation);
        record.value("operands", &self.operands_value()).maybe("parent", self.parent.as_ref()).text("plan", self.plan);
        record.text("policy", self.policy).text("requester", &self.requester).number("revision", self.revision);
        record.text("run", self.run).text("schema", self.schema).text("tool", &self.tool);
        record.text("tool_digest", self.tool_digest).text("tool_version", &self.tool_version).digest()
    }

    fn operands_value(&self) -> Canonical {
        if self.operands.is_empty() {
            return Canonical::empty_array();
        }
        json::to_canonical(&self.operands).expect("operands are texts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Binding {
        Binding {
            schema: Binding::SCHEMA,
            kind: Kind::Call,
            run: RunId::mint(Time::from_millis(1), 0, 1),
            hop: 0,
            call: "run/main/1".into(),
            parent: None,
            tool: "a.b".into(),
            tool_version: "1".into(),
            tool_digest: Digest::of("tool"),
            arguments: Digest::of("{}"),
            revision: 1,
            operands: vec![],
            plan: Digest::of("plan"),
            policy: Digest::of("policy"),
            obligation: Digest::of("obligation"),
            requester: "maria".into(),
            acts_for: None,
            created_at: Time::from_millis(5),
            lease: Some(1),
        }
    }

    #[test]
    fn the_digest_is_that_of_the_record() {
        let binding = Binding { operands: vec![("/path".into(), Digest::of("content"))], ..binding() };
        let record = serde_json::json!({
            "schema": "stasis.binding.v1", "kind": "call", "run": binding.run, "hop": 0, "call": "run/main/1",
            "parent": null, "tool": "a.b", "tool_version": "1", "tool_digest": binding.tool_digest,
            "arguments": binding.arguments, "revision": 1, "operands": [["/path", Digest::of("content")]],
            "plan": binding.plan, "policy": binding.policy, "obligation": binding.obligation, "requester": "maria",
            "acts_for": null, "created_at": binding.created_at, "lease": 1,
        });
        assert_eq!(binding.digest(), Digest::record(&record)); // C-136
    }

    #[test]
    fn any_one_field_changes_the_digest() {
        type Change = fn(&mut Binding);
        let changes: [Change; 18] = [
            |b| b.kind = Kind::Gate,
            |b| b.run = RunId::mint(Time::from_millis(2), 0, 1),
            |b| b.hop = 1,
            |b| b.call = "run/main/2".into(),
            |b| b.parent = Some("run/main/1".into()),
            |b| b.tool = "a.c".into(),
            |b| b.tool_version = "2".into(),
            |b| b.tool_digest = Digest::of("other"),
            |b| b.arguments = Digest::of("[]"),
            |b| b.revision = 2,
            |b| b.operands = vec![("/path".into(), Digest::of("content"))],
            |b| b.plan = Digest::of("other"),
            |b| b.policy = Digest::of("other"),
            |b| b.obligation = Digest::of("other"),
            |b| b.requester = "tom".into(),
            |b| b.acts_for = Some("tom".into()),
            |b| b.created_at = Time::from_millis(6),
            |b| b.lease = Some(2),
        ];
        let before = binding().digest();
        let mut seen = std::collections::BTreeSet::from([before]);
        for change in changes {
            let mut after = binding();
            change(&mut after);
            assert!(seen.insert(after.digest()), "{after:?}"); // C-137
        }
    }
}
