//! `cargo xtask guest`: makes the Python guest image from registry packages, or finds it in the cache.
//!
//! Owns: the cache entry of each recipe, and the work folder in which a build can be interrupted and taken up again.
//! Never does: bake, which needs a WASM engine and is a program of the crate sandbox; nor use anything of the machine
//! that would show in the image. The same recipe gives the same bytes, in any folder, as any user.

mod mirror;
mod recipe;
mod stages;
mod watch;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use recipe::Recipe;
use stages::Workshop;

#[derive(Args, Debug, Default)]
pub(crate) struct GuestArgs {
    /// Build once more in another folder, and compare the two images
    #[arg(long)]
    check: bool,
    /// Keep the whole work folder (about 1.1 GB), so that a change of guest.c takes one minute instead of four
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: GuestArgs) -> Result<()> {
    let cache = Cache::open()?;
    let recipe = Recipe::read(&repository())?;
    let image = match cache.find(&recipe)? {
        Some(image) => image,
        None => build(&cache, &recipe, args.keep)?,
    };
    println!("guest image: {}", image.display());
    if args.check {
        check(&cache, &recipe, &image)?;
    }
    Ok(())
}

fn build(cache: &Cache, recipe: &Recipe, keep: bool) -> Result<PathBuf> {
    let work = cache.dir("guest-build")?;
    let _lock = lock(&work)?;
    // Whoever waited for the lock finds the image made.
    if let Some(image) = cache.find(recipe)? {
        return Ok(image);
    }
    println!("building the guest image in {}: some minutes, the first time only", work.display());
    let mut workshop = Workshop::new(&work, recipe)?;
    let name = workshop.make(&cache.dir("guests")?)?;
    if Recipe::read(&repository())?.digest() != recipe.digest() {
        bail!("the guest's own files changed while it was built: run this again");
    }
    cache.remember(recipe, &name)?;
    if !keep {
        workshop.tidy_up()?;
    }
    cache.find(recipe)?.context("the image just made is not in the cache")
}

/// Builds from nothing in a folder of its own, and compares.
fn check(cache: &Cache, recipe: &Recipe, image: &Path) -> Result<()> {
    let work = cache.dir("guest-check")?;
    let _lock = lock(&work)?;
    let out = work.join("out");
    fs::create_dir_all(&out)?;
    println!("building the guest image again in {}", work.display());
    let name = Workshop::new(&work, recipe)?.make(&out)?;
    let same = image.file_name().is_some_and(|first| first == name.as_str());
    fs::remove_dir_all(&work)?;
    if !same {
        bail!("the image is not reproducible: {} and {name}", image.display());
    }
    println!("the same image came out of another folder");
    Ok(())
}

/// `$STASIS_CACHE`, else the user's cache folder + `stasis` (I-69).
struct Cache {
    root: PathBuf,
}

impl Cache {
    fn open() -> Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set("STASIS_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("stasis")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/stasis")))
            .context("no cache folder: set STASIS_CACHE, or HOME")?;
        let cache = Self { root: std::path::absolute(root)? };
        make_private(&cache.root)?;
        Ok(cache)
    }

    /// A folder of the cache, made if it is missing.
    fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        make_private(&dir)?;
        Ok(dir)
    }

    /// The image of a recipe. It becomes the newest one, which is the one that is used.
    fn find(&self, recipe: &Recipe) -> Result<Option<PathBuf>> {
        let name = match fs::read_to_string(self.entry(recipe)?) {
            Ok(name) => name,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("cannot read the cache"),
        };
        let image = self.dir("guests")?.join(name.trim());
        if !image.is_file() {
            return Ok(None);
        }
        #[allow(clippy::disallowed_methods, reason = "a file's time says which image was asked for last")]
        File::options().append(true).open(&image)?.set_modified(std::time::SystemTime::now())?;
        Ok(Some(image))
    }

    fn remember(&self, recipe: &Recipe, image: &str) -> Result<()> {
        write_whole(&self.entry(recipe)?, image)
    }

    fn entry(&self, recipe: &Recipe) -> Result<PathBuf> {
        Ok(self.dir("guests/recipes")?.join(recipe.digest()))
    }
}

fn make_private(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| format!("cannot make {}", dir.display()))
}

fn lock(work: &Path) -> Result<File> {
    let file = File::create(work.join("lock"))?;
    if file.try_lock().is_err() {
        println!("another build is using {}: waiting for it", work.display());
        file.lock()?;
    }
    Ok(file)
}

/// Writes a file so that its name never stands for a part of it.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask is a folder of the repository").to_owned()
}
