//! The stages of a build, each resumable: fetch, compile CPython twice, link our shim to it, asyncify, bake.
//!
//! A stage that is done leaves a stamp with its key, which covers all stages before it. A build begins after the last
//! stage whose stamp still has the right key; a stage that was interrupted is run again from its beginning, or, where that
//! is `make`, goes on. Nothing outside the work folder is written.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::recipe::{self, Fetched, Recipe};
use super::watch::Watch;
use super::{mirror, write_whole};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Settings of a user's shell that would reach a compiler.
const CLEARED: &[&str] = &[
    "CC",
    "CXX",
    "CPP",
    "AR",
    "RANLIB",
    "LD",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "LIBS",
    "CONFIG_SITE",
    "MAKEFLAGS",
    "PYTHONPATH",
    "PYTHONHOME",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Fetch,
    Compiler,
    Unpack,
    NativeConfigure,
    NativeMake,
    CrossConfigure,
    CrossMake,
    Link,
    Asyncify,
    Bake,
}

impl Stage {
    const ALL: [Self; 10] = [
        Self::Fetch,
        Self::Compiler,
        Self::Unpack,
        Self::NativeConfigure,
        Self::NativeMake,
        Self::CrossConfigure,
        Self::CrossMake,
        Self::Link,
        Self::Asyncify,
        Self::Bake,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Fetch => "fetching CPython's source and binaryen",
            Self::Compiler => "fetching the compiler",
            Self::Unpack => "unpacking",
            Self::NativeConfigure => "configuring the build Python",
            Self::NativeMake => "making the build Python",
            Self::CrossConfigure => "configuring the guest Python",
            Self::CrossMake => "making the guest Python",
            Self::Link => "linking the guest",
            Self::Asyncify => "making the guest freezable",
            Self::Bake => "starting Python once and keeping its memory",
        }
    }

    fn stamp(self) -> &'static str {
        match self {
            Self::Fetch => "1-fetch",
            Self::Compiler => "2-compiler",
            Self::Unpack => "3-unpack",
            Self::NativeConfigure => "4-native-configure",
            Self::NativeMake => "5-native-make",
            Self::CrossConfigure => "6-cross-configure",
            Self::CrossMake => "7-cross-make",
            Self::Link => "8-link",
            Self::Asyncify => "9-asyncify",
            Self::Bake => "10-bake",
        }
    }

    fn key(self, recipe: &Recipe) -> String {
        match self {
            Self::Fetch | Self::Compiler | Self::Unpack => recipe.key_of_sources(),
            Self::NativeConfigure | Self::NativeMake => recipe.key_of_native(),
            Self::CrossConfigure | Self::CrossMake => recipe.key_of_cross(),
            Self::Link => recipe.key_of_link(),
            Self::Asyncify => recipe.key_of_asyncify(),
            Self::Bake => recipe.key_of_bake(),
        }
    }
}

/// The stages still to run: those after the last one that is done. The bake always runs: it is asked for only when its
/// image is missing.
fn remaining(done: impl Fn(Stage) -> bool) -> &'static [Stage] {
    let last = Stage::ALL.iter().rposition(|&stage| stage != Stage::Bake && done(stage));
    &Stage::ALL[last.map_or(0, |last| last + 1)..]
}

/// A folder in which an image is built.
pub(super) struct Workshop<'a> {
    work: PathBuf,
    recipe: &'a Recipe,
    jobs: usize,
}

impl<'a> Workshop<'a> {
    pub(super) fn new(work: &Path, recipe: &'a Recipe) -> Result<Self> {
        for name in ["stamps", "logs"] {
            fs::create_dir_all(work.join(name))?;
        }
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { work: work.to_owned(), recipe, jobs })
    }

    /// Runs what remains to be run, and gives the name of the image, which is put into `out`.
    pub(super) fn make(&mut self, out: &Path) -> Result<String> {
        for &stage in remaining(|stage| self.is_done(stage)) {
            let number = Stage::ALL.iter().position(|&other| other == stage).expect("every stage is listed") + 1;
            let log = self.work.join("logs").join(stage.stamp());
            let watch = Watch::start(number, Stage::ALL.len(), stage.title(), log)?;
            self.run(stage, &watch, out).with_context(|| format!("{} failed", stage.title()))?;
            write_whole(&self.stamp(stage), &stage.key(self.recipe))?;
            watch.done();
        }
        let name = fs::read_to_string(self.work.join("image")).context("the bake named no image")?;
        Ok(name.trim().to_owned())
    }

    /// Removes what a later build does not need unless the shim changes: all but the last module and the library.
    pub(super) fn tidy_up(&self) -> Result<()> {
        for stage in Stage::ALL.into_iter().filter(|stage| !matches!(stage, Stage::Asyncify | Stage::Bake)) {
            remove(&self.stamp(stage))?;
        }
        for name in ["fetched", "apt", "compiler", "binaryen", "cache", "bin", recipe::PYTHON_FOLDER] {
            remove(&self.work.join(name))?;
        }
        Ok(())
    }

    fn stamp(&self, stage: Stage) -> PathBuf {
        self.work.join("stamps").join(stage.stamp())
    }

    fn is_done(&self, stage: Stage) -> bool {
        fs::read_to_string(self.stamp(stage)).is_ok_and(|key| key == stage.key(self.recipe))
    }

    fn run(&self, stage: Stage, watch: &Watch, out: &Path) -> Result<()> {
        match stage {
            Stage::Fetch => self.fetch(watch),
            Stage::Compiler => self.install_compiler(watch),
            Stage::Unpack => self.unpack(watch),
            Stage::NativeConfigure => self.configure_native(watch),
            Stage::NativeMake => watch.run(self.make_in("build-native").arg("python")),
            Stage::CrossConfigure => self.configure_cross(watch),
            Stage::CrossMake => watch.run(self.make_in("build-wasi").args(recipe::ARCHIVES)),
            Stage::Link => self.link(watch),
            Stage::Asyncify => self.asyncify(watch),
            Stage::Bake => self.bake(watch, out),
        }
    }

    fn source(&self) -> PathBuf {
        self.work.join(recipe::PYTHON_FOLDER)
    }

    fn fetched(&self, what: &Fetched) -> PathBuf {
        self.work.join("fetched").join(what.name)
    }

    /// A command with the environment of the recipe.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for name in CLEARED {
            command.env_remove(name);
        }
        let cache = self.work.join("cache");
        command
            .envs([("LC_ALL", "C"), ("TZ", "UTC"), ("SOURCE_DATE_EPOCH", recipe::SOURCE_DATE_EPOCH)])
            // No library of this machine is to be found, and none would fit.
            .envs([("PKG_CONFIG_PATH", ""), ("PKG_CONFIG_LIBDIR", "/nonexistent")])
            .env("ZIG_GLOBAL_CACHE_DIR", &cache)
            .env("ZIG_LOCAL_CACHE_DIR", &cache)
            .current_dir(&self.work);
        command
    }

    fn fetch(&self, watch: &Watch) -> Result<()> {
        fs::create_dir_all(self.work.join("fetched"))?;
        if !self.all_fetched()? {
            self.fetch_by_apt(watch)?;
        }
        if !self.all_fetched()? {
            bail!("apt fetched something else than the recipe names");
        }
        Ok(())
    }

    fn all_fetched(&self) -> Result<bool> {
        for what in [recipe::PYTHON, recipe::BINARYEN] {
            let path = self.fetched(&what);
            if !path.exists() || recipe::sha256_of(&path)? != what.sha256 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// With lists and caches of its own, so that neither rights nor the machine's own lists are touched.
    fn fetch_by_apt(&self, watch: &Watch) -> Result<()> {
        if Command::new("apt-get").arg("--version").stdout(Stdio::null()).status().is_err() {
            let [python, binaryen] = [recipe::PYTHON, recipe::BINARYEN];
            bail!(
                "there is no apt-get here. Put {} (from python.org, sha256 {}) and {} (from Debian, sha256 {}) into {} and \
                 run this again",
                python.name,
                python.sha256,
                binaryen.name,
                binaryen.sha256,
                self.work.join("fetched").display(),
            );
        }
        let apt = self.work.join("apt");
        for name in ["lists/partial", "cache/archives/partial", "out"] {
            fs::create_dir_all(apt.join(name))?;
        }
        let (mirror, sources) = (mirror::find()?, apt.join("sources.list"));
        let line = |kind: &str, suite: &str| format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n");
        let lines = line("deb-src", recipe::PYTHON_SUITE) + &line("deb", recipe::BINARYEN_SUITE);
        fs::write(&sources, lines)?;
        let apt_get = || {
            let mut command = self.command("apt-get");
            let option = |name: &str, value: &Path| format!("{name}={}", value.display());
            command.args(["-q", "-o", &option("Dir::Etc::SourceList", &sources)]);
            command.args(["-o", "Dir::Etc::SourceParts=/dev/null", "-o", "Acquire::Languages=none"]);
            command.args(["-o", &option("Dir::State::Lists", &apt.join("lists"))]);
            command.args(["-o", &option("Dir::Cache", &apt.join("cache"))]);
            command.current_dir(apt.join("out"));
            command
        };
        watch.run(apt_get().arg("update"))?;
        watch.run(apt_get().args([
            "source",
            "--download-only",
            "--tar-only",
            "--only-source",
            recipe::PYTHON_PACKAGE,
        ]))?;
        watch.run(apt_get().args(["download", recipe::BINARYEN_PACKAGE]))?;
        self.take_fetched(&apt.join("out"))
    }

    /// Gives each file the name of what it is, by its digest: a source package's files are named by its own rules.
    fn take_fetched(&self, from: &Path) -> Result<()> {
        for entry in fs::read_dir(from)? {
            let path = entry?.path();
            let digest = recipe::sha256_of(&path)?;
            if let Some(what) = [recipe::PYTHON, recipe::BINARYEN].iter().find(|what| what.sha256 == digest) {
                fs::rename(&path, self.fetched(what))?;
            }
        }
        Ok(())
    }

    fn install_compiler(&self, watch: &Watch) -> Result<()> {
        let compiler = self.work.join("compiler");
        remove(&compiler)?;
        watch.run(self.command("python3").args(["-m", "venv"]).arg(&compiler))?;
        let requirements = self.work.join("compiler.txt");
        fs::write(&requirements, recipe::COMPILER)?;
        let mut pip = self.command(compiler.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-compile",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "-r",
        ]);
        watch.run(pip.arg(&requirements))?;
        self.write_wrappers()
    }

    /// The compiler and its tools, as commands that `configure` understands.
    fn write_wrappers(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let packages = self.work.join("compiler/lib");
        let found = fs::read_dir(&packages)?.flatten().map(|entry| entry.path().join("site-packages/ziglang/zig"));
        let zig = found.into_iter().find(|zig| zig.exists()).context("the compiler's package holds no compiler")?;
        fs::create_dir_all(self.work.join("bin"))?;
        for (name, tool) in [("cc", "cc -target wasm32-wasi"), ("ar", "ar"), ("ranlib", "ranlib")] {
            let path = self.work.join("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\nexec \"{}\" {tool} \"$@\"\n", zig.display()))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn unpack(&self, watch: &Watch) -> Result<()> {
        for name in [recipe::PYTHON_FOLDER, "binaryen"] {
            remove(&self.work.join(name))?;
        }
        watch.run(self.command("tar").arg("-xf").arg(self.fetched(&recipe::PYTHON)))?;
        watch.run(self.command("dpkg-deb").arg("-x").arg(self.fetched(&recipe::BINARYEN)).arg("binaryen"))
    }

    /// A build folder inside the source, so that every path in it is relative and none reaches the image.
    fn build_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.source().join(name);
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn configure_native(&self, watch: &Watch) -> Result<()> {
        let folder = self.build_folder("build-native")?;
        watch.run(self.command("../configure").args(recipe::NATIVE_CONFIGURE).current_dir(folder))
    }

    fn configure_cross(&self, watch: &Watch) -> Result<()> {
        let folder = self.build_folder("build-wasi")?;
        let tool = |name: &str| self.work.join("bin").join(name);
        let mut configure = self.command("../configure");
        configure.args(recipe::CROSS_CONFIGURE).current_dir(folder);
        configure.arg(format!("--with-build-python={}", self.source().join("build-native/python").display()));
        configure.env("CC", tool("cc")).env("AR", tool("ar")).env("RANLIB", tool("ranlib"));
        configure.env("CPP", format!("{} -E", tool("cc").display()));
        configure.env("CONFIG_SITE", "../Tools/wasm/config.site-wasm32-wasi");
        configure.env("CFLAGS", recipe::CROSS_CFLAGS).env("CFLAGS_NODIST", recipe::CROSS_CFLAGS_NODIST);
        watch.run(&mut configure)
    }

    fn make_in(&self, folder: &str) -> Command {
        let mut make = self.command("make");
        make.arg("-s").arg(format!("-j{}", self.jobs)).current_dir(self.source().join(folder));
        make
    }

    fn link(&self, watch: &Watch) -> Result<()> {
        let build = self.source().join("build-wasi");
        // Copied first: the names of compiled files are relative then, as those of CPython's are.
        for name in ["guest.c", "stubs.c"] {
            fs::copy(self.recipe.own.join(name), self.work.join(name))?;
        }
        let mut cc = self.command(self.work.join("bin/cc"));
        cc.args(recipe::LINK_CFLAGS);
        cc.arg(format!("-I{}", self.source().join("Include").display())).arg(format!("-I{}", build.display()));
        cc.args(["guest.c", "stubs.c"]).args(recipe::ARCHIVES.iter().map(|name| build.join(name)));
        watch.run(cc.args(recipe::LINK).args(["-o", "linked.wasm"]))
    }

    fn asyncify(&self, watch: &Watch) -> Result<()> {
        let mut optimise = self.command(self.work.join("binaryen/usr/bin/wasm-opt"));
        optimise.args(["linked.wasm", "-o", "asyncified.part"]).args(recipe::ASYNCIFY);
        optimise.arg(format!("--pass-arg=asyncify-removelist@{}", self.recipe.removelist.join(",")));
        optimise.env("BINARYEN_CORES", self.jobs.to_string());
        watch.run(&mut optimise)?;
        fs::rename(self.work.join("asyncified.part"), self.work.join("asyncified.wasm"))?;
        // The library stays when the source goes.
        let library = self.work.join("Lib");
        remove(&library)?;
        watch.run(self.command("cp").arg("-R").arg(self.source().join("Lib")).arg(&library))?;
        for left_out in ["test", "ensurepip/_bundled", "idlelib"] {
            remove(&library.join(left_out))?;
        }
        Ok(())
    }

    fn bake(&self, watch: &Watch, out: &Path) -> Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = Command::new(cargo);
        // Together with the command line: cargo then unites the features of both, and whoever has built `stasis` has
        // built the WASM compiler for the bake too.
        cargo.args([
            "build",
            "--quiet",
            "--package",
            "stasis-cli",
            "--package",
            "stasis-sandbox",
            "--bin",
            "stasis-bake",
        ]);
        watch.run(cargo.args(["--message-format", "short"]).current_dir(&self.recipe.repository))?;
        let mut bake = Command::new(self.bake_program()?);
        bake.arg(self.work.join("asyncified.wasm")).arg(self.work.join("Lib")).arg(&self.recipe.own).arg(out);
        let output = bake.output().context("cannot start the bake")?;
        if !output.status.success() {
            bail!("the bake failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        write_whole(&self.work.join("image"), &String::from_utf8(output.stdout)?)
    }

    /// Beside this very program: both are built by the same cargo into the same folder.
    fn bake_program(&self) -> Result<PathBuf> {
        let here = std::env::current_exe()?;
        let program = here.ancestors().skip(1).map(|folder| folder.join("stasis-bake")).find(|path| path.is_file());
        program.context("the bake was built, and is not beside this program")
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(path.display().to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_goes_on_after_the_last_stage_that_is_done() {
        assert_eq!(remaining(|_| false), Stage::ALL);
        let first = |stage| matches!(stage, Stage::Fetch | Stage::Compiler);
        assert_eq!(remaining(first)[0], Stage::Unpack);
        // What came before is tidied away: only the module is left.
        assert_eq!(remaining(|stage| stage == Stage::Asyncify), [Stage::Bake]);
        assert_eq!(remaining(|_| true), [Stage::Bake]);
    }
}
