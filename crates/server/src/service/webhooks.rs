//! Webhooks and their messages (I-34), each of the caller's namespace.

use super::failure::told;
use super::list::{self, Filling};
use super::problem::{Answer, not_found};
use super::{Service, invalid};
use api::page::{ListQuery, Page};
use api::webhook::{Message, MessageState, NewWebhook, Webhook};
use protocol::command::Caller;
use protocol::id::{MessageId, WebhookId};
use protocol::principal::Right;
use protocol::webhook::{self, Topic};
use std::collections::BTreeSet;

impl Service {
    /// Makes a webhook. The answer alone has its secret.
    pub async fn new_webhook(&self, by: &Caller, request: &NewWebhook) -> Answer<Webhook> {
        self.need(by, &[Right::Admin])?;
        let mut topics = BTreeSet::new();
        for word in &request.types {
            let topic = Topic::parse(word).ok_or_else(|| {
                let mut problem = invalid(format!("field `types`: there is no `{word}`"));
                problem.hint = Some(format!("known: {}", Topic::ALL.map(Topic::as_str).join(", ")));
                problem
            })?;
            topics.insert(topic);
        }
        let new = engine::NewWebhook { url: request.url.clone(), topics, secret: request.secret.clone() };
        let made = self.engine.add_webhook(by.clone(), new).await.map_err(|failure| told(failure, by))?;
        Ok(Webhook { secret: Some(made.secret.0.clone()), ..drawn(&made) })
    }

    /// The webhooks of the caller's namespace.
    pub fn webhooks(&self, by: &Caller) -> Answer<Page<Webhook>> {
        self.need(by, &[Right::Admin])?;
        let registry = self.engine.ledger().registry();
        let own = registry.webhooks.values().filter(|hook| hook.namespace == by.principal.namespace);
        Ok(Page::whole(own.map(drawn).collect()))
    }

    /// Removes a webhook with its messages, and gives it a last time.
    pub async fn remove_webhook(&self, by: &Caller, id: WebhookId) -> Answer<Webhook> {
        let webhook = self.own_webhook(by, id)?;
        self.engine.remove_webhook(by.clone(), id).await.map_err(|failure| told(failure, by))?;
        Ok(webhook)
    }

    /// Messages of a webhook, newest first.
    pub async fn messages(&self, by: &Caller, id: WebhookId, query: &ListQuery) -> Answer<Page<Message>> {
        self.own_webhook(by, id)?;
        let limit = list::limit(query.limit)?;
        let after = list::cursor(query.cursor.as_deref())?;
        let page = self.engine.messages(id, after, limit).await.map_err(|failure| told(failure, by))?;
        let mut filling = Filling::new();
        for message in &page.items {
            filling.keep(Ok(draw_message(message)))?;
        }
        filling.lost(&page.faults);
        Ok(filling.page(page.next))
    }

    /// Sends a message again.
    pub async fn redeliver(&self, by: &Caller, id: WebhookId, message: MessageId) -> Answer<Message> {
        self.own_webhook(by, id)?;
        // Whose it is has to be known before anything is done about it.
        let known = self.engine.message(message).await.map_err(|failure| told(failure, by))?;
        known.filter(|known| known.webhook == id).ok_or_else(not_found)?;
        let sent = self.engine.redeliver(by, message).await.map_err(|failure| told(failure, by))?;
        sent.as_ref().map(draw_message).ok_or_else(not_found)
    }

    fn own_webhook(&self, by: &Caller, id: WebhookId) -> Answer<Webhook> {
        self.need(by, &[Right::Admin])?;
        let registry = self.engine.ledger().registry();
        let found = registry.webhooks.get(&id).filter(|hook| hook.namespace == by.principal.namespace);
        found.map(drawn).ok_or_else(not_found)
    }
}

fn drawn(hook: &webhook::Webhook) -> Webhook {
    Webhook {
        id: hook.id,
        url: hook.url.clone(),
        types: hook.topics.iter().map(ToString::to_string).collect(),
        created_at: hook.created_at,
        created_by: hook.created_by.clone(),
        secret: None,
    }
}

fn draw_message(message: &webhook::Message) -> Message {
    let (state, retry_at, ended_at) = match message.state {
        webhook::MessageState::Pending { retry_at } => (MessageState::Pending, Some(retry_at), None),
        webhook::MessageState::Delivered { at } => (MessageState::Delivered, None, Some(at)),
        webhook::MessageState::GivenUp { at } => (MessageState::GivenUp, None, Some(at)),
    };
    Message {
        id: message.id,
        topic: message.topic.to_string(),
        run: message.run,
        state,
        attempts: message.attempts,
        last_error: message.last_error.clone(),
        created_at: message.at,
        retry_at,
        ended_at,
        body: message.body.clone(),
    }
}
