//! `[policy]` and `[[policy.rule]]` (I-66), with the tools' own rules (I-63, C-52).

use protocol::policy::Policy;

use super::document;
use super::reader::Section;
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

fn read_document(section: &Section<'_>) -> Policy {
    let nothing = || Policy { rules: Vec::new(), default: Default::default(), tools: Default::default() };
    section.get("default");
    let rules = section.get("rule").map(|rules| rules.list()).unwrap_or_default();
    for rule in &rules {
        rule.note("(a rule)".to_owned());
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
