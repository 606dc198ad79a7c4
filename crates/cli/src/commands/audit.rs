//! `stasis audit`: verify, tail, export, accept (I-10).

use super::now;
use crate::app::App;
use crate::args::audit::Audit;
use crate::door::{Door, Need};
use crate::failure::{Exit, Failure};
use crate::render;
use api::audit::{Broken, ClaimedHead, CompareRequest, VerifyAnswer, VerifyRequest};
use api::event::TailQuery;
use api::run::ActionRequest;
use engine::audit::{PublicKey, evidence};
use protocol::audit::{Break, Evidence};
use protocol::id::RunId;
use protocol::time::Time;
use std::io::Write as _;
use std::path::Path;

/// Heads of one request.
const HEADS: usize = 1_000;
/// Progress is told after so many more runs.
const TELL_EVERY: u64 = 2_000;

pub(crate) async fn audit(app: &App, verb: &Audit) -> Result<Exit, Failure> {
    match verb {
        Audit::Verify { run, anchors, public_key } => {
            let copy = match (anchors, public_key) {
                (Some(file), Some(key)) => Some(read(file, key)?),
                _ => None,
            };
            verify(app, *run, copy).await
        }
        Audit::Tail => {
            let head = app.open(Need::Read).await?.client.audit_head().await?;
            app.out.object(&head, |head| render::audit::head(head, now()))?;
            Ok(Exit::Fine)
        }
        Audit::Export { to } => export(app, to.as_deref()).await,
        Audit::Accept => {
            let request = ActionRequest { reason: app.reason() };
            if request.reason.is_none() {
                return Err(Failure::usage("a reason is needed: it stays in the export (--reason)"));
            }
            let head = app.open(Need::Change).await?.client.accept_restored(&request).await?;
            if head.changed == Some(false) {
                app.out.say(
                    "there was nothing to accept: the ledger stands by its export, and the reason is kept nowhere",
                );
            }
            app.out.object(&head, |head| render::audit::head(head, now()))?;
            Ok(Exit::Fine)
        }
    }
}

/// A copy of an export, its signatures and its own chain verified; or where that is broken.
fn read(file: &Path, key: &PublicKey) -> Result<Result<Evidence, Break>, Failure> {
    let unread = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(unread)?;
    Ok(evidence(text.lines(), key))
}

async fn verify(app: &App, run: Option<RunId>, copy: Option<Result<Evidence, Break>>) -> Result<Exit, Failure> {
    let door = app.open(Need::Read).await?;
    let mut whole = VerifyAnswer::default();
    if let Some(Err(found)) = &copy {
        whole.broken = Some(Broken::from(found));
    }
    let mut request = VerifyRequest { run, cursor: None };
    let mut told = 0;
    while whole.broken.is_none() {
        let page = door.client.verify(&request).await?;
        whole.runs += page.runs;
        whole.events += page.events;
        whole.anchors = page.anchors.or(whole.anchors);
        whole.anchored += page.anchored;
        whole.broken = page.broken;
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
        if whole.runs >= told + TELL_EVERY {
            told = whole.runs;
            app.out.say(&format!("{} runs, {} events", whole.runs, whole.events));
        }
    }
    if let (None, Some(Ok(copy))) = (&whole.broken, &copy) {
        compare(&door, copy, &mut whole).await?;
    }
    app.out.object(&whole, |whole| render::audit::verified(whole, copy.is_some()))?;
    Ok(if whole.broken.is_none() { Exit::Fine } else { Exit::Failed }) // C-278
}

/// Asks the ledger to stand by what a copy says of it.
async fn compare(door: &Door, copy: &Evidence, whole: &mut VerifyAnswer) -> Result<(), Failure> {
    let until = copy.last.map_or(Time::EPOCH, |(_, _, at)| at);
    let mut heads: Vec<ClaimedHead> = copy
        .heads
        .iter()
        .map(|(run, anchored)| ClaimedHead {
            run: *run,
            anchor: anchored.n,
            events: anchored.head.len,
            head: anchored.head.digest,
            removed: copy.removed.contains(run),
        })
        .collect();
    heads.sort_unstable_by_key(|head| head.run);
    whole.anchors = Some(copy.last.map_or(0, |(n, ..)| n));
    whole.anchored = 0;
    for heads in heads.chunks(HEADS) {
        let answer = door.client.compare(&CompareRequest { heads: heads.to_vec(), until }).await?;
        whole.anchored += answer.anchored;
        whole.broken = answer.broken;
        if whole.broken.is_some() {
            break;
        }
    }
    Ok(())
}

/// Writes all anchors. A file that has some of them gets the others; one that has others is left as it is.
async fn export(app: &App, to: Option<&Path>) -> Result<Exit, Failure> {
    let client = app.open(Need::Change).await?.client;
    client.anchor().await?;
    let held = match to {
        Some(file) => match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::usage(format!("{}: {error}", file.display()))),
        },
        None => String::new(),
    };
    let mut held = held.lines();
    let mut fresh = String::new();
    let (mut query, mut count) = (TailQuery::default(), 0_u64);
    loop {
        let page = client.anchors(&query).await?;
        if page.items.is_empty() {
            break;
        }
        for line in &page.items {
            count += 1;
            match held.next() {
                Some(known) if known == line.as_str() => {}
                Some(_) => {
                    let what =
                        format!("line {count} of that file is not anchor {count} of this ledger; it is left as it is");
                    return Err(Failure::usage(what));
                }
                None => {
                    fresh.push_str(line.as_str());
                    fresh.push('\n');
                }
            }
        }
        query.after = page.next_after;
    }
    match to {
        None => app.out.text(&fresh)?,
        Some(file) => {
            let written = || -> std::io::Result<()> {
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
                file.write_all(fresh.as_bytes())?;
                file.sync_all()
            };
            written().map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
            app.out.say(&format!("{count} anchors in {}", file.display()));
        }
    }
    Ok(Exit::Fine)
}
