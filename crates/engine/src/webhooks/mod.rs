//! Webhooks out: the relay that sends what the ledger has for them (I-34, R-367).
//!
//! Owns: when a message is sent, and how it is signed. What is sent, and when again, is decided in [`protocol::webhook`]. A
//! message may come twice, when a process dies between an answer and its commit: its id tells.

mod sign;

use crate::engine::{Engine, needs_admin};
use crate::failure::Failure;
use crate::inner::{Inner, fill};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderMap, HeaderValue, StatusCode};
use protocol::code::Code;
use protocol::command::Caller;
use protocol::id::{MessageId, WebhookId};
use protocol::registry::Change;
use protocol::webhook::{Message, MessageAct, SigningSecret, Topic, Webhook};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Cursor, Page};
use url::Url;

/// Messages on their way to one webhook at once.
const AT_ONCE: usize = 4;
/// Messages of one look.
const PAGE: usize = 64;
/// Hints that come closer together than this are one.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What was delivered or given up is shown for so long.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How often it is looked for what is older.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// Longest url.
const URL_BYTES: usize = 2_048;
const SECRET_PREFIX: &str = "whsec_";

/// Sends what is due, until the engine stops. Each webhook has a task of its own while something is due for it, so that a
/// receiver which is slow, or hangs, keeps no other waiting.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut hints = inner.ledger.subscribe();
    let mut forget = tokio::time::interval(FORGET_EVERY);
    let busy = Arc::new(Mutex::new(BTreeSet::new()));
    loop {
        for hook in inner.ledger.registry().webhooks.keys().copied() {
            if let Some(place) = Place::take(&busy, hook) {
                let inner = inner.clone();
                inner.clone().tasks.spawn(async move { send_due(&inner, place).await });
            }
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            _ = forget.tick() => forget_old(&inner).await,
            hint = hints.recv() => {
                drop(hint);
                // What is committed meanwhile is one look.
                tokio::time::sleep(LOOK_EVERY).await;
                hints = hints.resubscribe();
            }
            () = inner.resend.notified() => {}
            () = tokio::time::sleep(inner.settings.scan_every) => {}
        }
    }
}

/// A webhook that is being sent to, for as long as this is held.
struct Place {
    busy: Arc<Mutex<BTreeSet<WebhookId>>>,
    hook: WebhookId,
}

impl Place {
    fn take(busy: &Arc<Mutex<BTreeSet<WebhookId>>>, hook: WebhookId) -> Option<Place> {
        let free = busy.lock().unwrap_or_else(PoisonError::into_inner).insert(hook);
        free.then(|| Place { busy: busy.clone(), hook })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.hook);
    }
}

/// Page after page, while there is something due. What fails has a later time then, so that each page is another one.
async fn send_due(inner: &Arc<Inner>, place: Place) {
    while !inner.stopping.is_cancelled() {
        let due = match inner.ledger.due_messages(place.hook, inner.now(), PAGE).await {
            Ok(due) => due,
            Err(error) => return tracing::warn!(%error, "messages of a webhook could not be read; trying again"),
        };
        if due.is_empty() {
            return;
        }
        let sent: Vec<bool> =
            stream::iter(due).map(|message| one(inner, message)).buffer_unordered(AT_ONCE).collect().await;
        // If what became of them could not be said, the same would be due again at once.
        if sent.contains(&false) {
            return;
        }
    }
}

/// Sends one message, and says what became of it; false if that could not be committed.
async fn one(inner: &Arc<Inner>, message: Message) -> bool {
    let outcome = tokio::select! {
        outcome = attempt(inner, &message) => outcome,
        // Nothing is known then: it is sent again.
        () = inner.stopping.cancelled() => return false,
    };
    if let Err(why) = &outcome {
        tracing::info!(message = %message.id, webhook = %message.webhook, why, "a message was not taken");
    }
    let told = inner.ledger.act_on_message(message.id, MessageAct::Attempted(outcome)).await;
    if let Err(error) = &told {
        tracing::warn!(%error, message = %message.id, "what became of a message could not be kept");
    }
    told.is_ok()
}

async fn attempt(inner: &Inner, message: &Message) -> Result<(), String> {
    let registry = inner.ledger.registry();
    let hook = registry.webhooks.get(&message.webhook).ok_or("the webhook was removed")?;
    let url: Url = hook.url.parse().map_err(|error| format!("the url: {error}"))?;
    let at = inner.now().as_millis() / 1_000;
    let signature = sign::signature(&hook.secret, message.id, at, &message.body)?;
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("webhook-id", message.id.to_string()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", signature),
    ] {
        headers.insert(name, HeaderValue::try_from(value).map_err(|error| error.to_string())?);
    }
    let body = message.body.clone().into();
    let status = inner.connectors.post(&url, headers, body, inner.private_webhooks).await?;
    if status.is_success() { Ok(()) } else { Err(told(status)) }
}

fn told(status: StatusCode) -> String {
    match status.is_redirection() {
        true => format!("status {}: redirects are not followed", status.as_u16()),
        false => format!("status {}", status.as_u16()),
    }
}

async fn forget_old(inner: &Inner) {
    let before = inner.now() - KEPT;
    loop {
        match inner.ledger.forget_messages(before).await {
            Ok(0) => return,
            Ok(gone) => tracing::debug!(gone, "messages of webhooks were forgotten"),
            Err(error) => return tracing::warn!(%error, "old messages of webhooks stay"),
        }
    }
}

/// A webhook to make.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    pub url: String,
    /// All of them if empty.
    pub topics: BTreeSet<Topic>,
    /// `whsec_` and base64 of 24 to 64 bytes; made here if there is none.
    pub secret: Option<String>,
}

impl Engine {
    /// Makes a webhook; its secret is in the answer.
    pub async fn add_webhook(&self, by: Caller, new: NewWebhook) -> Result<Webhook, Failure> {
        check_url(&new.url)?;
        let secret = match new.secret {
            Some(secret) => {
                sign::key(&secret)
                    .map_err(|why| Failure::refused(Code::InvalidRequest, format!("field `secret`: {why}")))?;
                secret
            }
            None => {
                let mut bytes = [0; 32];
                fill(&mut bytes);
                format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes))
            }
        };
        let topics = if new.topics.is_empty() { Topic::ALL.into_iter().collect() } else { new.topics };
        let webhook = Webhook {
            id: self.inner.ids().mint(),
            namespace: by.principal.namespace.clone(),
            url: new.url,
            topics,
            secret: SigningSecret(secret),
            created_at: self.inner.now(),
            created_by: by.principal.id.clone(),
        };
        let change = Change::AddWebhook { by, webhook: Box::new(webhook.clone()) };
        self.inner.ledger.transact_registry(change).await?;
        Ok(webhook)
    }

    /// Removes a webhook with its messages.
    pub async fn remove_webhook(&self, by: Caller, webhook: WebhookId) -> Result<(), Failure> {
        self.inner.ledger.transact_registry(Change::RemoveWebhook { by, webhook }).await?;
        Ok(())
    }

    /// Messages of a webhook, newest first.
    pub async fn messages(
        &self,
        webhook: WebhookId,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<Message>, Failure> {
        Ok(self.inner.ledger.messages(webhook, after, limit).await?)
    }

    pub async fn message(&self, id: MessageId) -> Result<Option<Message>, Failure> {
        Ok(self.inner.ledger.message(id).await?)
    }

    /// Sends a message again, from the first attempt on.
    pub async fn redeliver(&self, by: &Caller, message: MessageId) -> Result<Option<Message>, Failure> {
        needs_admin(by)?;
        let message = self.inner.ledger.act_on_message(message, MessageAct::Redeliver).await?;
        self.inner.resend.notify_one();
        Ok(message)
    }
}

fn check_url(text: &str) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::refused(Code::InvalidRequest, format!("field `url`: {why}")));
    if text.len() > URL_BYTES {
        return refused(format!("it has more than {URL_BYTES} bytes"));
    }
    match text.parse::<Url>() {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => refused("it is neither http nor https".to_owned()),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            refused("it has a name or a password in it, which everybody who lists webhooks would read".to_owned())
        }
        Ok(url) if url.host().is_none() => refused("it names no host".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => refused(error.to_string()),
    }
}
