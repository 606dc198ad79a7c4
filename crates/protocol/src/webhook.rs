//! Webhooks out: who is told of what, and when a message is sent again (I-34, R-367).
//!
//! Owns: the topics, the messages that a change makes, and the schedule of attempts. A message is made from the events of a
//! change and saved with it, in one transaction; so none is lost, and none tells of what was rolled back. Its bytes never
//! change. It holds what events hold: ids, digests, states and numbers, never arguments, results or reasons.

use crate::event;
use crate::id::{Ids, MessageId, RunId, WebhookId};
use crate::json::Record;
use crate::rows::Change;
use crate::run::Status;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What a message is about. The words are not those of events: several of these are one topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    ApprovalRequested,
    /// Approved, rejected, expired or cancelled.
    ApprovalDecided,
    RunParked,
    RunFinished,
    EffectAmbiguous,
}

/// Where messages go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    pub id: WebhookId,
    /// It is told of this namespace's runs alone.
    pub namespace: String,
    pub url: String,
    pub topics: BTreeSet<Topic>,
    pub secret: SigningSecret,
    pub created_at: Time,
    pub created_by: String,
}

/// The key that messages are signed with, as the receiver has it: `whsec_` and base64.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(pub String);

/// One message to one webhook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub id: MessageId,
    pub webhook: WebhookId,
    pub run: RunId,
    pub topic: Topic,
    pub at: Time,
    /// What is sent, the same bytes at each attempt.
    pub body: String,
    pub attempts: u32,
    /// Why the last attempt was none.
    pub last_error: Option<String>,
    pub state: MessageState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageState {
    Pending {
        retry_at: Time,
    },
    Delivered {
        at: Time,
    },
    /// It is not sent again, unless somebody asks for it.
    GivenUp {
        at: Time,
    },
}

/// What is done about a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageAct {
    /// It was sent: taken, or why not.
    Attempted(Result<(), String>),
    /// Somebody wants it sent again.
    Redeliver,
}

impl Topic {
    pub const ALL: [Topic; 5] = [
        Topic::ApprovalRequested,
        Topic::ApprovalDecided,
        Topic::RunParked,
        Topic::RunFinished,
        Topic::EffectAmbiguous,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Topic::ApprovalRequested => "approval.requested",
            Topic::ApprovalDecided => "approval.decided",
            Topic::RunParked => "run.parked",
            Topic::RunFinished => "run.finished",
            Topic::EffectAmbiguous => "effect.ambiguous",
        }
    }

    pub fn parse(text: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.as_str() == text)
    }

    /// The topic that an event belongs to.
    pub fn of(kind: event::Kind) -> Option<Topic> {
        use event::Kind;
        match kind {
            Kind::ApprovalRequested => Some(Topic::ApprovalRequested),
            Kind::ApprovalApproved | Kind::ApprovalRejected | Kind::ApprovalExpired | Kind::ApprovalCancelled => {
                Some(Topic::ApprovalDecided)
            }
            Kind::Run(status) if status.is_parked() => Some(Topic::RunParked),
            Kind::Run(Status::Done | Status::Failed | Status::Cancelled) => Some(Topic::RunFinished),
            Kind::CallAmbiguous => Some(Topic::EffectAmbiguous),
            _ => None,
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The messages that a change makes.
pub fn messages(change: &Change, webhooks: &BTreeMap<WebhookId, Webhook>, ids: &mut Ids) -> Vec<Message> {
    let run = change.run();
    let mut messages = Vec::new();
    for event in &change.events {
        let Some(topic) = Topic::of(event.kind) else { continue };
        let told = |hook: &&Webhook| hook.namespace == run.namespace && hook.topics.contains(&topic);
        for hook in webhooks.values().filter(told) {
            let mut data = Record::new();
            data.value("event", &event.facts.canonical()).text("kind", event.kind).text("run", run.id);
            data.number("seq", event.seq).text("workflow", &run.pattern.key);
            let mut body = Record::new();
            body.value("data", &data.done()).text("timestamp", event.at).text("type", topic.as_str());
            messages.push(Message {
                id: ids.mint(),
                webhook: hook.id,
                run: run.id,
                topic,
                at: event.at,
                body: body.done().as_str().to_owned(),
                attempts: 0,
                last_error: None,
                state: MessageState::Pending { retry_at: event.at },
            });
        }
    }
    messages
}

/// How long after each attempt that was none the next one comes; after the last it is given up. The schedule is the one that
/// the Standard Webhooks specification advises.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3_600),
    Duration::from_secs(5 * 3_600),
    Duration::from_secs(10 * 3_600),
    Duration::from_secs(14 * 3_600),
    Duration::from_secs(20 * 3_600),
    Duration::from_secs(24 * 3_600),
];

/// Longest text that is kept of what went wrong.
const ERROR_CHARS: usize = 300;

impl Message {
    /// The message after something was done about it. One that was delivered or given up is not changed by the answer of an
    /// attempt that comes late.
    pub fn after(self, act: MessageAct, now: Time) -> Message {
        match act {
            MessageAct::Redeliver => Message { attempts: 0, state: MessageState::Pending { retry_at: now }, ..self },
            MessageAct::Attempted(_) if !self.is_pending() => self,
            MessageAct::Attempted(outcome) => {
                let attempts = self.attempts + 1;
                let (state, last_error) = match outcome {
                    Ok(()) => (MessageState::Delivered { at: now }, None),
                    Err(why) => {
                        let pause = PAUSES.get(self.attempts as usize);
                        let again = |pause: &Duration| MessageState::Pending { retry_at: now + *pause };
                        let why = why.chars().take(ERROR_CHARS).collect();
                        (pause.map_or(MessageState::GivenUp { at: now }, again), Some(why))
                    }
                };
                Message { attempts, state, last_error, ..self }
            }
        }
    }

    pub const fn is_pending(&self) -> bool {
        matches!(self.state, MessageState::Pending { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message {
            id: MessageId::mint(Time::from_millis(1), 0, 1),
            webhook: WebhookId::mint(Time::from_millis(1), 0, 1),
            run: RunId::mint(Time::from_millis(1), 0, 1),
            topic: Topic::RunFinished,
            at: Time::from_millis(1),
            body: "{}".to_owned(),
            attempts: 0,
            last_error: None,
            state: MessageState::Pending { retry_at: Time::from_millis(1) },
        }
    }

    #[test]
    fn it_is_tried_ever_later_and_then_given_up_for_all_to_see() {
        let (mut now, mut one) = (Time::from_millis(10), message());
        let mut pauses = Vec::new();
        while let MessageState::Pending { retry_at } = one.state {
            now = now.max(retry_at);
            let body = one.body.clone();
            one = one.after(MessageAct::Attempted(Err(format!("status 500{}", "x".repeat(999)))), now);
            assert_eq!(one.body, body);
            if let MessageState::Pending { retry_at } = one.state {
                pauses.push(retry_at.since(now));
            }
        }
        assert_eq!(one.state, MessageState::GivenUp { at: now });
        assert_eq!((one.attempts, pauses.as_slice()), (10, PAUSES.as_slice())); // I-34
        assert_eq!(one.last_error.as_ref().map(|why| why.len()), Some(ERROR_CHARS));
        // What comes late changes nothing; what somebody asks for begins again.
        assert_eq!(one.clone().after(MessageAct::Attempted(Ok(())), now), one);
        let again = one.after(MessageAct::Redeliver, now);
        assert_eq!((again.attempts, again.state), (0, MessageState::Pending { retry_at: now })); // I-34
        let taken = again.after(MessageAct::Attempted(Ok(())), now);
        assert_eq!((taken.state, taken.last_error), (MessageState::Delivered { at: now }, None));
    }

    #[test]
    fn topics_are_those_of_the_interface() {
        for topic in Topic::ALL {
            assert_eq!(Topic::parse(topic.as_str()), Some(topic)); // I-34
        }
        let of = |kind: &str| Topic::of(event::Kind::parse(kind).unwrap()).map(Topic::as_str);
        assert_eq!(of("approval.rejected"), Some("approval.decided")); // I-34
        assert_eq!(of("run.awaiting_signal"), Some("run.parked"));
        // A hold is no park: the run is in its worker.
        assert_eq!(of("run.awaiting_hardware"), None);
        assert_eq!((of("run.failed"), of("run.running")), (Some("run.finished"), None));
        let secret = SigningSecret("whsec_abc".to_owned());
        assert_eq!(format!("{secret:?}"), "[secret]"); // C-269
    }
}
