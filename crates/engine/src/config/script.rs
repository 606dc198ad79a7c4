//! Inline metadata of a script, and the same keys as a manifest (I-68).
//!
//! Owns the block `# /// script` .. `# ///` and the meaning of `[tool.stasis]` in it. Tables of other programs in the
//! block are theirs; an unknown key of ours is a fault with its line in the script.

use std::path::Path;
use std::time::Duration;

use protocol::json::{Canonical, Value as Json};
use protocol::limits;

use super::document;
use super::fault::{ConfigFaults, Fault, Place};
use super::reader::{Reader, Section, Value};
use super::tree::{self, Entry, Item, Node, Table};

/// What a script says about itself. What it does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptMeta {
    /// The workflow's key; else the stem of the file.
    pub key: Option<String>,
    /// For people.
    pub title: Option<String>,
    /// Names of the tools of its plan; else all of the configuration.
    pub tools: Option<Vec<String>>,
    /// Schema of its input; else any.
    pub input: Option<Canonical>,
    /// Schema of its output; else any.
    pub output: Option<Canonical>,
    /// Counted calls of one run.
    pub max_calls: Option<u32>,
    /// Whether its runs may park.
    pub resume: Option<bool>,
    /// `limits.active`: time that the guest itself may execute.
    pub active_limit: Option<Duration>,
    /// `limits.memory`: memory of the guest in bytes.
    pub memory_bytes: Option<u64>,
}

/// The metadata of a script; a script without a block has none.
pub fn metadata(source: &str) -> Result<ScriptMeta, ConfigFaults> {
    let Some(block) = block(source)? else { return Ok(ScriptMeta::default()) };
    let (mut root, mut faults) = tree::parse(FILE, &block);
    for fault in &mut faults {
        fault.column = fault.column.map(|column| column + MARK);
    }
    let reader = Reader::new(Path::new("."), faults);
    tree::shift(&mut root, MARK);
    let section = Section::root(&reader, &root, place(1));
    refuse_dependencies(&section);
    section.get("requires-python");
    let tool = section.section("tool");
    let meta = read(tool.section("stasis"));
    section.finish();
    finish(&reader, meta)
}

impl ScriptMeta {
    /// Reads the keys of I-68 from a manifest in JSON.
    pub fn from_json(manifest: &Canonical) -> Result<Self, ConfigFaults> {
        let place = Place { file: "manifest".into(), line: None, column: None };
        let root = match node(manifest.value(), &place).item {
            Item::Table(table) => table,
            _ => return Err(ConfigFaults(vec![Fault::at(&place, "", "a manifest is an object")])),
        };
        let reader = Reader::new(Path::new("."), Vec::new());
        let meta = read(Section::root(&reader, &root, place));
        finish(&reader, meta)
    }

    /// What `self` says, and where it says nothing what `other` does.
    pub fn or(self, other: Self) -> Self {
        Self {
            key: self.key.or(other.key),
            title: self.title.or(other.title),
            tools: self.tools.or(other.tools),
            input: self.input.or(other.input),
            output: self.output.or(other.output),
            max_calls: self.max_calls.or(other.max_calls),
            resume: self.resume.or(other.resume),
            active_limit: self.active_limit.or(other.active_limit),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
        }
    }
}

fn finish(reader: &Reader, meta: ScriptMeta) -> Result<ScriptMeta, ConfigFaults> {
    let faults = reader.faults();
    if faults.is_empty() { Ok(meta) } else { Err(ConfigFaults(faults)) }
}

/// What stands for the script in a fault: its own name is not known here.
const FILE: &str = "script";

/// Columns that `# ` takes before each line of the block.
const MARK: u32 = 2;

fn place(line: u32) -> Place {
    Place { file: FILE.into(), line: Some(line), column: Some(1) }
}

/// The TOML of the block, on the lines that it has in the script.
fn block(source: &str) -> Result<Option<String>, ConfigFaults> {
    let mut found: Option<String> = None;
    let mut lines = source.lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).enumerate();
    while let Some((start, line)) = lines.next() {
        if line != "# /// script" {
            continue;
        }
        let refuse = |message: &str| {
            let line = u32::try_from(start + 1).unwrap_or(u32::MAX);
            Err(ConfigFaults(vec![Fault::at(&place(line), "", message)]))
        };
        if found.is_some() {
            return refuse("a script has one block of metadata, and this is the second");
        }
        let mut text = "\n".repeat(start + 1);
        let mut closed = false;
        for (_, line) in lines.by_ref() {
            if line == "# ///" {
                closed = true;
                break;
            }
            match line.strip_prefix('#') {
                Some("") => {}
                Some(rest) if rest.starts_with(' ') => text.push_str(&rest[1..]),
                _ => break,
            }
            text.push('\n');
        }
        if !closed {
            return refuse("this block has no end: every line begins with `# `, and the last is `# ///`");
        }
        found = Some(text);
    }
    Ok(found)
}

/// Packages cannot be installed into a guest (W-158); a script that wants some would fail later and less clearly.
fn refuse_dependencies(section: &Section<'_>) {
    if let Some(value) = section.get("dependencies")
        && !value.list().is_empty()
    {
        value.fault("a program imports from the guest image alone");
    }
}

fn read(section: Section<'_>) -> ScriptMeta {
    let key = section.get("key").and_then(|value| {
        let key = value.text()?;
        if !protocol::workflow::is_key(key) {
            value.fault("a key has 1 to 128 letters, digits, `.`, `_` and `-`, the first a letter or digit");
        }
        Some(key.to_owned())
    });
    if section.get("tiers").is_some() {
        section.fault("tiers", "is known, but not available in this version");
    }
    let limits_of = section.section("limits");
    let meta = ScriptMeta {
        key,
        title: section.get("title").and_then(|value| value.name()),
        tools: section.get("tools").map(|value| value.texts()),
        input: section.get("input").and_then(|value| schema(&value)),
        output: section.get("output").and_then(|value| schema(&value)),
        max_calls: section
            .get("max_calls")
            .and_then(|value| value.whole(1..=u64::from(limits::CALLS_MAX)))
            .and_then(|calls| u32::try_from(calls).ok()),
        resume: section.get("resume").and_then(|value| value.boolean()),
        active_limit: limits_of
            .get("active")
            .and_then(|value| value.duration(Duration::from_millis(1)..=limits::ACTIVE_MAX)),
        memory_bytes: limits_of
            .get("memory")
            .and_then(|value| value.size(limits::GUEST_MEMORY_MIN..=limits::GUEST_MEMORY_MAX)),
    };
    limits_of.finish();
    section.finish();
    meta
}

fn schema(value: &Value<'_>) -> Option<Canonical> {
    let body = document::canonical(value.reader, &value.path, value.node)?;
    match protocol::schema::Schema::compile(&body) {
        Ok(_) => Some(body),
        Err(fault) => {
            let judged = protocol::tool::Fault {
                pointer: fault.pointer().to_owned(),
                code: fault.code(),
                message: fault.to_string(),
            };
            document::tell(value.reader, &value.path, value.node, &[], vec![judged]);
            None
        }
    }
}

/// JSON as a tree of the configuration.
fn node(value: Json, place: &Place) -> Node {
    let item = match value {
        Json::Null => Item::Null,
        Json::Bool(flag) => Item::Bool(flag),
        Json::String(text) => Item::Text(text),
        Json::Number(number) if number.as_i64().is_some() => Item::Integer(number.as_str().to_owned()),
        Json::Number(number) => Item::Float(number.as_str().to_owned()),
        Json::Array(items) => Item::List(items.into_iter().map(|item| node(item, place)).collect()),
        Json::Object(members) => {
            let entry = |(key, value)| (key, Entry { key: place.clone(), node: node(value, place) });
            Item::Table(Table(members.into_iter().map(entry).collect()))
        }
    };
    Node { item, place: place.clone() }
}
