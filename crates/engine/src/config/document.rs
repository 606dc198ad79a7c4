//! Parts of the file that are documents of the protocol: tools and policy.
//!
//! Owns the way there and back: a table becomes the JSON that `protocol` reads, and a fault at a JSON Pointer becomes a
//! fault at a line and key of the file. What a tool or a policy may say is not known here.

use protocol::json::{self, Canonical};
use protocol::tool::Fault as Judged;

use super::fault::Fault;
use super::reader::{Reader, write_json};
use super::tree::{Item, Node};

/// The canonical JSON of a node, its faults told.
pub(super) fn canonical(reader: &Reader, path: &str, node: &Node) -> Option<Canonical> {
    let mut text = String::new();
    if !write_json(reader, path, node, &mut text) {
        return None;
    }
    match json::canonicalize(text.as_bytes()) {
        Ok(body) => Some(body),
        Err(fault) => {
            reader.fault(Fault::at(&node.place, path, format!("cannot be stored as JSON: {}", fault.reason)));
            None
        }
    }
}

/// Tells faults of a document at their places in the file.
pub(super) fn tell(reader: &Reader, path: &str, node: &Node, faults: Vec<Judged>) {
    for fault in faults {
        let (place, key) = locate(node, path, &fault.pointer);
        reader.fault(Fault::at(place, key, fault.message));
    }
}

/// Follows a pointer as far as the node goes. What is missing stands where its table does.
fn locate<'n>(node: &'n Node, path: &str, pointer: &str) -> (&'n super::fault::Place, String) {
    let (mut node, mut place, mut key) = (Some(node), &node.place, path.to_owned());
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        node = match node.map(|node| &node.item) {
            Some(Item::Table(table)) => {
                key = format!("{key}.{}", file_name(path, &key, &token));
                table.0.get(&token).map(|entry| {
                    place = &entry.key;
                    &entry.node
                })
            }
            Some(Item::List(items)) => {
                key = format!("{key}[{token}]");
                token.parse::<usize>().ok().and_then(|n| items.get(n)).inspect(|node| place = &node.place)
            }
            _ => {
                key = format!("{key}.{token}");
                None
            }
        };
    }
    (place, key)
}

/// The file's names for the two schemas of a tool (I-62).
fn file_name<'t>(root: &str, key: &str, token: &'t str) -> &'t str {
    match token {
        "input_schema" if key == root => "input",
        "output_schema" if key == root => "output",
        other => other,
    }
}
