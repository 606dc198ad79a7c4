//! The tables `webhook` and `message`: who is told, and of what.
//!
//! Messages are written in the transaction of the change that they tell of. What is done about one is decided in
//! [`protocol::webhook`].

use std::collections::{BTreeMap, BTreeSet};

use protocol::id::{MessageId, WebhookId};
use protocol::time::Time;
use protocol::webhook::{Message, MessageAct, MessageState, SigningSecret, Topic, Webhook};
use rusqlite::{Connection, params};

use super::fault::{Fault, Fields};
use super::read::Reader;
use super::registry;
use crate::error::Corrupt;
use crate::page::{Cursor, Page};

type Field<T> = Result<T, Box<Corrupt>>;

/// The columns that [`read`] reads.
const COLUMNS: &str = "n, id, webhook, run, topic, at, body, state, attempts, last_error, retry_at, ended_at";

/// Ended messages that one transaction forgets.
const FORGET: i64 = 500;

pub(super) fn webhooks(db: &Connection) -> Result<BTreeMap<WebhookId, Webhook>, Fault> {
    let all = "SELECT id, namespace, url, topics, secret, created_at, created_by FROM webhook";
    let hooks = registry::rows(db, "webhook", all, read_webhook)?;
    Ok(hooks.into_iter().map(|hook| (hook.id, hook)).collect())
}

fn read_webhook(f: &mut Fields<'_>) -> Field<Webhook> {
    let id: WebhookId = f.id("id")?;
    f.named(id);
    let (namespace, url) = (f.text("namespace")?.to_owned(), f.text("url")?.to_owned());
    let words = f.text("topics")?;
    let topics: Option<BTreeSet<Topic>> = words.split(' ').map(Topic::parse).collect();
    let topics = topics.ok_or_else(|| f.corrupt("topics", format!("`{words}` has one that is none")))?;
    let secret = SigningSecret(f.text("secret")?.to_owned());
    let (created_at, created_by) = (f.time("created_at")?, f.text("created_by")?.to_owned());
    Ok(Webhook { id, namespace, url, topics, secret, created_at, created_by })
}

pub(super) fn save_webhooks(
    db: &Connection,
    before: &BTreeMap<WebhookId, Webhook>,
    after: &BTreeMap<WebhookId, Webhook>,
) -> Result<(), Fault> {
    for gone in before.keys().filter(|id| !after.contains_key(id)) {
        db.execute("DELETE FROM message WHERE webhook = ?1", [gone.as_bytes()])?;
        db.execute("DELETE FROM webhook WHERE id = ?1", [gone.as_bytes()])?;
    }
    for hook in after.values().filter(|hook| !before.contains_key(&hook.id)) {
        let topics = hook.topics.iter().map(|topic| topic.as_str()).collect::<Vec<_>>().join(" ");
        db.execute(
            "INSERT OR FAIL INTO webhook (id, namespace, url, topics, secret, created_at, created_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                hook.id.as_bytes(),
                hook.namespace,
                hook.url,
                topics,
                hook.secret.0,
                hook.created_at.as_micros(),
                hook.created_by
            ],
        )?;
    }
    Ok(())
}

/// Writes new messages.
pub(super) fn add(db: &Connection, messages: &[Message]) -> Result<(), Fault> {
    for message in messages {
        let (state, retry_at, ended_at) = columns(message.state);
        let sql = "INSERT OR FAIL INTO message
                   (id, webhook, run, topic, at, body, state, attempts, last_error, retry_at, ended_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        db.prepare_cached(sql)?.execute(params![
            message.id.as_bytes(),
            message.webhook.as_bytes(),
            message.run.as_bytes(),
            message.topic.as_str(),
            message.at.as_micros(),
            message.body,
            state,
            message.attempts,
            message.last_error,
            retry_at,
            ended_at
        ])?;
    }
    Ok(())
}

/// The columns `state`, `retry_at` and `ended_at`.
fn columns(state: MessageState) -> (u8, Option<i64>, Option<i64>) {
    match state {
        MessageState::Pending { retry_at } => (0, Some(retry_at.as_micros()), None),
        MessageState::Delivered { at } => (1, None, Some(at.as_micros())),
        MessageState::GivenUp { at } => (2, None, Some(at.as_micros())),
    }
}

fn read(f: &mut Fields<'_>) -> Field<(i64, Message)> {
    let n = f.int("n")?;
    let id: MessageId = f.id("id")?;
    f.named(id);
    let (webhook, run) = (f.id("webhook")?, f.id("run")?);
    let word = f.text("topic")?;
    let topic = Topic::parse(word).ok_or_else(|| f.corrupt("topic", format!("`{word}` is none")))?;
    let at = f.time("at")?;
    let body = f.text("body")?.to_owned();
    let state: u8 = f.uint("state")?;
    let attempts = f.uint("attempts")?;
    let last_error = f.maybe_text("last_error")?.map(str::to_owned);
    let (retry_at, ended_at) = (f.maybe_time("retry_at")?, f.maybe_time("ended_at")?);
    let state = match state {
        0 => MessageState::Pending { retry_at: f.needed(retry_at, "retry_at")? },
        1 => MessageState::Delivered { at: f.needed(ended_at, "ended_at")? },
        2 => MessageState::GivenUp { at: f.needed(ended_at, "ended_at")? },
        other => return Err(f.corrupt("state", format!("{other} is none"))),
    };
    Ok((n, Message { id, webhook, run, topic, at, body, attempts, last_error, state }))
}

/// Loads a message, lets the law decide, and saves it.
pub(super) fn act(db: &Connection, id: MessageId, act: MessageAct, now: Time) -> Result<Option<Message>, Fault> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM message WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (n, before) = read(&mut Fields::new(row, "message"))?;
    drop(rows);
    let after = before.clone().after(act, now);
    if after != before {
        let (state, retry_at, ended_at) = columns(after.state);
        let sql = "UPDATE OR FAIL message SET state = ?1, attempts = ?2, last_error = ?3, retry_at = ?4, ended_at = ?5
                   WHERE n = ?6";
        let values = params![state, after.attempts, after.last_error, retry_at, ended_at, n];
        db.prepare_cached(sql)?.execute(values)?;
    }
    Ok(Some(after))
}

/// Forgets some of the messages that ended before a time.
pub(super) fn forget(db: &Connection, before: Time) -> Result<u64, Fault> {
    let sql = "DELETE FROM message WHERE n IN
               (SELECT n FROM message WHERE ended_at IS NOT NULL AND ended_at < ?1 LIMIT ?2)";
    Ok(db.prepare_cached(sql)?.execute(params![before.as_micros(), FORGET])? as u64)
}

impl Reader<'_> {
    pub(crate) fn due_messages(self, webhook: WebhookId, now: Time, limit: usize) -> Result<Vec<Message>, Fault> {
        let sql = format!(
            "SELECT {COLUMNS} FROM message WHERE state = 0 AND webhook = ?1 AND retry_at <= ?2 ORDER BY retry_at LIMIT ?3"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![webhook.as_bytes(), now.as_micros(), limit as i64])?;
        let mut due = Vec::new();
        while let Some(row) = rows.next()? {
            match read(&mut Fields::new(row, "message")) {
                Ok((_, message)) => due.push(message),
                Err(fault) => tracing::warn!(%fault, "a message cannot be read"),
            }
        }
        Ok(due)
    }

    pub(crate) fn message(self, id: MessageId) -> Result<Option<Message>, Fault> {
        let mut statement = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM message WHERE id = ?1"))?;
        let mut rows = statement.query([id.as_bytes()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(read(&mut Fields::new(row, "message"))?.1))
    }

    pub(crate) fn messages(
        self,
        webhook: WebhookId,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<Message>, Fault> {
        let sql = format!("SELECT {COLUMNS} FROM message WHERE webhook = ?1 AND n < ?2 ORDER BY n DESC LIMIT ?3");
        let mut statement = self.db.prepare_cached(&sql)?;
        let from = after.map_or(i64::MAX, |cursor| cursor.0);
        // One more than asked for tells whether there is more.
        let mut rows = statement.query(params![webhook.as_bytes(), from, limit as i64 + 1])?;
        let mut page = Page::default();
        let mut last = None;
        while let Some(row) = rows.next()? {
            if page.items.len() + page.faults.len() == limit {
                page.next = last;
                break;
            }
            last = Some(Cursor(row.get(0)?, 0));
            match read(&mut Fields::new(row, "message")) {
                Ok((_, message)) => page.items.push(message),
                Err(fault) => page.faults.push(*fault),
            }
        }
        Ok(page)
    }
}
