//! Reading the tree: typed access that collects faults and remembers which keys were asked for.
//!
//! Owns the rule that a key nobody asks for is a fault, so what is read and what is known cannot drift apart. A getter
//! that reports a fault returns `None`, and its caller goes on: one reading reports every fault.

use std::cell::{Cell, RefCell};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fault::{Fault, Place, nearest};
use super::tree::{Item, Node, Table};

/// One key of the merged configuration, as `stasis config check` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Dotted path of the key.
    pub key: String,
    /// The value in force, as TOML.
    pub value: String,
    /// Where the value comes from.
    pub source: Source,
}

/// Where a value in force comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// A line of the file.
    File {
        /// The file as the user named it.
        file: String,
        /// Line, from 1.
        line: u32,
    },
    /// An environment variable, by name.
    Environment(String),
}

impl From<&Place> for Source {
    fn from(place: &Place) -> Self {
        match place.line {
            Some(line) => Self::File { file: place.file.to_string(), line },
            None => Self::Environment(place.file.to_string()),
        }
    }
}

/// What one reading has found so far.
pub(super) struct Reader {
    /// Relative paths start here (I-61).
    pub(super) folder: PathBuf,
    faults: RefCell<Vec<Fault>>,
    settings: RefCell<Vec<Setting>>,
}

impl Reader {
    pub(super) fn new(folder: &Path, faults: Vec<Fault>) -> Self {
        Self { folder: folder.to_owned(), faults: RefCell::new(faults), settings: RefCell::default() }
    }

    pub(super) fn fault(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    pub(super) fn settings(&self) -> Vec<Setting> {
        self.settings.take()
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = self.faults.take();
        faults.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        faults.dedup();
        faults
    }
}

/// One table under reading.
pub(super) struct Section<'r> {
    pub(super) reader: &'r Reader,
    pub(super) path: String,
    place: Place,
    table: Option<&'r Table>,
    asked: RefCell<Vec<&'static str>>,
    open: Cell<bool>,
}

impl<'r> Section<'r> {
    pub(super) fn root(reader: &'r Reader, table: &'r Table, place: Place) -> Self {
        Self::new(reader, String::new(), place, Some(table))
    }

    fn new(reader: &'r Reader, path: String, place: Place, table: Option<&'r Table>) -> Self {
        Self { reader, path, place, table, asked: RefCell::default(), open: Cell::new(false) }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key, if it is there.
    pub(super) fn get(&self, key: &'static str) -> Option<Value<'r>> {
        self.asked.borrow_mut().push(key);
        let entry = self.table?.0.get(key).filter(|entry| !matches!(entry.node.item, Item::Null))?;
        Some(Value { reader: self.reader, path: self.key(key), node: &entry.node })
    }

    /// The value of a key that has to be there.
    pub(super) fn require(&self, key: &'static str) -> Option<Value<'r>> {
        let found = self.get(key);
        if found.is_none() {
            self.reader.fault(Fault::at(&self.place, self.key(key), "this key is missing"));
        }
        found
    }

    /// A table under this one; an absent one reads as empty.
    pub(super) fn section(&self, key: &'static str) -> Section<'r> {
        match self.get(key) {
            Some(value) => {
                value.section().unwrap_or_else(|| Self::new(self.reader, self.key(key), self.place.clone(), None))
            }
            None => Self::new(self.reader, self.key(key), self.place.clone(), None),
        }
    }

    /// The tables of `[[key]]`, in the order of the file.
    pub(super) fn sections(&self, key: &'static str) -> Vec<Section<'r>> {
        self.get(key).map(|value| value.list()).unwrap_or_default().iter().filter_map(Value::section).collect()
    }

    /// Every key with its value, for tables whose keys are the user's own names.
    pub(super) fn entries(&self) -> Vec<(&'r str, Value<'r>)> {
        self.open.set(true);
        let Some(table) = self.table else { return Vec::new() };
        table
            .0
            .iter()
            .map(|(name, entry)| {
                (name.as_str(), Value { reader: self.reader, path: self.key(name), node: &entry.node })
            })
            .collect()
    }

    /// Notes the value in force of a key.
    pub(super) fn note(&self, key: &str, value: String) {
        let source = match self.table.and_then(|table| table.0.get(key)) {
            Some(entry) => Source::from(&entry.node.place),
            None => Source::Default,
        };
        self.reader.settings.borrow_mut().push(Setting { key: self.key(key), value, source });
    }

    /// Notes the value in force of a key in a table of this one.
    pub(super) fn note_inside(&self, table: &str, key: &str, value: String) {
        let inner = self.table.and_then(|own| own.0.get(table)).map(|entry| &entry.node);
        let source = match inner.map(|node| &node.item) {
            Some(Item::Table(inner)) => inner.0.get(key).map(|entry| Source::from(&entry.node.place)),
            _ => None,
        };
        let source = source.unwrap_or(Source::Default);
        let key = format!("{}.{key}", self.key(table));
        self.reader.settings.borrow_mut().push(Setting { key, value, source });
    }

    /// Where a key stands, else where its table does.
    pub(super) fn place_of(&self, key: &str) -> &Place {
        self.table.and_then(|table| table.0.get(key)).map_or(&self.place, |entry| &entry.key)
    }

    pub(super) fn fault(&self, key: &str, message: impl Into<String>) {
        let path = if key.is_empty() { self.path.clone() } else { self.key(key) };
        self.reader.fault(Fault::at(self.place_of(key), path, message));
    }

    pub(super) fn table(&self) -> Option<&'r Table> {
        self.table
    }

    /// Ends the reading of this table: what nobody asked for is unknown (I-60).
    pub(super) fn finish(self) {
        let Some(table) = self.table else { return };
        if self.open.get() {
            return;
        }
        let asked = self.asked.borrow();
        for (name, entry) in &table.0 {
            if asked.contains(&name.as_str()) {
                continue;
            }
            let hint = match nearest(name, asked.iter().copied()) {
                Some(known) => Some(format!("did you mean `{known}`?")),
                None if asked.len() <= 16 => Some(format!("known here: {}", asked.join(", "))),
                None => None,
            };
            self.reader.fault(Fault::at(&entry.key, self.key(name), "unknown key").hint(hint));
        }
    }
}

/// One value under reading.
#[derive(Clone)]
pub(super) struct Value<'r> {
    pub(super) reader: &'r Reader,
    pub(super) path: String,
    pub(super) node: &'r Node,
}

impl<'r> Value<'r> {
    pub(super) fn fault(&self, message: impl Into<String>) {
        self.reader.fault(Fault::at(&self.node.place, self.path.clone(), message));
    }

    pub(super) fn fault_with_hint(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.reader.fault(Fault::at(&self.node.place, self.path.clone(), message).hint(Some(hint.into())));
    }

    /// A fault of a key of this table.
    pub(super) fn fault_inside(&self, key: &str, message: &str) {
        let place = match &self.node.item {
            Item::Table(table) => table.0.get(key).map(|entry| &entry.key),
            _ => None,
        };
        self.reader.fault(Fault::at(place.unwrap_or(&self.node.place), format!("{}.{key}", self.path), message));
    }

    /// Notes what this value came to.
    pub(super) fn note(&self, value: String) {
        let source = Source::from(&self.node.place);
        self.reader.settings.borrow_mut().push(Setting { key: self.path.clone(), value, source });
    }

    fn wants<T>(&self, what: &str) -> Option<T> {
        self.fault(format!("wants {what}, found {}", self.node.item.kind()));
        None
    }

    pub(super) fn text(&self) -> Option<&'r str> {
        match &self.node.item {
            Item::Text(text) | Item::Bare(text) => Some(text),
            _ => self.wants("text"),
        }
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match &self.node.item {
            Item::Bool(flag) => Some(*flag),
            Item::Bare(text) if text == "true" => Some(true),
            Item::Bare(text) if text == "false" => Some(false),
            _ => self.wants("true or false"),
        }
    }

    pub(super) fn whole(&self, range: impl RangeBounds<u64> + std::fmt::Debug) -> Option<u64> {
        let text = match &self.node.item {
            Item::Integer(text) | Item::Bare(text) => text,
            _ => return self.wants("a whole number"),
        };
        let Ok(number) = text.parse::<u64>() else { return self.wants("a whole number from 0") };
        self.within(number, &range, |n| n.to_string())
    }

    pub(super) fn duration(&self, range: impl RangeBounds<Duration>) -> Option<Duration> {
        let text = match &self.node.item {
            Item::Text(text) | Item::Bare(text) => text,
            Item::Integer(_) | Item::Float(_) => {
                self.fault_with_hint("a duration is text with a unit", "such as \"250ms\", \"30s\", \"24h\", \"7d\"");
                return None;
            }
            _ => return self.wants("a duration such as \"30s\""),
        };
        match protocol::time::parse_duration(text) {
            Ok(span) => self.within(span, &range, |span| protocol::time::format_duration(*span)),
            Err(error) => {
                self.fault(error.to_string());
                None
            }
        }
    }

    pub(super) fn size(&self, range: impl RangeBounds<u64>) -> Option<u64> {
        let text = match &self.node.item {
            Item::Text(text) | Item::Bare(text) => text,
            Item::Integer(_) | Item::Float(_) => {
                self.fault_with_hint("a size is text with a unit", "such as \"512B\", \"64KiB\", \"16MiB\", \"1GiB\"");
                return None;
            }
            _ => return self.wants("a size such as \"16MiB\""),
        };
        match protocol::limits::parse_size(text) {
            Ok(bytes) => self.within(bytes, &range, |bytes| format!("{bytes}B")),
            Err(error) => {
                self.fault(error.to_string());
                None
            }
        }
    }

    fn within<T: PartialOrd>(&self, value: T, range: &impl RangeBounds<T>, show: impl Fn(&T) -> String) -> Option<T> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if range.contains(&value) {
            return Some(value);
        }
        let low = match range.start_bound() {
            Included(low) => format!("from {}", show(low)),
            Excluded(low) => format!("above {}", show(low)),
            Unbounded => String::new(),
        };
        let high = match range.end_bound() {
            Included(high) => format!("to {}", show(high)),
            Excluded(high) => format!("below {}", show(high)),
            Unbounded => String::new(),
        };
        self.fault(format!("{} is out of bounds: {low} {high}", show(&value)).trim_end().to_owned());
        None
    }

    /// One of a closed set of words.
    pub(super) fn word<T: Copy>(&self, known: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some((_, found)) = known.iter().find(|(word, _)| *word == text) {
            return Some(*found);
        }
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let hint = match nearest(text, words.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("one of {}", words.join(", ")),
        };
        self.fault_with_hint(format!("`{text}` is not known here"), hint);
        None
    }

    pub(super) fn list(&self) -> Vec<Value<'r>> {
        match &self.node.item {
            Item::List(items) => items
                .iter()
                .enumerate()
                .map(|(n, node)| Value { reader: self.reader, path: format!("{}[{n}]", self.path), node })
                .collect(),
            _ => self.wants("a list").unwrap_or_default(),
        }
    }

    /// A text that names something: not empty, no control characters, at most 256 bytes.
    pub(super) fn name(&self) -> Option<String> {
        let text = self.text()?;
        if text.is_empty() || text.len() > protocol::limits::NAME_BYTES || text.chars().any(char::is_control) {
            self.fault("a name has 1 to 256 bytes and no control characters");
            return None;
        }
        Some(text.to_owned())
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.list().iter().filter_map(|value| value.text().map(str::to_owned)).collect()
    }

    pub(super) fn section(&self) -> Option<Section<'r>> {
        match &self.node.item {
            Item::Table(table) => {
                Some(Section::new(self.reader, self.path.clone(), self.node.place.clone(), Some(table)))
            }
            _ => self.wants("a table"),
        }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.node.item, Item::Table(_))
    }

    /// The value as JSON text, with numbers as written; a date, `inf` and `nan` have none.
    pub(super) fn json(&self) -> Option<String> {
        let mut out = String::new();
        write_json(self.reader, &self.path, self.node, &mut out).then_some(out)
    }
}

pub(super) fn write_json(reader: &Reader, path: &str, node: &Node, out: &mut String) -> bool {
    match &node.item {
        Item::Text(text) | Item::Bare(text) => quote(text, out),
        Item::Integer(text) => out.push_str(text),
        Item::Float(text) if text.ends_with("inf") || text.ends_with("nan") => {
            reader.fault(Fault::at(&node.place, path, "JSON has no such number"));
            return false;
        }
        Item::Float(text) => out.push_str(text),
        Item::Null => out.push_str("null"),
        Item::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Item::Date => {
            let fault = Fault::at(&node.place, path, "JSON has no dates").hint(Some("write it as text".to_owned()));
            reader.fault(fault);
            return false;
        }
        Item::List(items) => {
            out.push('[');
            let mut good = true;
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                good &= write_json(reader, &format!("{path}[{n}]"), item, out);
            }
            out.push(']');
            return good;
        }
        Item::Table(table) => {
            out.push('{');
            let mut good = true;
            for (n, (key, entry)) in table.0.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                quote(key, out);
                out.push(':');
                good &= write_json(reader, &format!("{path}.{key}"), &entry.node, out);
            }
            out.push('}');
            return good;
        }
    }
    true
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("text is always JSON"));
}
