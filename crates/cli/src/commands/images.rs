//! `stasis guest images` and `guest remove`: the guest images of this machine's cache (I-69, W-4).
//!
//! Images are files of the user's cache and no rows of a ledger. What still needs one is asked of the ledger at hand; of
//! other ledgers that use this cache nothing is known here.

use crate::app::App;
use crate::door::Need;
use crate::failure::Failure;
use crate::render::lists::{self, Image};
use api::page::Page;
use api::run::RunQuery;
use api::{Client, Problem};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::run::Status;
use sandbox::cache::{self, Cached};
use std::collections::{BTreeMap, HashMap};

/// Of more runs than these, only how many there are is told.
const NAMED: usize = 10;

pub(super) async fn list(app: &App) -> Result<(), Failure> {
    let pinned = pinned(&app.open(Need::Read).await?.client).await?;
    let shown = |image: &Cached| Image {
        digest: image.digest,
        engine: image.engine.clone(),
        bytes: image.bytes,
        compiled_bytes: image.compiled_bytes,
        newest: image.newest,
        runs: pinned.get(&image.digest).map_or(0, Vec::len),
    };
    app.out.page(&Page::whole(cached()?.iter().map(shown).collect()), lists::images)
}

/// Removes all of them or, where one is needed or unknown, none.
pub(super) async fn remove(app: &App, wanted: &[Digest]) -> Result<(), Failure> {
    let pinned = pinned(&app.open(Need::Read).await?.client).await?;
    let cached = cached()?;
    let mut chosen = Vec::new();
    for digest in wanted {
        if let Some(runs) = pinned.get(digest) {
            return Err(needed(*digest, runs));
        }
        let image = cached.iter().find(|image| image.digest == *digest);
        let unknown = || Problem::of(Code::NotFound, format!("no image {digest} is in the cache"));
        chosen.push(image.ok_or_else(|| Failure::of(unknown().hint("stasis guest images")))?);
    }
    let bytes: u64 = chosen.iter().map(|image| image.bytes + image.compiled_bytes).sum();
    app.confirm(&format!("Remove {} guest images, {}?", chosen.len(), lists::size(bytes))).await?;
    for image in chosen {
        image.remove().map_err(broken)?;
        app.out.say(&format!("removed {}", image.digest));
    }
    Ok(())
}

fn needed(digest: Digest, runs: &[RunId]) -> Failure {
    let mut named: Vec<String> = runs.iter().take(NAMED).map(RunId::to_string).collect();
    if runs.len() > NAMED {
        named.push(format!("and {} more", runs.len() - NAMED));
    }
    let detail = format!("{digest} is pinned by unfinished runs: {}", named.join(", "));
    Failure::of(Problem::of(Code::PatternInUse, detail).hint("let them end, or cancel them"))
}

fn cached() -> Result<Vec<Cached>, Failure> {
    cache::default_dir().and_then(|cache| cache::images(&cache)).map_err(broken)
}

fn broken(error: cache::CacheError) -> Failure {
    Failure::of(Problem::of(Code::ImageUnavailable, error.to_string()))
}

/// The unfinished runs of the ledger at hand, by the image they are pinned to.
async fn pinned(client: &Client) -> Result<BTreeMap<Digest, Vec<RunId>>, Failure> {
    let statuses = Status::ALL.into_iter().filter(|status| !status.is_final()).map(Status::as_str);
    let mut query = RunQuery { status: Some(statuses.collect::<Vec<_>>().join(",")), ..RunQuery::default() };
    let mut images: HashMap<(String, u32), Option<Digest>> = HashMap::new();
    let mut pinned: BTreeMap<Digest, Vec<RunId>> = BTreeMap::new();
    loop {
        let page = client.runs(&query).await?;
        for run in page.items {
            let key = (run.workflow, run.revision);
            if !images.contains_key(&key) {
                images.insert(key.clone(), image_of(client, &key.0, key.1).await?);
            }
            if let Some(digest) = images[&key] {
                pinned.entry(digest).or_default().push(run.id);
            }
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Ok(pinned);
        }
    }
}

async fn image_of(client: &Client, workflow: &str, revision: u32) -> Result<Option<Digest>, Failure> {
    let workflow = client.workflow(workflow).await?;
    match workflow.revisions.iter().find(|known| known.revision == revision) {
        Some(known) => Ok(client.pattern(known.pattern).await?.image_digest),
        None => Ok(None),
    }
}
