//! Parts of the file that are documents of the protocol: tools and policy.
//!
//! Owns the way there and back: a table becomes the JSON that `protocol` reads, and a fault at a JSON Pointer becomes a
//! fault at a line and key of the file. What a tool or a policy may say is not known here.

use protocol::json::{self, Canonical};
use protocol::tool::Fault as Judged;

use super::fault::{Fault, Place};
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

/// The names that keys of a document have in the file, where they differ: `(document, file)`.
pub(super) type Names = [(&'static str, &'static str)];

/// Tells faults of a document at their places in the file.
pub(super) fn tell(reader: &Reader, path: &str, node: &Node, names: &Names, faults: Vec<Judged>) {
    for fault in faults {
        tell_one(reader, path, node, names, fault, None);
    }
}

/// The same for one fault, with what can be done about it.
pub(super) fn tell_one(reader: &Reader, path: &str, node: &Node, names: &Names, fault: Judged, hint: Option<String>) {
    let (place, key) = locate(node, path, names, &fault.pointer);
    reader.fault(Fault::at(place, key, fault.message).hint(hint));
}

/// Follows a pointer as far as the node goes. What is missing stands where its table does.
fn locate<'n>(node: &'n Node, path: &str, names: &Names, pointer: &str) -> (&'n Place, String) {
    let (mut node, mut place, mut key) = (Some(node), &node.place, path.to_owned());
    for (depth, token) in pointer.split('/').skip(1).enumerate() {
        let token = token.replace("~1", "/").replace("~0", "~");
        let renamed = names.iter().find(|(document, _)| depth == 0 && *document == token);
        node = match node.map(|node| &node.item) {
            Some(Item::List(items)) => {
                key = format!("{key}[{token}]");
                token.parse::<usize>().ok().and_then(|n| items.get(n)).inspect(|node| place = &node.place)
            }
            inner => {
                key = format!("{key}.{}", renamed.map_or(token.as_str(), |(_, file)| file));
                match inner {
                    Some(Item::Table(table)) => table.0.get(&token).map(|entry| {
                        place = &entry.key;
                        &entry.node
                    }),
                    _ => None,
                }
            }
        };
    }
    (place, key)
}
