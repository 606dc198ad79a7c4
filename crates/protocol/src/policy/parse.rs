//! Reading policies, rules and obligations from JSON, with every bad part told, and writing them back.
//!
//! The written form parses to the same value and is what the version is made of. Durations are text with a unit.

use std::time::Duration;

use super::condition::{Condition, Op};
use super::obligation::{Circle, Escalation, Finally, OnExpiry, Step};
use super::{Defaults, Fault, Outcome, OwnRule, Policy, Rule, Terms, ToolPattern, Trigger, Verdict, When};
use crate::code::Code;
use crate::fields::{self, Fields, Wrong};
use crate::json::{Canonical, Value};
use crate::limits;
use crate::tool::{self, Effect};

/// The member `schema` of a policy.
pub(super) const SCHEMA: &str = "stasis.policy.v1";

impl Policy {
    /// Reads a policy document `{rules, default}`, each part optional; `comment` is for people, here and in rules.
    pub fn parse(document: &Canonical) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let value = document.value();
        let mut fields = Fields::new(&value, String::new(), Code::ConfigInvalid, &mut faults);
        fields.read("schema", |value| {
            if value.as_str() == Some(SCHEMA) { Ok(()) } else { Err(format!("expected `{SCHEMA}`")) }
        });
        fields.read("comment", fields::owned);
        let default = fields.within("default", Defaults::read).unwrap_or_default();
        let rules = fields.within("rules", |value, pointer, faults| each(value, &pointer, faults, Rule::read));
        let tools = fields.within("tools", |value, pointer, faults| {
            let Some(object) = value.as_object() else {
                faults.push(Fault { pointer, code: Code::ConfigInvalid, message: "expected an object".to_owned() });
                return None;
            };
            let own = |(key, value): (&str, &Value)| {
                let mut place = pointer.clone();
                crate::json::push_token(&mut place, key);
                Some((key.to_owned(), OwnRule::read(value, place, faults)?))
            };
            Some(object.iter().filter_map(own).collect())
        });
        fields.finish();
        let policy = Self { rules: rules.unwrap_or_default(), default, tools: tools.unwrap_or_default() };
        if faults.is_empty() { Ok(policy) } else { Err(faults) }
    }
}

/// Reads each item of a list by a reader that records its own faults.
fn each<T>(
    value: &Value,
    pointer: &str,
    faults: &mut Vec<Fault>,
    read: impl Fn(&Value, String, &mut Vec<Fault>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(items) = value.as_array() else {
        let message = format!("expected a list, found {}", value.kind());
        faults.push(Fault { pointer: pointer.to_owned(), code: Code::ConfigInvalid, message });
        return None;
    };
    let read = |(at, item)| read(item, format!("{pointer}/{at}"), faults);
    Some(items.iter().enumerate().filter_map(read).collect())
}

impl Default for Defaults {
    fn default() -> Self {
        Self { pure: Outcome::Allow, read: Outcome::Allow, write: Outcome::Ask }
    }
}

impl Defaults {
    /// Reads `{pure, read, write}`, each optional.
    pub fn read(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Self> {
        let mut fields = Fields::new(value, pointer, Code::ConfigInvalid, faults);
        let usual = Self::default();
        let defaults = Self {
            pure: fields.read("pure", fields::word).unwrap_or(usual.pure),
            read: fields.read("read", fields::word).unwrap_or(usual.read),
            write: fields.read("write", fields::word).unwrap_or(usual.write),
        };
        fields.finish();
        Some(defaults)
    }

    pub const fn of(&self, effect: Effect) -> Outcome {
        match effect {
            Effect::Pure => self.pure,
            Effect::Read => self.read,
            Effect::Write => self.write,
        }
    }
}

impl Rule {
    /// Reads one rule of a policy document (I-66).
    ///
    /// `reason` is the text that a denied caller is told where the outcome is `deny`, and the obligation of C-55 where it
    /// is `ask`.
    pub fn read(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Self> {
        let before = faults.len();
        let mut fields = Fields::new(value, pointer, Code::ConfigInvalid, faults);
        fields.read("comment", fields::owned);
        let tool = fields.read("tool", tool_pattern);
        let effect = fields.read("effect", fields::word);
        let workflow = fields.read("workflow", fields::owned);
        let role = fields.read("role", fields::owned);
        let conditions = fields.within("if", |value, pointer, faults| each(value, &pointer, faults, Condition::read));
        let verdict = match fields.need("outcome", fields::word) {
            Some(Outcome::Allow) => Some(Verdict::Allow),
            Some(Outcome::Deny) => Some(Verdict::Deny { reason: fields.read("reason", reason_text) }),
            Some(Outcome::Ask) => Some(Verdict::Ask(Terms::read_from(&mut fields))),
            None => None,
        };
        if verdict.is_some() {
            fields.finish();
        }
        if faults.len() > before {
            return None;
        }
        Some(Self { tool, effect, workflow, role, conditions: conditions.unwrap_or_default(), verdict: verdict? })
    }
}

fn tool_pattern(value: &Value) -> Result<ToolPattern, Wrong> {
    let text = fields::text(value)?;
    match text.strip_suffix(".*") {
        Some(module) if tool::is_word(module) => Ok(ToolPattern::Module(module.to_owned())),
        None if tool::split_name(text).is_some() => Ok(ToolPattern::Name(text.to_owned())),
        _ => Err("expected a tool's name or `module.*`".to_owned()),
    }
}

fn reason_text(value: &Value) -> Result<String, Wrong> {
    let text = fields::text(value)?;
    if text.len() <= limits::REASON_BYTES {
        Ok(text.to_owned())
    } else {
        Err(format!("at most {} bytes", limits::REASON_BYTES))
    }
}

impl Condition {
    fn read(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Self> {
        let mut fields = Fields::new(value, pointer, Code::ConfigInvalid, faults);
        let pointer = fields.need("pointer", fields::pointer);
        let op: Option<Op> = fields.need("op", fields::word);
        // A literal may be `null`, so it is looked up apart from the rule that `null` is absent.
        fields.get("value");
        let literal = match (value.get("value"), op) {
            (Some(literal), _) => Some(literal.clone()),
            (None, Some(Op::Exists)) => Some(Value::Bool(true)),
            (None, _) => {
                fields.fault("value", "is required");
                None
            }
        };
        if let (Some(op), Some(literal)) = (op, &literal)
            && let Err(message) = op.accepts(literal)
        {
            fields.fault("value", message);
        }
        fields.finish();
        Some(Self { pointer: pointer?, op: op?, value: literal? })
    }
}

impl OwnRule {
    /// Reads `"always"`, `"never"`, or a table of a `when` and obligations (I-63); a table without `when` always asks.
    pub fn read(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Self> {
        let trigger = match value.as_str() {
            Some("always") => Trigger::Always,
            Some("never") => Trigger::Never,
            Some(_) => {
                let message = "expected `always`, `never` or a table".to_owned();
                faults.push(Fault { pointer, code: Code::ToolInvalid, message });
                return None;
            }
            None => return Self::read_table(value, pointer, faults),
        };
        Some(Self { trigger, terms: Terms::default() })
    }

    fn read_table(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Self> {
        let before = faults.len();
        let mut fields = Fields::new(value, pointer, Code::ToolInvalid, faults);
        let when = fields.read("when", |value| match fields::text(value)? {
            "always" => Ok(Trigger::Always),
            "never" => Ok(Trigger::Never),
            text => text.parse::<When>().map(Trigger::When).map_err(|fault| fault.to_string()),
        });
        let terms = Terms::read_from(&mut fields);
        fields.finish();
        (faults.len() == before).then(|| Self { trigger: when.unwrap_or(Trigger::Always), terms })
    }
}

impl Terms {
    /// What a guest may ask for with `stasis.gate`: `roles`, `quorum`, `lease`, `on_expiry`; everything else is a fault.
    pub fn wishes(value: &Value) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fields = Fields::new(value, String::new(), Code::InvalidArguments, &mut faults);
        let terms = Self {
            circles: circle(&mut fields, false).into_iter().collect(),
            quorum: fields.read("quorum", fields::count(1, limits::QUORUM_MAX)),
            lease: fields.read("lease", lease),
            on_expiry: fields.read("on_expiry", |value| match fields::word(value)? {
                OnExpiry::Escalate => Err("expected `reject` or `fail`".to_owned()),
                end => Ok(end),
            }),
            ..Self::default()
        };
        fields.finish();
        if faults.is_empty() { Ok(terms) } else { Err(faults) }
    }

    /// Reads the obligations among the fields of a rule, within the bounds of C-55.
    fn read_from(fields: &mut Fields<'_, '_>) -> Self {
        let terms = Self {
            circles: circle(fields, true).into_iter().collect(),
            quorum: fields.read("quorum", fields::count(1, limits::QUORUM_MAX)),
            reject_quorum: fields.read("reject_quorum", fields::count(1, limits::QUORUM_MAX)),
            separate_requester: fields.read("separate_requester", fields::boolean),
            edit: fields.read("edit", fields::word),
            reason: fields.read("reason", fields::word),
            lease: fields.read("lease", lease),
            on_expiry: fields.read("on_expiry", fields::word),
            escalation: fields.within("escalation", read_escalation),
            remind: fields.read("remind", reminders),
            hot: fields.read("hot", fields::duration(Duration::ZERO, limits::HOT_MAX)),
            dispatch_within: fields
                .read("dispatch_within", fields::duration(Duration::ZERO, limits::DISPATCH_WITHIN_MAX)),
            strength: fields.read("strength", fields::word),
            grants: fields.read("grants", fields::word),
            batch: fields.read("batch", fields::boolean),
        };
        match (terms.on_expiry, &terms.escalation) {
            (Some(OnExpiry::Escalate), None) => {
                fields.fault("escalation", "is required where `on_expiry` is `escalate`")
            }
            (end, Some(_)) if end != Some(OnExpiry::Escalate) => {
                fields.fault("on_expiry", "must be `escalate` where there is an `escalation`");
            }
            _ => {}
        }
        terms
    }
}

fn lease(value: &Value) -> Result<Duration, Wrong> {
    fields::duration(limits::APPROVAL_LEASE_MIN, limits::APPROVAL_LEASE_MAX)(value)
}

fn reminders(value: &Value) -> Result<Vec<Duration>, Wrong> {
    let mut offsets = fields::list(fields::duration(Duration::from_secs(1), limits::APPROVAL_LEASE_MAX))(value)?;
    if offsets.len() > limits::REMINDERS {
        return Err(format!("at most {} reminders", limits::REMINDERS));
    }
    offsets.sort_unstable_by(|a, b| b.cmp(a));
    offsets.dedup();
    Ok(offsets)
}

/// Reads `roles` and, if they may be named, `principals`. Order and repetition change nothing.
fn circle(fields: &mut Fields<'_, '_>, principals: bool) -> Option<Circle> {
    let names = fields::list(|value| match fields::text(value)? {
        "" => Err("a name is not empty".to_owned()),
        name if name.len() > limits::NAME_BYTES => Err(format!("a name has at most {} bytes", limits::NAME_BYTES)),
        name => Ok(name.to_owned()),
    });
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names
    };
    let circle = Circle {
        roles: fields.read("roles", &names).map(sorted).unwrap_or_default(),
        principals: if principals {
            fields.read("principals", &names).map(sorted).unwrap_or_default()
        } else {
            Vec::new()
        },
    };
    let stated = circle.roles.len() + circle.principals.len();
    if stated > limits::ELIGIBLE_MAX {
        fields.fault("roles", format!("at most {} roles and principals together", limits::ELIGIBLE_MAX));
    }
    (stated > 0).then_some(circle)
}

fn read_escalation(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Escalation> {
    let mut fields = Fields::new(value, pointer, Code::ConfigInvalid, faults);
    let steps = fields.within("steps", |value, pointer, faults| each(value, &pointer, faults, read_step));
    let steps = steps.unwrap_or_default();
    if !(1..=limits::ESCALATION_STEPS).contains(&steps.len()) {
        fields.fault("steps", format!("expected 1 to {} steps", limits::ESCALATION_STEPS));
    }
    let then = fields.read("then", fields::word).unwrap_or(Finally::Reject);
    fields.finish();
    Some(Escalation { steps, then })
}

fn read_step(value: &Value, pointer: String, faults: &mut Vec<Fault>) -> Option<Step> {
    let mut fields = Fields::new(value, pointer, Code::ConfigInvalid, faults);
    let people = circle(&mut fields, true);
    if people.is_none() {
        fields.fault("roles", "a step names roles or principals");
    }
    let lease = fields.need("lease", lease);
    fields.finish();
    let Circle { roles, principals } = people?;
    Some(Step { roles, principals, lease: lease? })
}
