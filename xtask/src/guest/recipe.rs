//! What the image is made from: the versions and digests of what is fetched, the flags, and our own files.
//!
//! Everything that shows in the image is here or in a file that is read here. What does not show is absent: folders,
//! users, the number of jobs, the compiler of the build Python.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// CPython, as Debian's source package holds it: upstream's own tarball.
pub(super) const PYTHON: Fetched = Fetched {
    name: "Python-3.13.5.tar.xz",
    sha256: "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
};
pub(super) const PYTHON_FOLDER: &str = "Python-3.13.5";
pub(super) const PYTHON_PACKAGE: &str = "python3.13";
pub(super) const PYTHON_SUITE: &str = "trixie";

/// Of this suite on every machine: another version of it makes another image.
pub(super) const BINARYEN: Fetched = Fetched {
    name: "binaryen_108-1_amd64.deb",
    sha256: "3e78e82c38b9faa7e5645f19ab3d386f8da7c71f8dc19edfaa0ff1b080bd81a8",
};
pub(super) const BINARYEN_PACKAGE: &str = "binaryen=108-1";
pub(super) const BINARYEN_SUITE: &str = "bookworm";

/// The compiler, as a requirement that pip checks: the wheel for Linux on x86-64.
pub(super) const COMPILER: &str =
    "ziglang==0.17.1 --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54\n";

/// The build date that ends up in `sys.version`.
pub(super) const SOURCE_DATE_EPOCH: &str = "1749600000";

/// The Python that runs on this machine and freezes a few modules for the one that does not.
pub(super) const NATIVE_CONFIGURE: &[&str] =
    &["-q", "--without-ensurepip", "--disable-test-modules", "--without-doc-strings", "OPT=-O0", "CFLAGS=-g0 -w"];

pub(super) const CROSS_CONFIGURE: &[&str] = &[
    "-q",
    "--host=wasm32-wasip1",
    "--build=x86_64-pc-linux-gnu",
    "--prefix=/",
    "--with-ensurepip=no",
    "--disable-test-modules",
    "--disable-ipv6",
];
pub(super) const CROSS_CFLAGS: &str = "-g0 -fno-sanitize=undefined -Wno-date-time";
/// A socket kind that WASI's headers lack and the socket module names.
pub(super) const CROSS_CFLAGS_NODIST: &str = "-DSOCK_RAW=3";

/// The archives of the cross build, in the order in which they are linked.
pub(super) const ARCHIVES: &[&str] = &[
    "libpython3.13.a",
    "Modules/_decimal/libmpdec/libmpdec.a",
    "Modules/_hacl/libHacl_Hash_SHA2.a",
    "Modules/expat/libexpat.a",
];

/// No `--strip-debug` here: it would drop the function names that the list of functions to leave alone needs.
pub(super) const LINK: &[&str] = &[
    "-lwasi-emulated-signal",
    "-lwasi-emulated-getpid",
    "-lwasi-emulated-process-clocks",
    "-lm",
    "-Wl,--export=__stack_pointer",
    "-Wl,-z,stack-size=4194304",
];
pub(super) const LINK_CFLAGS: &[&str] = &["-mexec-model=reactor", "-O2", "-g0", "-Wno-date-time"];

/// With `asyncify-asserts` a function that is wrongly left alone traps when it is suspended, instead of going wrong in
/// silence.
pub(super) const ASYNCIFY: &[&str] = &[
    "--strip-debug",
    "--strip-producers",
    "--enable-bulk-memory",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-multivalue",
    "--enable-reference-types",
    "--asyncify",
    "--pass-arg=asyncify-imports@host.call",
    "--pass-arg=asyncify-asserts",
    "-O2",
];

/// The shim, which is compiled.
const SHIM: &[&str] = &["guest.c", "stubs.c"];
/// The functions that asyncify leaves alone.
const REMOVELIST: &str = "removelist.txt";
/// The sources of the bake: a change of them may make another image.
const BAKE: &[&str] = &["src/image/bake.rs", "src/image/module.rs", "src/image/stdlib.rs", "src/bin/stasis-bake.rs"];

/// Something that is fetched and checked.
pub(super) struct Fetched {
    pub(super) name: &'static str,
    pub(super) sha256: &'static str,
}

/// The recipe of this checkout.
pub(super) struct Recipe {
    pub(super) repository: PathBuf,
    /// The folder with our own side of the guest.
    pub(super) own: PathBuf,
    pub(super) removelist: Vec<String>,
    shim: String,
    bake: String,
}

impl Recipe {
    pub(super) fn read(repository: &Path) -> Result<Self> {
        let sandbox = repository.join("crates/sandbox");
        let own = sandbox.join("python");
        let list =
            fs::read_to_string(own.join(REMOVELIST)).context("cannot read the list of functions to leave alone")?;
        let removelist = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut python = files_of(&own)?;
        python.retain(|path| path.extension().is_some_and(|kind| kind == "py") || path.ends_with("omit.txt"));
        python.extend(BAKE.iter().map(|path| sandbox.join(path)));
        Ok(Self {
            repository: repository.to_owned(),
            removelist: removelist.map(str::to_owned).collect(),
            shim: digest_of_files(&own, &SHIM.iter().map(|name| own.join(name)).collect::<Vec<_>>())?,
            bake: digest_of_files(&sandbox, &python)?,
            own,
        })
    }

    /// The digest of everything that shows in the image, in hex.
    pub(super) fn digest(&self) -> String {
        self.key_of_bake()
    }

    /// The keys say what a stage and all before it depend on; a stage whose key is unchanged need not run again.
    pub(super) fn key_of_sources(&self) -> String {
        key(&["sources", PYTHON.sha256, BINARYEN.sha256, COMPILER])
    }

    pub(super) fn key_of_native(&self) -> String {
        key(&["native", &self.key_of_sources(), SOURCE_DATE_EPOCH, &NATIVE_CONFIGURE.join("\n")])
    }

    pub(super) fn key_of_cross(&self) -> String {
        let flags = [CROSS_CONFIGURE.join("\n"), ARCHIVES.join("\n")];
        key(&["cross", &self.key_of_native(), &flags[0], CROSS_CFLAGS, CROSS_CFLAGS_NODIST, &flags[1]])
    }

    pub(super) fn key_of_link(&self) -> String {
        key(&["link", &self.key_of_cross(), &LINK.join("\n"), &LINK_CFLAGS.join("\n"), &self.shim])
    }

    pub(super) fn key_of_asyncify(&self) -> String {
        key(&["asyncify", &self.key_of_link(), &ASYNCIFY.join("\n"), &self.removelist.join("\n")])
    }

    pub(super) fn key_of_bake(&self) -> String {
        key(&["bake", &self.key_of_asyncify(), &self.bake])
    }
}

fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Of the files' names below `root` and their bytes.
fn digest_of_files(root: &Path, files: &[PathBuf]) -> Result<String> {
    let mut files = files.to_vec();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        for part in [name.as_bytes(), &bytes] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hex(&hash.finalize()))
}

/// Every file below a folder.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

pub(super) fn sha256_of(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        Recipe::read(&crate::guest::repository()).unwrap()
    }

    #[test]
    fn a_change_of_the_python_side_leaves_the_compiled_stages_alone() {
        let (before, mut after) = (recipe(), recipe());
        after.bake.push('x');
        assert_eq!(after.key_of_asyncify(), before.key_of_asyncify());
        assert_ne!(after.digest(), before.digest());
    }

    #[test]
    fn a_change_of_the_shim_reaches_everything_after_it() {
        let (before, mut after) = (recipe(), recipe());
        after.shim.push('x');
        assert_eq!(after.key_of_cross(), before.key_of_cross());
        assert_ne!(after.key_of_link(), before.key_of_link());
        assert_ne!(after.digest(), before.digest());
    }

    #[test]
    fn functions_to_leave_alone_are_named_once() {
        let mut names = recipe().removelist;
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((count, names.len()), (71, 71));
    }
}
