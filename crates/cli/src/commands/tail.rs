//! What grows: `run log` and `run events` (I-5, I-32).

use crate::app::App;
use crate::args::run::Follow;
use crate::door::{Behind, Door, Need};
use crate::failure::{Exit, Failure};
use crate::render;
use api::client::StreamItem;
use api::event::TailQuery;
use api::{Event, LogLine, Tail};
use protocol::id::RunId;
use std::time::Duration;

/// The most lines one request brings.
const PAGE: u32 = 1_000;
/// What grows becomes readable with the next commit of its hop: looking twice a second is soon enough for people.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often in a row the process that serves us may leave before it is an error.
const LOST: u32 = 20;

pub(crate) async fn log(app: &App, follow: &Follow) -> Result<Exit, Failure> {
    if !follow.follow {
        let door = app.open(Need::Read).await?;
        let lines = all_log(&door, follow.run, None, app.globals.limit).await?;
        app.out.tail(&lines, |lines| lines.iter().map(render::events::log).collect())?;
        return Ok(Exit::Fine);
    }
    let mut after = None;
    looking(app, async |door| {
        // The status is read before the lines: what was printed before the end is then among them.
        let ended = door.client.run(follow.run).await?.status.is_final();
        let lines = all_log(door, follow.run, after.clone(), None).await?;
        for line in &lines.items {
            app.out.streamed(line, render::events::log)?;
        }
        after = lines.next_after;
        Ok(ended)
    })
    .await
}

/// Looks again and again until there is nothing to come. Between two looks a store of our own is closed, so that a
/// command that watches never keeps one that carries the run from it.
async fn looking(app: &App, mut look: impl AsyncFnMut(&Door) -> Result<bool, Failure>) -> Result<Exit, Failure> {
    let mut lost = 0;
    loop {
        let door = app.open(Need::Read).await?;
        match look(&door).await {
            Ok(true) => return Ok(Exit::Fine),
            Ok(false) => lost = 0,
            // The command that served us was done and left: once more, by another door.
            Err(failure) if failure.unanswered && door.behind == Behind::Passing && lost < LOST => lost += 1,
            // What was printed must not be printed again: the command as a whole is not begun anew.
            Err(failure) => return Err(Failure { unanswered: false, ..failure }),
        }
        app.close().await;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Every line after `after`, at most `limit`.
pub(crate) async fn all_log(
    door: &Door,
    run: RunId,
    after: Option<String>,
    limit: Option<u32>,
) -> Result<Tail<LogLine>, Failure> {
    let mut all = Tail { items: Vec::new(), next_after: after };
    loop {
        let left = limit.map_or(PAGE, |limit| (limit as usize - all.items.len()).min(PAGE as usize) as u32);
        let query = TailQuery { after: all.next_after.clone(), limit: Some(left) };
        let page = door.client.log(run, &query).await?;
        let more = page.items.len() == left as usize;
        all.next_after = page.next_after.or(all.next_after);
        all.items.extend(page.items);
        if !more || limit.is_some_and(|limit| all.items.len() >= limit as usize) {
            return Ok(all);
        }
    }
}

pub(crate) async fn events(app: &App, follow: &Follow) -> Result<Exit, Failure> {
    let door = app.open(Need::Read).await?;
    if !follow.follow {
        let events = all_events(&door, follow.run, None, app.globals.limit).await?;
        app.out.tail(&events, |events| events.iter().map(render::events::line).collect())?;
        return Ok(Exit::Fine);
    }
    if door.behind == Behind::Server {
        return stream(app, &door, follow.run).await;
    }
    let mut after = None;
    looking(app, async |door| {
        let events = all_events(door, follow.run, after.clone(), None).await?;
        for event in &events.items {
            app.out.streamed(event, render::events::line)?;
        }
        after = events.next_after;
        Ok(events.items.iter().any(Event::is_terminal))
    })
    .await
}

async fn stream(app: &App, door: &Door, run: RunId) -> Result<Exit, Failure> {
    let mut stream = door.client.follow(Some(run), None);
    while let Some(item) = stream.next().await {
        match item? {
            StreamItem::Event(event) => app.out.streamed(&event, render::events::line)?,
            StreamItem::Gap(gap) => {
                app.out.say(&format!("gap: events {} to {} are not there any more ({})", gap.from, gap.to, gap.reason));
            }
            StreamItem::Live { .. } => {}
        }
    }
    Ok(Exit::Fine)
}

async fn all_events(
    door: &Door,
    run: RunId,
    after: Option<String>,
    limit: Option<u32>,
) -> Result<Tail<Event>, Failure> {
    let mut all = Tail { items: Vec::new(), next_after: after };
    loop {
        let left = limit.map_or(PAGE, |limit| (limit as usize - all.items.len()).min(PAGE as usize) as u32);
        let query = TailQuery { after: all.next_after.clone(), limit: Some(left) };
        let page = door.client.events(run, &query).await?;
        let more = page.items.len() == left as usize;
        all.next_after = page.next_after.or(all.next_after);
        all.items.extend(page.items);
        if !more || limit.is_some_and(|limit| all.items.len() >= limit as usize) {
            return Ok(all);
        }
    }
}
