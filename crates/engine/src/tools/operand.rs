//! Content that arguments name and that is kept elsewhere: files of this machine, and what urls answer (C-142).
//!
//! Owns which content a call names, and the bounds of reading it. Nothing of it is kept but a digest, to which an approval
//! is bound, and with which the dispatch gate compares what is there then (C-109).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use protocol::digest::{Digest, Hasher};
use protocol::json::{Canonical, Value};
use protocol::limits::{OPERAND_BYTES, OPERAND_TIME, OPERANDS};
use protocol::tool::{OperandKind, ToolSpec};

use super::{Connectors, Grant, http};

/// One content that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// JSON Pointer of the argument that names it.
    pub pointer: String,
    /// The digest of all its bytes, or why they cannot be read.
    pub digest: Result<Digest, String>,
}

impl Content {
    /// What a question is bound to: all of the content, or why some of it cannot be read.
    pub(crate) fn pinned(contents: Vec<Content>) -> Result<Vec<(String, Digest)>, String> {
        let pin = |Content { pointer, digest }| match digest {
            Ok(digest) => Ok((pointer, digest)),
            Err(why) => Err(format!("`{pointer}` {why}")),
        };
        contents.into_iter().map(pin).collect()
    }

    /// What there is of it. Content that cannot be read is not what was approved.
    pub(crate) fn found(contents: Vec<Content>) -> Vec<(String, Digest)> {
        contents.into_iter().filter_map(|content| Some((content.pointer, content.digest.ok()?))).collect()
    }
}

/// An argument that names content; a list names one with each item.
struct Named<'a> {
    pointer: String,
    kind: OperandKind,
    name: Option<&'a str>,
}

impl Connectors {
    /// Reads what these arguments name, all of it at once and within its time. An argument that is left out or `null` names
    /// nothing.
    pub async fn contents(&self, spec: &ToolSpec, grant: &Grant, arguments: &Canonical) -> Vec<Content> {
        let arguments = arguments.value();
        let named = named(spec, &arguments);
        if let Some(beyond) = named.get(OPERANDS) {
            let why = format!("is more content than a call may name: operands exceeded: {} > {OPERANDS}", named.len());
            return vec![Content { pointer: beyond.pointer.clone(), digest: Err(why) }];
        }
        join_all(named.into_iter().map(|one| self.content(one, grant))).await
    }

    async fn content(&self, named: Named<'_>, grant: &Grant) -> Content {
        let digest = match (named.name, named.kind) {
            (None, _) => Err("is no text that names content".to_owned()),
            (Some(name), kind) => {
                let read = async {
                    match kind {
                        OperandKind::File => file(name).await,
                        OperandKind::Url => {
                            let net = http::Net { names: &self.names, tls: &self.tls };
                            http::digest(name, grant, &net).await
                        }
                    }
                };
                let late = |_| Err(format!("could not be read within {OPERAND_TIME:?}"));
                tokio::time::timeout(OPERAND_TIME, read).await.unwrap_or_else(late)
            }
        };
        Content { pointer: named.pointer, digest }
    }
}

fn named<'a>(spec: &ToolSpec, arguments: &'a Value) -> Vec<Named<'a>> {
    let mut all = Vec::new();
    for operand in &spec.operands {
        let (pointer, kind) = (&operand.pointer, operand.kind);
        match arguments.pointer(pointer) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => {
                let item = |(at, item): (usize, &'a Value)| Named {
                    pointer: format!("{pointer}/{at}"),
                    kind,
                    name: item.as_str(),
                };
                all.extend(items.iter().enumerate().map(item));
            }
            Some(one) => all.push(Named { pointer: pointer.clone(), kind, name: one.as_str() }),
        }
    }
    all
}

/// The digest of a file. A name without its place would mean another file in each process.
async fn file(name: &str) -> Result<Digest, String> {
    let path = PathBuf::from(name);
    if !path.is_absolute() {
        return Err("is no absolute path".to_owned());
    }
    let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
    read.map_err(|error| error.to_string())?
}

fn read_file(path: &Path) -> Result<Digest, String> {
    let unread = |error: io::Error| format!("cannot be read: {error}");
    // Without waiting: a named pipe that nobody writes would hold this thread for ever.
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(no_wait).open(path).map_err(unread)?;
    if !file.metadata().map_err(unread)?.is_file() {
        return Err("is no file".to_owned());
    }
    let (mut hasher, mut read, mut buffer) = (Hasher::default(), 0, vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(len) => {
                read += len as u64;
                if read > OPERAND_BYTES {
                    return Err(format!("has more than {OPERAND_BYTES} bytes"));
                }
                hasher.update(&buffer[..len]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unread(error)),
        }
    }
}
