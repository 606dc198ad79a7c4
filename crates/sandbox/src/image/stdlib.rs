//! The file system that Python sees while an image is made: the standard library, in the host's memory.
//!
//! Invariant: the same files give the same answers. Numbers of files are their places in sorted order, every time is zero,
//! and folders are read in order, so that nothing of the machine that builds reaches the image.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{Caller, Linker, Memory, Module, Val};

use crate::host::Host;
use crate::wasi::errno;

/// The one folder that is open from the start, and the name it has in the guest.
const ROOT_FD: i32 = 3;
const ROOT_NAME: &[u8] = b"/lib";

const NOENT: i32 = 44;
const ISDIR: i32 = 31;
const NOTDIR: i32 = 54;
const SPIPE: i32 = 70;
const OPEN_DIRECTORY: i32 = 2;

const KIND_CHARACTER_DEVICE: u8 = 2;
const KIND_DIRECTORY: u8 = 3;
const KIND_FILE: u8 = 4;

/// Files and folders by their path below the root, which is the empty path.
#[derive(Debug, Clone)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
enum Entry {
    Folder,
    File(Vec<u8>),
}

impl Default for Tree {
    fn default() -> Self {
        Self { entries: BTreeMap::from([(String::new(), Entry::Folder)]) }
    }
}

impl Tree {
    /// Adds all of a folder, but what `leave_out` says of a path below the tree's root.
    pub fn add_folder(&mut self, from: &Path, to: &str, leave_out: &dyn Fn(&str) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| io::Error::other("a file name is not UTF-8"))?;
            let path = if to.is_empty() { name } else { format!("{to}/{name}") };
            if leave_out(&path) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.entries.insert(path.clone(), Entry::Folder);
                self.add_folder(&entry.path(), &path, leave_out)?;
            } else {
                self.add_file(&path, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Adds a file. Its folder has to be there.
    pub fn add_file(&mut self, path: &str, bytes: Vec<u8>) {
        self.entries.insert(path.to_owned(), Entry::File(bytes));
    }

    fn inode(&self, path: &str) -> u64 {
        self.entries.range::<str, _>((Bound::Unbounded, Bound::Excluded(path))).count() as u64 + 1
    }

    /// WASI's `filestat`.
    fn stat(&self, path: &str) -> Option<[u8; 64]> {
        let entry = self.entries.get(path)?;
        let mut stat = [0; 64];
        stat[0] = 1;
        stat[8..16].copy_from_slice(&self.inode(path).to_le_bytes());
        stat[16] = entry.kind();
        stat[24] = 1;
        stat[32..40].copy_from_slice(&(entry.bytes().map_or(0, <[u8]>::len) as u64).to_le_bytes());
        Some(stat)
    }

    /// What stands directly in a folder, in order.
    fn children<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a str, &'a Entry)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.entries
            .range(prefix.clone()..)
            .map_while(move |(path, entry)| {
                let name = path.strip_prefix(&prefix)?;
                Some((path, name, entry))
            })
            .filter(|(_, name, _)| !name.is_empty() && !name.contains('/'))
            .map(|(path, _, entry)| (path.as_str(), entry))
    }
}

impl Entry {
    fn kind(&self) -> u8 {
        match self {
            Self::Folder => KIND_DIRECTORY,
            Self::File(_) => KIND_FILE,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Folder => None,
            Self::File(bytes) => Some(bytes),
        }
    }
}

/// Open files: their path and position.
struct Files {
    tree: Tree,
    open: BTreeMap<i32, (String, usize)>,
}

/// Replaces the file functions that `module` imports by ones that read `tree`.
pub(crate) fn define(linker: &mut Linker<Host>, module: &Module, tree: Tree) -> wasmtime::Result<()> {
    let open = BTreeMap::from([(ROOT_FD, (String::new(), 0))]);
    let files = Arc::new(Mutex::new(Files { tree, open }));
    linker.allow_shadowing(true);
    for import in module.imports().filter(|import| import.module() == "wasi_snapshot_preview1") {
        let Some(function) = Function::named(import.name()) else {
            continue;
        };
        let Some(kind) = import.ty().func().cloned() else {
            continue;
        };
        let files = Arc::clone(&files);
        linker.func_new(import.module(), import.name(), kind, move |mut caller, args, results| {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            let mut call = Call { memory: caller.data().exports().memory, caller: &mut caller, args };
            results[0] = Val::I32(files.answer(function, &mut call)?);
            Ok(())
        })?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Function {
    Prestat,
    PrestatName,
    FdStat,
    FdFileStat,
    PathFileStat,
    Open,
    Close,
    Seek,
    Tell,
    Read,
    PositionedRead,
    ReadFolder,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "fd_prestat_get" => Self::Prestat,
            "fd_prestat_dir_name" => Self::PrestatName,
            "fd_fdstat_get" => Self::FdStat,
            "fd_filestat_get" => Self::FdFileStat,
            "path_filestat_get" => Self::PathFileStat,
            "path_open" => Self::Open,
            "fd_close" => Self::Close,
            "fd_seek" => Self::Seek,
            "fd_tell" => Self::Tell,
            "fd_read" => Self::Read,
            "fd_pread" => Self::PositionedRead,
            "fd_readdir" => Self::ReadFolder,
            _ => return None,
        })
    }
}

/// One call's arguments, and the memory they point into.
struct Call<'a, 'b> {
    caller: &'a mut Caller<'b, Host>,
    memory: Memory,
    args: &'a [Val],
}

impl Call<'_, '_> {
    fn int(&self, at: usize) -> i32 {
        self.args[at].i32().unwrap_or_default()
    }

    fn long(&self, at: usize) -> i64 {
        self.args[at].i64().unwrap_or_default()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> wasmtime::Result<()> {
        let address = self.int(at) as u32 as usize;
        Ok(self.memory.write(&mut *self.caller, address, bytes)?)
    }

    fn bytes(&self, start: usize, length: usize) -> wasmtime::Result<&[u8]> {
        let memory = self.memory.data(&*self.caller);
        Ok(memory.get(start..start + length).ok_or(wasmtime::Trap::MemoryOutOfBounds)?)
    }

    fn text(&self, at: usize) -> wasmtime::Result<String> {
        let (start, length) = (self.int(at) as u32 as usize, self.int(at + 1) as u32 as usize);
        Ok(String::from_utf8_lossy(self.bytes(start, length)?).into_owned())
    }

    /// Fills the buffers of a vector, and gives how much went in.
    fn scatter(&mut self, vectors: usize, mut from: &[u8]) -> wasmtime::Result<usize> {
        let (start, count, before) = (self.int(vectors) as u32 as usize, self.int(vectors + 1), from.len());
        for i in 0..count.max(0) as usize {
            let pair = self.bytes(start + 8 * i, 8)?;
            let word = |at: usize| u32::from_le_bytes(pair[at..at + 4].try_into().expect("4 bytes")) as usize;
            let (address, room) = (word(0), word(4));
            let (part, rest) = from.split_at(room.min(from.len()));
            self.memory.write(&mut *self.caller, address, part)?;
            from = rest;
        }
        Ok(before - from.len())
    }
}

impl Files {
    fn answer(&mut self, function: Function, call: &mut Call<'_, '_>) -> wasmtime::Result<i32> {
        let fd = call.int(0);
        let standard = (0..ROOT_FD).contains(&fd);
        match function {
            Function::Prestat if fd == ROOT_FD => {
                call.put(1, &(u64::from(ROOT_NAME.len() as u32) << 32).to_le_bytes())?;
                Ok(errno::SUCCESS)
            }
            Function::PrestatName if fd == ROOT_FD => {
                call.put(1, ROOT_NAME)?;
                Ok(errno::SUCCESS)
            }
            Function::FdStat => self.fd_stat(fd, standard, call),
            Function::FdFileStat if standard => {
                let mut stat = [0; 64];
                stat[16] = KIND_CHARACTER_DEVICE;
                call.put(1, &stat)?;
                Ok(errno::SUCCESS)
            }
            Function::Seek | Function::Tell if standard => Ok(SPIPE),
            Function::Read if fd == 0 => {
                call.put(3, &[0; 4])?;
                Ok(errno::SUCCESS)
            }
            Function::Close => Ok(if self.open.remove(&fd).is_some() { errno::SUCCESS } else { errno::BADF }),
            _ if !self.open.contains_key(&fd) => Ok(errno::BADF),
            Function::FdFileStat => {
                let stat = self.tree.stat(&self.open[&fd].0).expect("open files are in the tree");
                call.put(1, &stat)?;
                Ok(errno::SUCCESS)
            }
            Function::PathFileStat => match self.tree.stat(&self.resolve(fd, &call.text(2)?)) {
                Some(stat) => call.put(4, &stat).map(|()| errno::SUCCESS),
                None => Ok(NOENT),
            },
            Function::Open => self.open_path(fd, call),
            Function::Seek => self.seek(fd, call),
            Function::Tell => {
                let position = self.open[&fd].1 as u64;
                call.put(1, &position.to_le_bytes())?;
                Ok(errno::SUCCESS)
            }
            Function::Read => self.read(fd, None, 3, call),
            Function::PositionedRead => self.read(fd, Some(call.long(3) as usize), 4, call),
            Function::ReadFolder => self.read_folder(fd, call),
            Function::Prestat | Function::PrestatName => Ok(errno::BADF),
        }
    }

    /// A path relative to an open folder, below the root whatever it says.
    fn resolve(&self, fd: i32, path: &str) -> String {
        let mut parts: Vec<&str> = self.open[&fd].0.split('/').filter(|part| !part.is_empty()).collect();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }

    fn fd_stat(&self, fd: i32, standard: bool, call: &mut Call<'_, '_>) -> wasmtime::Result<i32> {
        let kind = match self.open.get(&fd) {
            _ if standard => KIND_CHARACTER_DEVICE,
            Some((path, _)) => self.tree.entries[path].kind(),
            None => return Ok(errno::BADF),
        };
        let mut stat = [0; 24];
        stat[0] = kind;
        stat[8..].fill(0xff); // every right
        call.put(1, &stat)?;
        Ok(errno::SUCCESS)
    }

    fn open_path(&mut self, fd: i32, call: &mut Call<'_, '_>) -> wasmtime::Result<i32> {
        let path = self.resolve(fd, &call.text(2)?);
        match self.tree.entries.get(&path) {
            None => Ok(NOENT),
            Some(Entry::File(_)) if call.int(4) & OPEN_DIRECTORY != 0 => Ok(NOTDIR),
            Some(_) => {
                let new = (ROOT_FD + 1..).find(|fd| !self.open.contains_key(fd)).expect("numbers do not run out");
                self.open.insert(new, (path, 0));
                call.put(8, &new.to_le_bytes())?;
                Ok(errno::SUCCESS)
            }
        }
    }

    fn seek(&mut self, fd: i32, call: &mut Call<'_, '_>) -> wasmtime::Result<i32> {
        let (path, position) = self.open.get_mut(&fd).expect("checked by the caller");
        let length = self.tree.entries[path].bytes().map_or(0, <[u8]>::len);
        let from = match call.int(2) {
            0 => 0,
            1 => *position,
            _ => length,
        };
        *position = from.saturating_add_signed(call.long(1) as isize);
        let position = *position as u64;
        call.put(3, &position.to_le_bytes())?;
        Ok(errno::SUCCESS)
    }

    fn read(&mut self, fd: i32, at: Option<usize>, count_at: usize, call: &mut Call<'_, '_>) -> wasmtime::Result<i32> {
        let (path, position) = self.open.get_mut(&fd).expect("checked by the caller");
        let Entry::File(bytes) = &self.tree.entries[path] else {
            return Ok(ISDIR);
        };
        let start = at.unwrap_or(*position).min(bytes.len());
        let read = call.scatter(1, &bytes[start..])?;
        if at.is_none() {
            *position += read;
        }
        call.put(count_at, &(read as u32).to_le_bytes())?;
        Ok(errno::SUCCESS)
    }

    fn read_folder(&mut self, fd: i32, call: &mut Call<'_, '_>) -> wasmtime::Result<i32> {
        let folder = &self.open[&fd].0;
        let (room, cookie) = (call.int(2) as u32 as usize, call.long(3) as usize);
        let mut out = Vec::new();
        for (index, (path, entry)) in self.tree.children(folder).enumerate().skip(cookie) {
            if out.len() >= room {
                break;
            }
            let name = path.rsplit('/').next().unwrap_or(path);
            out.extend_from_slice(&(index as u64 + 1).to_le_bytes());
            out.extend_from_slice(&self.tree.inode(path).to_le_bytes());
            out.extend_from_slice(&(name.len() as u32).to_le_bytes());
            out.extend_from_slice(&[entry.kind(), 0, 0, 0]);
            out.extend_from_slice(name.as_bytes());
        }
        out.truncate(room);
        call.put(1, &out)?;
        call.put(4, &(out.len() as u32).to_le_bytes())?;
        Ok(errno::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_the_same_in_whatever_order_it_was_made() {
        let mut tree = Tree::default();
        tree.entries.insert("b".into(), Entry::Folder);
        for path in ["b/z.py", "a.py", "b/a.py", "b.py"] {
            tree.add_file(path, path.as_bytes().to_vec());
        }
        let names = |folder| tree.children(folder).map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(names(""), ["a.py", "b", "b.py"]);
        assert_eq!(names("b"), ["b/a.py", "b/z.py"]);
        assert_eq!(tree.inode(""), 1);
        assert_eq!(tree.inode("b/z.py"), 6);
        assert_eq!(tree.stat("b/z.py").map(|stat| stat[32]), Some(6));
        assert!(tree.stat("c").is_none());
    }
}
