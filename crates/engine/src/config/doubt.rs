//! What is valid in a configuration and probably not what was meant: a rule for a tool that nobody has, a role that nobody
//! holds, a condition on an argument that does not exist, a program or a secret that is not there.
//!
//! Owns the doubts, which are told like faults and refuse nothing: each of these may be meant, or be there at dispatch
//! (C-50, C-53, C-145). Reads the environment and looks whether files are there; it opens none of them.

use protocol::json::Value;
use protocol::policy::{Outcome, OwnRule, Question, ToolPattern, Trigger};
use protocol::principal::Roles;
use protocol::tool::{Connector, OnCancel};
use rustix::fs::{Access, access};

use std::collections::BTreeSet;
use std::path::Path;

use super::Config;
use super::fault::{Fault, Place, nearest};
use super::tree::{Entry, Item, Node, Table};
use crate::tools::Reference;

/// What this version reads and has nothing for yet: sections, then keys of `[worker]` and `[limits]`.
const NO_USE: [(&str, &[&str]); 2] = [
    ("worker", &["publish_limit", "carrier_probe_limit", "republish_after", "withdrawal_tries", "swap_floor"]),
    ("limits", &["approval_rounds", "kept_signals", "graph_nodes", "artifacts"]),
];

/// Obligations that nothing acts on yet.
const NO_USE_OF_ASK: [&str; 3] = ["remind", "escalation", "grants"];

const KNOWN: &str = "known, but not available in this version";

/// Every doubt about a configuration without faults, in the order of the file.
pub(super) fn doubts(root: &Table, config: &Config, folder: &Path, environment: &[(String, String)]) -> Vec<Fault> {
    let mut looking = Looking { config, folder, environment, doubts: Vec::new() };
    looking.unused(root);
    for (n, (tool, node)) in config.tools.iter().zip(list(root, "tool")).enumerate() {
        let at = format!("tool[{n}]");
        looking.program(&at, node, &tool.spec.connector);
        looking.resource(&at, node, tool.spec.resource.as_deref());
        looking.secrets(&at, node);
        looking.cancel(&at, node, &tool.spec.on_cancel);
        if let Some(rule) = table(node).and_then(|tool| tool.0.get("approval")) {
            looking.people(&format!("{at}.approval"), &rule.node);
            let schema = tool.spec.input_schema.value();
            looking.condition(&format!("{at}.approval"), rule, tool.spec.approval.as_ref(), &schema);
        }
    }
    let rules = root.0.get("policy").and_then(|policy| table(&policy.node));
    for (n, node) in rules.into_iter().flat_map(|policy| list(policy, "rule")).enumerate() {
        let at = format!("policy.rule[{n}]");
        looking.people(&at, node);
        looking.rule(&at, node, config.policy.rules.get(n).and_then(|rule| rule.tool.as_ref()));
    }
    let mut doubts = looking.doubts;
    doubts.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    doubts
}

struct Looking<'a> {
    config: &'a Config,
    folder: &'a Path,
    environment: &'a [(String, String)],
    doubts: Vec<Fault>,
}

impl Looking<'_> {
    fn doubt(&mut self, place: &Place, key: impl Into<String>, message: impl Into<String>, hint: Option<String>) {
        self.doubts.push(Fault::at(place, key, message).hint(hint));
    }

    fn unused(&mut self, root: &Table) {
        for (section, keys) in NO_USE {
            let Some(table) = root.0.get(section).and_then(|section| table(&section.node)) else { continue };
            for key in keys {
                if let Some(entry) = table.0.get(*key) {
                    self.doubt(&entry.key, format!("{section}.{key}"), KNOWN, None);
                }
            }
        }
    }

    /// A resource that nobody declares can never be warm.
    fn resource(&mut self, at: &str, node: &Node, wanted: Option<&str>) {
        let declared = &self.config.resources;
        let Some(wanted) = wanted.filter(|wanted| declared.iter().all(|resource| resource.name != *wanted)) else {
            return;
        };
        let Some(entry) = table(node).and_then(|tool| tool.0.get("resource")) else { return };
        let hint = nearest(wanted, declared.iter().map(|resource| resource.name.as_str()));
        let hint = hint.map(|known| format!("did you mean `{known}`?"));
        self.doubt(&entry.key, format!("{at}.resource"), format!("no [[resource]] is named `{wanted}`"), hint);
    }

    /// Nobody is asked for a cancel tool: one that the policy would ask about is never called (C-235).
    fn cancel(&mut self, at: &str, node: &Node, on_cancel: &OnCancel) {
        let OnCancel::Ask(followup) = on_cancel else { return };
        let known = self.config.tools.iter().find(|tool| tool.spec.name == followup.tool);
        let (Some(known), Some(entry)) = (known, table(node).and_then(|tool| tool.0.get("on_cancel"))) else { return };
        // Whether it asks may depend on the arguments, which are not known here.
        if matches!(known.spec.approval, Some(OwnRule { trigger: Trigger::When(_), .. })) {
            return;
        }
        let judgement = self.config.policy.judge(&Question {
            tool: &known.spec,
            workflow: "",
            requester: &Roles::These(BTreeSet::new()),
            arguments: &Value::Null,
            wishes: None,
            separate_requester: false,
        });
        if judgement.outcome() != Outcome::Allow {
            let what = format!("the policy does not let `{}` go without a person, and nobody is asked", followup.tool);
            let hint = format!("give {} approval = \"never\", or allow it by a rule", followup.tool);
            self.doubt(&entry.key, format!("{at}.on_cancel"), what, Some(hint));
        }
    }

    /// Roles and names of an `ask`, where the file names people at all: without any, `local` alone decides.
    fn people(&mut self, at: &str, node: &Node) {
        let Some(ask) = table(node) else { return };
        for key in NO_USE_OF_ASK {
            if let Some(entry) = ask.0.get(key) {
                self.doubt(&entry.key, format!("{at}.{key}"), KNOWN, None);
            }
        }
        let people = &self.config.principals;
        if people.is_empty() {
            return;
        }
        let mut held: Vec<&str> = Vec::new();
        for person in people {
            if let Roles::These(roles) = &person.roles {
                held.extend(roles.iter().map(String::as_str));
            }
        }
        let ids: Vec<&str> = people.iter().map(|person| person.id.as_str()).collect();
        for (key, known, what) in [("roles", held, "nobody has the role"), ("principals", ids, "nobody is called")] {
            for (n, place, word) in texts(ask, key) {
                if !known.contains(&word) {
                    let near = nearest(word, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                    self.doubt(place, format!("{at}.{key}[{n}]"), format!("{what} `{word}`"), near);
                }
            }
        }
    }

    fn rule(&mut self, at: &str, node: &Node, pattern: Option<&ToolPattern>) {
        let (Some(rule), Some(ToolPattern::Name(name))) = (table(node), pattern) else { return };
        let tool = self.config.tools.iter().find(|tool| tool.spec.name == *name);
        let Some(tool) = tool else {
            let known = self.config.tools.iter().map(|tool| tool.spec.name.as_str());
            let near = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
            if protocol::builtin::spec(name).is_none()
                && let Some(entry) = rule.0.get("tool")
            {
                self.doubt(&entry.key, format!("{at}.tool"), format!("no tool here is called `{name}`"), near);
            }
            return;
        };
        let schema = tool.spec.input_schema.value();
        for (n, condition) in list(rule, "if").enumerate() {
            let Some(Item::Text(pointer)) =
                table(condition).and_then(|table| table.0.get("pointer")).map(|e| &e.node.item)
            else {
                continue;
            };
            let path: Vec<String> =
                pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
            self.argument(&condition.place, format!("{at}.if[{n}].pointer"), &schema, &path);
        }
    }

    fn condition(&mut self, at: &str, entry: &Entry, own: Option<&OwnRule>, schema: &Value) {
        let Some(OwnRule { trigger: Trigger::When(when), .. }) = own else { return };
        let place = table(&entry.node).and_then(|rule| rule.0.get("when")).map_or(&entry.key, |when| &when.key);
        for path in when.paths() {
            self.argument(place, format!("{at}.when"), schema, path);
        }
    }

    /// A condition on an argument that the tool's schema does not have can never be judged, and so always counts (C-53).
    fn argument(&mut self, place: &Place, key: String, schema: &Value, path: &[String]) {
        let Some((missing, known)) = unknown(schema, path) else { return };
        let near = nearest(&missing, known.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
        let hint = near.unwrap_or_else(|| "what cannot be judged holds: it would ask for every call".to_owned());
        self.doubt(place, key, format!("the tool's input has no `{missing}`"), Some(hint));
    }

    fn program(&mut self, at: &str, node: &Node, connector: &Connector) {
        let Connector::Command(command) = connector else { return };
        let argv = inside(node, "command").and_then(|command| table(command)?.0.get("argv"));
        if let (Some(argv), Some(program)) = (argv, command.argv.first())
            && (access(program.as_str(), Access::EXEC_OK).is_err() || !Path::new(program).is_file())
        {
            self.doubt(&argv.key, format!("{at}.command.argv"), format!("{program} is no program"), None);
        }
    }

    fn secrets(&mut self, at: &str, node: &Node) {
        for (outer, inner) in [("http", "headers"), ("command", "env")] {
            let Some(values) = inside(node, outer).and_then(|node| inside(node, inner)).and_then(table) else {
                continue;
            };
            for (name, entry) in &values.0 {
                let Some(Item::Text(text)) = inside(&entry.node, "secret").map(|node| &node.item) else { continue };
                let absent = match Reference::parse(text) {
                    Some(Reference::Env(name)) if !self.environment.iter().any(|(known, _)| *known == name) => {
                        format!("the variable {name} is not set here")
                    }
                    Some(Reference::File(path)) if !self.folder.join(&path).is_file() => {
                        format!("there is no file {}", path.display())
                    }
                    _ => continue,
                };
                let hint = "the server reads it when a call is sent; until then such calls fail".to_owned();
                self.doubt(&entry.key, format!("{at}.{outer}.{inner}.{name}"), absent, Some(hint));
            }
        }
    }
}

/// The first name of the path that a schema rules out, with those that it has. A schema that leaves it open knows all.
fn unknown(schema: &Value, path: &[String]) -> Option<(String, Vec<String>)> {
    let mut schema = schema;
    for name in path {
        let open = ["$ref", "patternProperties", "additionalProperties", "allOf", "anyOf", "oneOf"];
        if open.iter().any(|key| schema.get(key).is_some_and(|value| *value != Value::Bool(false))) {
            return None;
        }
        let properties = schema.get("properties")?.as_object()?;
        match properties.get(name) {
            Some(inner) => schema = inner,
            None => return Some((name.clone(), properties.iter().map(|(known, _)| known.to_owned()).collect())),
        }
    }
    None
}

fn table(node: &Node) -> Option<&Table> {
    if let Item::Table(table) = &node.item { Some(table) } else { None }
}

fn inside<'t>(node: &'t Node, key: &str) -> Option<&'t Node> {
    table(node)?.0.get(key).map(|entry| &entry.node)
}

fn list<'t>(table: &'t Table, key: &str) -> impl Iterator<Item = &'t Node> {
    let items = match table.0.get(key).map(|entry| &entry.node.item) {
        Some(Item::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter()
}

/// The texts of a list, with their places.
fn texts<'t>(table: &'t Table, key: &str) -> Vec<(usize, &'t Place, &'t str)> {
    let text = |(n, node): (usize, &'t Node)| match &node.item {
        Item::Text(text) => Some((n, &node.place, text.as_str())),
        _ => None,
    };
    list(table, key).enumerate().filter_map(text).collect()
}
