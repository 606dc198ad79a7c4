//! The configuration as a tree in which every key and value knows where it stands.
//!
//! Owns the step from TOML text and from environment overrides to that tree. It judges no key and no value: a reader
//! does. Numbers are kept as written, because a schema's digest is over what was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Place};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) item: Item,
    pub(super) place: Place,
}

#[derive(Debug, Clone)]
pub(super) enum Item {
    Text(String),
    /// A whole number, in decimal digits.
    Integer(String),
    /// A number with a fraction or exponent, or `inf` and `nan`, as written.
    Float(String),
    Bool(bool),
    Date,
    List(Vec<Node>),
    Table(Table),
    /// Text of an environment variable: what it is depends on what its key wants.
    Bare(String),
    /// Of a manifest in JSON; TOML has none. As the value of a key it is absence.
    Null,
}

impl Item {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Bare(_) => "an environment variable",
            Self::Null => "null",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Table(pub(super) BTreeMap<String, Entry>);

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Where the key stands; the value has its own place.
    pub(super) key: Place,
    pub(super) node: Node,
}

/// Turns byte offsets of one text into places.
struct Lines<'a> {
    file: Arc<str>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(file: &str, text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file: file.into(), text, starts }
    }

    fn place(&self, offset: usize) -> Place {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= offset);
        let column = self.text[self.starts[line - 1]..offset].chars().count() + 1;
        Place { file: self.file.clone(), line: u32::try_from(line).ok(), column: u32::try_from(column).ok() }
    }
}

/// The tree of a TOML text, with every syntax fault found on the way.
pub(super) fn parse(file: &str, text: &str) -> (Table, Vec<Fault>) {
    let lines = Lines::new(file, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut faults: Vec<Fault> = errors
        .iter()
        .map(|error| {
            let place = lines.place(error.span().map_or(0, |span| span.start));
            Fault::at(&place, "", error.message().trim())
        })
        .collect();
    let table = convert(&lines, root.get_ref(), &mut faults);
    (table, faults)
}

fn convert(lines: &Lines<'_>, table: &DeTable<'_>, faults: &mut Vec<Fault>) -> Table {
    let mut out = BTreeMap::new();
    for (key, value) in table {
        let entry = Entry {
            key: lines.place(key.span().start),
            node: Node {
                place: lines.place(value.span().start),
                item: convert_item(lines, value.get_ref(), value.span().start, faults),
            },
        };
        out.insert(key.get_ref().to_string(), entry);
    }
    Table(out)
}

fn convert_item(lines: &Lines<'_>, value: &DeValue<'_>, at: usize, faults: &mut Vec<Fault>) -> Item {
    match value {
        DeValue::String(text) => Item::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(whole) => Item::Integer(whole.to_string()),
            Err(_) => {
                faults.push(Fault::at(&lines.place(at), "", "a whole number that does not fit 64 bits"));
                Item::Integer("0".to_owned())
            }
        },
        DeValue::Float(number) => Item::Float(number.as_str().trim_start_matches('+').to_owned()),
        DeValue::Boolean(flag) => Item::Bool(*flag),
        DeValue::Datetime(_) => Item::Date,
        DeValue::Array(items) => Item::List(
            items
                .iter()
                .map(|item| Node {
                    place: lines.place(item.span().start),
                    item: convert_item(lines, item.get_ref(), item.span().start, faults),
                })
                .collect(),
        ),
        DeValue::Table(table) => Item::Table(convert(lines, table, faults)),
    }
}

/// Moves every place to the right: the text stood behind `columns` more characters.
pub(super) fn shift(table: &mut Table, columns: u32) {
    fn right(place: &mut Place, columns: u32) {
        place.column = place.column.map(|column| column + columns);
    }
    fn shift_node(node: &mut Node, columns: u32) {
        right(&mut node.place, columns);
        match &mut node.item {
            Item::Table(table) => shift(table, columns),
            Item::List(items) => items.iter_mut().for_each(|item| shift_node(item, columns)),
            _ => {}
        }
    }
    for entry in table.0.values_mut() {
        right(&mut entry.key, columns);
        shift_node(&mut entry.node, columns);
    }
}

/// The prefix of variables that override a key (I-60): `STASIS__WORKER__CLAIM_TTL`.
const PREFIX: &str = "STASIS__";

/// Lays the overrides of the environment over the tree. A name that leads through a list or a plain value is a fault.
pub(super) fn overlay(root: &mut Table, variables: impl Iterator<Item = (String, String)>, faults: &mut Vec<Fault>) {
    let mut variables: Vec<_> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    for (name, text) in variables {
        let place = Place { file: name.as_str().into(), line: None, column: None };
        let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_ascii_lowercase).collect();
        let node = Node { item: Item::Bare(text), place: place.clone() };
        if path.len() < 2 || path.iter().any(String::is_empty) {
            faults.push(
                Fault::at(&place, "", "an override names a section and a key")
                    .hint(Some(format!("{PREFIX}SECTION__KEY"))),
            );
        } else if !put(root, &path, node) {
            faults.push(Fault::at(&place, path.join("."), "an override can only set a key of a plain section"));
        }
    }
}

fn put(table: &mut Table, path: &[String], node: Node) -> bool {
    let place = node.place.clone();
    let [first, rest @ ..] = path else { return false };
    if rest.is_empty() {
        let is_structure =
            table.0.get(first).is_some_and(|entry| matches!(entry.node.item, Item::Table(_) | Item::List(_)));
        if !is_structure {
            table.0.insert(first.clone(), Entry { key: place, node });
        }
        return !is_structure;
    }
    let entry = table
        .0
        .entry(first.clone())
        .or_insert_with(|| Entry { key: place.clone(), node: Node { item: Item::Table(Table::default()), place } });
    match &mut entry.node.item {
        Item::Table(inner) => put(inner, rest, node),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let (table, faults) = parse("x.toml", "a = 1\n\"é\" = 0x1F\n[b]\n  c = 1_000\n");
        assert_eq!(faults, []);
        let e = &table.0["é"];
        assert_eq!((e.key.line, e.key.column, e.node.place.column), (Some(2), Some(1), Some(7)));
        assert!(matches!(&e.node.item, Item::Integer(text) if text == "31"));
        let Item::Table(b) = &table.0["b"].node.item else { panic!("a table") };
        assert_eq!((b.0["c"].key.line, b.0["c"].key.column), (Some(4), Some(3)));
        assert!(matches!(&b.0["c"].node.item, Item::Integer(text) if text == "1000"));
    }
}
