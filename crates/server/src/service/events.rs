//! Reading timelines, once and as they grow (I-32).
//!
//! A stream reads the store and nothing else: a hint only shortens the wait, so a reader that missed one is late and never
//! wrong.

use super::failure::unread;
use super::list;
use super::problem::{Answer, not_found};
use super::{Service, invalid};
use crate::view;
use api::Event;
use api::event::{Gap, TailQuery};
use api::page::Tail;
use protocol::command::Caller;
use protocol::id::RunId;
use std::collections::HashMap;
use store::Cursor;
use tokio::sync::broadcast;

/// Events that a stream reads at once.
const PAGE: usize = 256;

impl Service {
    /// Hints from now on.
    pub(crate) fn hints(&self) -> broadcast::Receiver<store::Hint> {
        self.engine.ledger().subscribe()
    }

    /// What agents tell of their jobs, from now on.
    pub(crate) fn job_progress(&self) -> broadcast::Receiver<engine::JobProgress> {
        self.engine.job_progress()
    }

    /// A page of one run's events, from the first where no place is given.
    pub async fn events(&self, by: &Caller, id: RunId, query: &TailQuery) -> Answer<Tail<Event>> {
        self.reads(by)?;
        self.row(by, id).await?;
        let (limit, after) = (list::lines(query.limit)?, list::place(query.after.as_deref())?);
        let events = self.engine.ledger().events(id, after, limit).await.map_err(|error| unread(error, by))?;
        let events: Vec<Event> = events.ok_or_else(not_found)?.iter().map(view::event::event).collect();
        Ok(list::tail(events, |event| event.seq, after))
    }

    /// A page of all events of the caller's namespace, in order of commit. A page may be short where others' lie between;
    /// it is the last one when `next_after` stays what was asked.
    pub async fn all_events(&self, by: &Caller, query: &TailQuery) -> Answer<Tail<Event>> {
        self.reads(by)?;
        let limit = list::lines(query.limit)?;
        let mut reader = self.read_all(by, query.after.as_deref()).await?;
        let items = reader.page(limit).await?.into_iter().map(|(_, event)| event).collect();
        Ok(Tail { items, next_after: reader.place() })
    }

    /// A reader of one run's events after `after`.
    pub(crate) async fn read_run(&self, by: &Caller, id: RunId, after: Option<&str>) -> Answer<RunEvents> {
        self.reads(by)?;
        self.row(by, id).await?;
        Ok(RunEvents { service: self.clone(), by: by.clone(), run: id, after: list::place(after)?, looked: false })
    }

    /// A reader of all events after a cursor; from the present end where none is given.
    pub(crate) async fn follow_all(&self, by: &Caller, after: Option<&str>) -> Answer<AllEvents> {
        let mut reader = self.read_all(by, after).await?;
        if reader.after.is_none() {
            let last = self.engine.ledger().last_event().await.map_err(|error| unread(error, by))?;
            reader.after = Some(last);
        }
        Ok(reader)
    }

    async fn read_all(&self, by: &Caller, after: Option<&str>) -> Answer<AllEvents> {
        self.reads(by)?;
        let after = after.filter(|after| !after.is_empty());
        let after = list::cursor(after)
            .map_err(|_| invalid("`after`, or the header `Last-Event-ID`: this is no place in this stream"))?;
        Ok(AllEvents { service: self.clone(), by: by.clone(), after, visible: HashMap::new() })
    }
}

/// What a stream gives next.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Next {
    /// Events, each with the place that a reader resumes from.
    Events(Vec<(String, Event)>),
    /// Events that cannot be given, and the place that a reader resumes from after them.
    Gap { resume: Option<String>, gap: Gap },
    /// Nothing yet.
    Nothing,
    /// The run has ended and everything up to its end was given.
    End,
}

/// Reads the events of one run.
pub(crate) struct RunEvents {
    service: Service,
    by: Caller,
    run: RunId,
    after: Option<u32>,
    looked: bool,
}

impl RunEvents {
    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// Whether the run has ended and this reader has everything up to its end.
    pub(crate) async fn is_over(&self) -> Answer<bool> {
        let row = self.service.row(&self.by, self.run).await?;
        let has_all = self.after.is_some_and(|after| after.checked_add(1) == Some(row.events.len));
        Ok(row.status().is_final() && has_all)
    }

    pub(crate) async fn next(&mut self) -> Answer<Next> {
        // The row is read first: an event that it counts is there when the events are read.
        let row = self.service.row(&self.by, self.run).await?;
        if !std::mem::replace(&mut self.looked, true)
            && let Some(after) = self.after
            && after >= row.events.len
        {
            // A store that was restored from a backup knows less than this reader does.
            self.after = row.events.len.checked_sub(1);
            let reason = "the place is beyond the log: the store is older than this reader".to_owned();
            let gap = Gap { from: u64::from(row.events.len), to: u64::from(after), reason };
            return Ok(Next::Gap { resume: self.after.map(|place| place.to_string()), gap });
        }
        let ledger = self.service.engine.ledger();
        let events = ledger.events(self.run, self.after, PAGE).await.map_err(|error| unread(error, &self.by))?;
        let events = events.ok_or_else(not_found)?;
        let wanted = self.after.map_or(0, |after| after + 1);
        match events.first() {
            None if row.status().is_final() => return Ok(Next::End),
            None => return Ok(Next::Nothing),
            Some(first) if first.seq > wanted => {
                self.after = Some(first.seq - 1);
                let reason = "these events were removed by retention".to_owned();
                let gap = Gap { from: u64::from(wanted), to: u64::from(first.seq - 1), reason };
                return Ok(Next::Gap { resume: Some((first.seq - 1).to_string()), gap });
            }
            Some(_) => {}
        }
        self.after = events.last().map(|event| event.seq);
        let events = events.iter().map(|row| (row.seq.to_string(), view::event::event(row)));
        Ok(Next::Events(events.collect()))
    }
}

/// Reads the events of all runs of the caller's namespace, in order of commit.
pub(crate) struct AllEvents {
    service: Service,
    by: Caller,
    after: Option<Cursor>,
    /// Whether a run is of the caller's namespace.
    visible: HashMap<RunId, bool>,
}

/// Runs whose namespace is remembered.
const REMEMBERED: usize = 4_096;

impl AllEvents {
    /// Where to go on.
    fn place(&self) -> Option<String> {
        self.after.map(|after| after.to_string())
    }

    pub(crate) async fn next(&mut self) -> Answer<Next> {
        let before = self.after;
        let events = self.page(PAGE).await?;
        match events.is_empty() {
            false => Ok(Next::Events(events)),
            // Others' events were passed over: there may be more.
            true if self.after != before => Ok(Next::Events(Vec::new())),
            true => Ok(Next::Nothing),
        }
    }

    /// The events that may be seen among the next `limit`.
    async fn page(&mut self, limit: usize) -> Answer<Vec<(String, Event)>> {
        let ledger = self.service.engine.ledger();
        let page = ledger.events_all(self.after, limit).await.map_err(|error| unread(error, &self.by))?;
        let mut events = Vec::with_capacity(page.items.len());
        for (cursor, row) in &page.items {
            self.after = Some(*cursor);
            if self.sees(row.run).await? {
                events.push((cursor.to_string(), view::event::event(row)));
            }
        }
        Ok(events)
    }

    async fn sees(&mut self, run: RunId) -> Answer<bool> {
        if let Some(known) = self.visible.get(&run) {
            return Ok(*known);
        }
        let row = self.service.engine.ledger().run(run).await.map_err(|error| unread(error, &self.by))?;
        let visible = row.is_some_and(|row| row.namespace == self.by.principal.namespace);
        if self.visible.len() >= REMEMBERED {
            self.visible.clear();
        }
        self.visible.insert(run, visible);
        Ok(visible)
    }
}
