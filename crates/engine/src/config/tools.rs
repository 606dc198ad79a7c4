//! `[[tool]]`: from a table to a tool spec and its grant (I-62 to I-64).
//!
//! Owns what the file says otherwise than a spec does: the names of the two schemas, relative paths, the list form of a
//! command's environment, and the grant with its default. Everything else is judged by `protocol`.

use std::collections::BTreeMap;

use protocol::policy::Trigger;
use protocol::tool::registry::check_references;
use protocol::tool::{Connector, ToolSpec};

use super::document;
use super::fault::{Fault, nearest};
use super::policy;
use super::reader::{Reader, Section, Value};
use super::tree::{Entry, Item, Node, Table};
use crate::tools::{Grant, Host, Reference};

/// A tool of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredTool {
    /// What is offered to guests.
    pub spec: ToolSpec,
    /// What it may reach and name.
    pub grant: Grant,
}

pub(super) fn read(root: &Section<'_>) -> Vec<ConfiguredTool> {
    let Some(list) = root.get("tool") else { return Vec::new() };
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut tools = Vec::new();
    let values = list.list();
    for (n, value) in values.iter().enumerate() {
        let Some(tool) = read_one(value) else { continue };
        if tools.iter().any(|known: &ConfiguredTool| known.spec.identity() == tool.spec.identity()) {
            value.fault(format!("{} {} is in the file twice", tool.spec.name, tool.spec.version));
        }
        value.note(tool.spec.identity());
        places.insert(tool.spec.name.clone(), n);
        tools.push(tool);
    }
    if tools.len() == values.len() {
        tell_references(&values, &places, &tools);
    }
    tools
}

/// Tools that name others: those are there and do what they are for (C-13).
fn tell_references(values: &[Value<'_>], places: &BTreeMap<String, usize>, tools: &[ConfiguredTool]) {
    for fault in check_references(tools.iter().map(|tool| &tool.spec)) {
        let (name, rest) = fault.pointer[1..].split_once('/').unwrap_or((&fault.pointer[1..], ""));
        let Some(value) = places.get(name).map(|n| &values[*n]) else { continue };
        let hint = referred(tools, name, rest).and_then(|wanted| hint(tools, name, wanted));
        let here = protocol::tool::Fault { pointer: format!("/{rest}"), ..fault };
        document::tell_one(value.reader, &value.path, value.node, &NAMES, here, hint);
    }
}

/// The tool that a tool names at `<field>/tool`.
fn referred<'t>(tools: &'t [ConfiguredTool], name: &str, pointer: &str) -> Option<&'t str> {
    let tool = tools.iter().find(|tool| tool.spec.name == name)?;
    let named = tool.spec.followups().into_iter().find(|(field, ..)| pointer.split('/').next() == Some(field));
    named.map(|(_, followup, _)| followup.tool.as_str())
}

/// What to do about a tool that cannot be referred to as it is.
fn hint(tools: &[ConfiguredTool], by: &str, wanted: &str) -> Option<String> {
    let Some(known) = tools.iter().find(|tool| tool.spec.name == wanted) else {
        let others = tools.iter().map(|tool| tool.spec.name.as_str()).filter(|name| *name != by);
        let near = nearest(wanted, others)?;
        return Some(format!("did you mean `{near}`?"));
    };
    let asks = known.spec.approval.as_ref().is_some_and(|own| own.trigger == Trigger::Always);
    asks.then(|| format!("give {wanted} approval = \"never\""))
}

fn read_one(value: &Value<'_>) -> Option<ConfiguredTool> {
    let Item::Table(table) = &value.node.item else {
        value.fault("a tool is a table");
        return None;
    };
    let node = Node { item: Item::Table(as_spec(value, table)?), place: value.node.place.clone() };
    let body = document::canonical(value.reader, &value.path, &node)?;
    let spec = match ToolSpec::parse(&body) {
        Ok(spec) => spec,
        Err(faults) => {
            document::tell(value.reader, &value.path, &node, &NAMES, faults);
            return None;
        }
    };
    if let Connector::Mcp(_) = spec.connector {
        value.fault("MCP servers are not supported by this version");
    }
    let grant = read_grant(value, &spec)?;
    Some(ConfiguredTool { spec, grant })
}

/// The two schemas have shorter names in the file (I-62).
const NAMES: [(&str, &str); 2] = [("input_schema", "input"), ("output_schema", "output")];

/// Keys that are in a stored spec and have another name, or no business, in the file.
const NOT_HERE: [(&str, &str); 4] = [
    ("input_schema", "in the file it is `input`"),
    ("output_schema", "in the file it is `output`"),
    ("schema", "a tool of the file has no such key"),
    ("builtin", "built-in tools are the engine's own"),
];

/// The table under the names that a spec has.
fn as_spec(value: &Value<'_>, table: &Table) -> Option<Table> {
    let mut good = true;
    let mut refuse = |key: &str, message: &str| {
        value.fault_inside(key, message);
        good = false;
    };
    for (key, message) in NOT_HERE.into_iter().filter(|(key, _)| table.0.contains_key(*key)) {
        refuse(key, message);
    }
    if let Some(entry) = table.0.get("approval") {
        policy::refuse_unbuilt(value.reader, &format!("{}.approval", value.path), &entry.node);
    }
    if !good {
        return None;
    }
    let mut out = BTreeMap::new();
    for (key, entry) in table.0.iter().filter(|(key, _)| *key != "grant") {
        let name = NAMES.iter().find(|(_, file)| file == key).map_or(key.as_str(), |(document, _)| document);
        let mut entry = entry.clone();
        match name {
            "command" => settle_command(value.reader, &format!("{}.command", value.path), &mut entry.node),
            "http" => inside(&mut entry.node, "headers", |node| {
                settle_secrets(value.reader, &format!("{}.http.headers", value.path), node);
            }),
            _ => {}
        }
        out.insert(name.to_owned(), entry);
    }
    Some(Table(out))
}

/// Paths of a command start at the file's folder, and a list of variables is a table of inherited ones.
fn settle_command(reader: &Reader, path: &str, node: &mut Node) {
    inside(node, "argv", |argv| {
        if let Item::List(items) = &mut argv.item
            && let Some(Node { item: Item::Text(program), .. }) = items.first_mut()
            && !program.is_empty()
        {
            *program = reader.folder.join(&program).to_string_lossy().into_owned();
        }
    });
    inside(node, "env", |env| {
        if let Item::List(items) = &env.item {
            let inherited = |node: &Node| match &node.item {
                Item::Text(name) => {
                    let is_there = Node { item: Item::Bool(true), place: node.place.clone() };
                    Some((name.clone(), Entry { key: node.place.clone(), node: is_there }))
                }
                _ => None,
            };
            let names: Vec<_> = items.iter().filter_map(inherited).collect();
            if names.len() == items.len() {
                env.item = Item::Table(Table(names.into_iter().collect()));
            }
        }
        settle_secrets(reader, &format!("{path}.env"), env);
    });
}

/// Files of secrets start at the file's folder. A reference that can never be resolved is a fault now, not at dispatch.
fn settle_secrets(reader: &Reader, path: &str, node: &mut Node) {
    let Item::Table(table) = &mut node.item else { return };
    for (key, entry) in &mut table.0 {
        inside(&mut entry.node, "secret", |node| {
            if let Item::Text(text) = &mut node.item {
                if Reference::parse(text).is_none() {
                    let key = format!("{path}.{key}.secret");
                    reader.fault(Fault::at(&node.place, key, "a secret is `env:NAME` or `file:PATH`"));
                }
                *text = absolute(reader, text);
            }
        });
    }
}

fn absolute(reader: &Reader, reference: &str) -> String {
    match reference.strip_prefix("file:") {
        Some(path) if !path.is_empty() => format!("file:{}", reader.folder.join(path).display()),
        _ => reference.to_owned(),
    }
}

fn inside(node: &mut Node, key: &str, change: impl FnOnce(&mut Node)) {
    if let Item::Table(table) = &mut node.item
        && let Some(entry) = table.0.get_mut(key)
    {
        change(&mut entry.node);
    }
}

/// `grant = { hosts, secrets }`; by default host and port of the url (I-62).
fn read_grant(value: &Value<'_>, spec: &ToolSpec) -> Option<Grant> {
    let url = match &spec.connector {
        Connector::Http(http) => Some(&http.url),
        _ => None,
    };
    let mut grant = Grant::default();
    let section = value.section()?;
    let said = section.get("grant").and_then(|grant| grant.section());
    let hosts = said.as_ref().and_then(|said| said.get("hosts"));
    match &hosts {
        Some(hosts) => grant.hosts = hosts.list().iter().filter_map(host).collect(),
        None => grant.hosts.extend(url.map(|url| Host::of_url(url.host(), url.port()))),
    }
    if let Some(secrets) = said.as_ref().and_then(|said| said.get("secrets")) {
        grant.secrets = secrets.list().iter().filter_map(secret).collect();
    }
    if let (Some(hosts), Some(url)) = (&hosts, url)
        && !grant.allows(url.host(), url.port())
    {
        hosts.fault(format!("does not name {}, where the url leads", url.authority()));
    }
    if let Some(said) = said {
        said.finish();
    }
    Some(grant)
}

fn host(value: &Value<'_>) -> Option<Host> {
    let text = value.text()?;
    let host = Host::parse(text);
    if host.is_none() {
        value.fault_with_hint(
            format!("`{text}` is no host"),
            "such as \"api.example.com\", \"10.0.0.5:8080\", \"[::1]:80\", \"10.0.0.0/8\"",
        );
    }
    host
}

pub(super) fn secret(value: &Value<'_>) -> Option<String> {
    let text = value.text()?;
    if Reference::parse(text).is_none() {
        value.fault("a secret is `env:NAME` or `file:PATH`");
        return None;
    }
    Some(absolute(value.reader, text))
}
