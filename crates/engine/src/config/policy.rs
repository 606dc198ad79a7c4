//! `[policy]` and `[[policy.rule]]` (I-66), with the tools' own rules (I-63, C-52).
//!
//! Owns, too, which obligations of C-55 this version does not act on: a rule that names one is refused, since accepting it
//! would be a promise.

use protocol::policy::Policy;

use super::document;
use super::fault::Fault;
use super::reader::{Reader, Section};
use super::tools::ConfiguredTool;
use super::tree::{Entry, Item, Node, Table};

/// A rule of the file is one table of `[[policy.rule]]`.
const NAMES: [(&str, &str); 1] = [("rules", "rule")];

pub(super) fn read(root: &Section<'_>, tools: &[ConfiguredTool]) -> Policy {
    let section = root.section("policy");
    let mut policy = read_document(&section);
    for tool in tools {
        if let Some(own) = &tool.spec.approval {
            policy.tools.insert(tool.spec.identity(), own.clone());
        }
    }
    section.finish();
    policy
}

/// Refuses what would have to remind or to ask further people.
pub(super) fn refuse_unbuilt(reader: &Reader, path: &str, rule: &Node) {
    let Item::Table(table) = &rule.item else { return };
    for (key, entry) in &table.0 {
        let escalates = matches!(&entry.node.item, Item::Text(word) if word == "escalate");
        if ["escalation", "remind"].contains(&key.as_str()) || (key == "on_expiry" && escalates) {
            let at = format!("{path}.{key}");
            reader.fault(Fault::at(&entry.key, at, "reminders and escalation are not supported by this version"));
        }
    }
}

fn read_document(section: &Section<'_>) -> Policy {
    let nothing = || Policy { rules: Vec::new(), default: Default::default(), tools: Default::default() };
    section.get("default");
    let rules = section.get("rule").map(|rules| rules.list()).unwrap_or_default();
    for rule in &rules {
        rule.note("(a rule)".to_owned());
        refuse_unbuilt(rule.reader, &rule.path, rule.node);
    }
    let mut document = Table::default();
    for (name, key) in NAMES.into_iter().chain([("default", "default")]) {
        if let Some(entry) = section.table().and_then(|table| table.0.get(key)) {
            document.0.insert(name.to_owned(), Entry { key: entry.key.clone(), node: entry.node.clone() });
        }
    }
    let node = Node { item: Item::Table(document), place: section.place().clone() };
    let Some(body) = document::canonical(section.reader, &section.path, &node) else { return nothing() };
    match Policy::parse(&body) {
        Ok(policy) => {
            for (effect, outcome) in
                [("pure", policy.default.pure), ("read", policy.default.read), ("write", policy.default.write)]
            {
                section.note_inside("default", effect, serde_json::to_string(&outcome).expect("a word"));
            }
            policy
        }
        Err(faults) => {
            document::tell(section.reader, &section.path, &node, &NAMES, faults);
            nothing()
        }
    }
}
