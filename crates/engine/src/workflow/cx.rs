//! What a step has of the world: calls through the broker, waits, leases.
//!
//! Owns: the step's side of each request, and the channel to the hop that carries it. It decides nothing and stores
//! nothing. Invariant: nothing leaves a step but by a call, so that time and randomness, too, are in the ledger.

use super::error::{CallError, Ended};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use protocol::builtin;
use protocol::code::Code;
use protocol::id::RunId;
use protocol::json::{Canonical, to_canonical};
use protocol::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The surroundings of a step.
///
/// While a node is not left, a call is its tool and its arguments: made again it is the same call with the same answer,
/// also when the step runs again after a wait. To make it twice, give it a [key](Call::key), or go on to another node.
///
/// Calls that a step makes together, as by `join!`, run together; while they do the step itself is not polled.
pub struct Cx {
    run: RunId,
    requests: mpsc::UnboundedSender<Request>,
}

/// The hop's side of a [`Cx`].
pub(crate) struct Desk(mpsc::UnboundedReceiver<Request>);

/// What a step asks of its hop.
pub(crate) enum Request {
    Calls { intents: Vec<Intent>, all: bool, answer: oneshot::Sender<Vec<Result<Canonical, CallError>>> },
    Lease { resource: String, answer: oneshot::Sender<Result<(), CallError>> },
}

/// A call as its step means it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Intent {
    pub(crate) tool: String,
    pub(crate) arguments: Canonical,
    /// Tells it apart from an equal call of the same stay at its node.
    pub(crate) key: Option<String>,
}

impl Desk {
    pub(crate) fn open(run: RunId) -> (Cx, Desk) {
        let (requests, asked) = mpsc::unbounded_channel();
        (Cx { run, requests }, Desk(asked))
    }

    /// What the step asks for, all that it asked together; for ever pending where it asks nothing.
    pub(crate) async fn asked(&mut self) -> Vec<Request> {
        let Some(first) = self.0.recv().await else { return std::future::pending().await };
        let mut asked = vec![first];
        while let Ok(more) = self.0.try_recv() {
            asked.push(more);
        }
        asked
    }
}

impl Cx {
    pub fn run(&self) -> RunId {
        self.run
    }

    /// A call of a tool. Its result is read as `T`.
    pub fn call<T>(&self, tool: &str, arguments: &(impl Serialize + ?Sized)) -> Call<'_, T> {
        Call { cx: self, tool: tool.to_owned(), arguments: to_canonical(arguments), key: None, result: PhantomData }
    }

    /// Makes calls together and waits for all of them; a park for them ends when every one has ended.
    pub async fn all<T: DeserializeOwned>(
        &self,
        calls: impl IntoIterator<Item = Call<'_, T>>,
    ) -> Vec<Result<T, CallError>> {
        let mut told = Vec::new();
        let mut intents = Vec::new();
        for call in calls {
            let tool = call.tool.clone();
            match call.intent() {
                Ok(intent) => {
                    intents.push(intent);
                    told.push((tool, Ok(())));
                }
                Err(error) => told.push((tool, Err(error))),
            }
        }
        let mut results = self.make(intents, true).await.into_iter();
        let one = |(tool, sent): (String, Result<(), CallError>)| {
            sent?;
            read(&tool, results.next().expect("each call is answered")?)
        };
        told.into_iter().map(one).collect()
    }

    /// Asks people; the answer is a decision, whichever it is.
    pub async fn gate(&self, gate: impl Into<Gate>) -> Result<Decision, CallError> {
        match self.call(builtin::GATE, &gate.into()).await {
            Err(CallError::Ended(Ended {
                code: Code::ApprovalRejected | Code::ApprovalExpired,
                detail: Some(told),
                ..
            })) => read(builtin::GATE, told),
            other => other,
        }
    }

    /// Waits for a time.
    pub fn sleep(&self, span: Duration) -> Call<'_, ()> {
        self.call(builtin::SLEEP, &json!({ "ms": span.as_millis() as u64 }))
    }

    /// Waits until a time has come.
    pub fn until(&self, time: Time) -> Call<'_, ()> {
        self.call(builtin::SLEEP, &json!({ "until": time }))
    }

    /// Waits for a signal to this name, and gives its payload.
    pub fn signal<T>(&self, name: &str) -> Call<'_, T> {
        self.call(builtin::SIGNAL, &json!({ "name": name }))
    }

    /// Waits for whichever comes first; the others are then closed.
    pub fn first(&self, waits: &[Either<'_>]) -> Call<'_, Won> {
        let wait = |wait: &Either<'_>| match wait {
            Either::Signal(name) => json!({ "tool": builtin::SIGNAL, "arguments": { "name": name } }),
            Either::Sleep(span) => json!({ "tool": builtin::SLEEP, "arguments": { "ms": span.as_millis() as u64 } }),
        };
        self.call(builtin::FIRST, &json!({ "waits": waits.iter().map(wait).collect::<Vec<_>>() }))
    }

    /// Hands a job over to an agent of this kind, and gives its result.
    pub fn delegate<T>(&self, agent: &str, task: &(impl Serialize + ?Sized)) -> Call<'_, T> {
        #[derive(Serialize)]
        struct Job<'a, S: ?Sized> {
            agent: &'a str,
            task: &'a S,
        }
        self.call(builtin::DELEGATE, &Job { agent, task })
    }

    /// The time, as it was when this node first asked for it.
    pub async fn now(&self) -> Result<Time, CallError> {
        self.call(builtin::NOW, &json!({})).await
    }

    /// Random bytes, drawn once while this node is not left.
    pub async fn random(&self, bytes: u32) -> Result<Vec<u8>, CallError> {
        let text: String = self.call(builtin::RANDOM_BYTES, &json!({ "n": bytes })).await?;
        STANDARD.decode(text).map_err(|error| invalid(builtin::RANDOM_BYTES, Code::InvalidResult, error.to_string()))
    }

    /// A lease on a resource for the rest of this step; it is given back when the step ends or waits, and before anybody is
    /// asked. Where the resource is not warm the step waits for it.
    pub async fn lease(&self, resource: &str) -> Result<(), CallError> {
        let (answer, told) = oneshot::channel();
        // The hop drops a step before it stops listening.
        let _ = self.requests.send(Request::Lease { resource: resource.to_owned(), answer });
        match told.await {
            Ok(leased) => leased,
            Err(_) => std::future::pending().await,
        }
    }

    async fn make(&self, intents: Vec<Intent>, all: bool) -> Vec<Result<Canonical, CallError>> {
        if intents.is_empty() {
            return Vec::new();
        }
        let (answer, told) = oneshot::channel();
        let _ = self.requests.send(Request::Calls { intents, all, answer });
        match told.await {
            Ok(results) => results,
            // The hop goes no further, and the step with it.
            Err(_) => std::future::pending().await,
        }
    }
}

/// A call that is made when it is awaited.
#[must_use = "a call is made when it is awaited"]
pub struct Call<'c, T> {
    cx: &'c Cx,
    tool: String,
    arguments: Result<Canonical, protocol::json::WriteError>,
    key: Option<String>,
    result: PhantomData<fn() -> T>,
}

impl<T> Call<'_, T> {
    /// Tells this call apart from an equal one of the same node.
    pub fn key(self, key: impl Into<String>) -> Self {
        Call { key: Some(key.into()), ..self }
    }

    fn intent(self) -> Result<Intent, CallError> {
        let Call { tool, arguments, key, .. } = self;
        match arguments {
            Ok(arguments) => Ok(Intent { tool, arguments, key }),
            Err(error) => Err(invalid(&tool, Code::InvalidJson, error.to_string())),
        }
    }
}

impl<'c, T: DeserializeOwned + 'c> IntoFuture for Call<'c, T> {
    type Output = Result<T, CallError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let (cx, tool) = (self.cx, self.tool.clone());
        let intent = self.intent();
        Box::pin(async move {
            let result = cx.make(vec![intent?], false).await.pop().expect("one call, one answer")?;
            read(&tool, result)
        })
    }
}

fn read<T: DeserializeOwned>(tool: &str, result: Canonical) -> Result<T, CallError> {
    serde_json::from_str(result.as_str()).map_err(|error| invalid(tool, Code::InvalidResult, error.to_string()))
}

fn invalid(tool: &str, code: Code, message: String) -> CallError {
    CallError::Ended(Ended { tool: tool.to_owned(), code, message, detail: None, applied: None })
}

/// A question to people. It can only tighten what policy says (W-129).
#[derive(Clone, Default, Debug, Serialize)]
pub struct Gate {
    pub title: String,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub details: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// JSON Schema of what whoever approves is to fill in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
}

impl From<String> for Gate {
    fn from(title: String) -> Gate {
        Gate { title, ..Gate::default() }
    }
}

impl From<&str> for Gate {
    fn from(title: &str) -> Gate {
        Gate::from(title.to_owned())
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Decision {
    pub status: Answer,
    pub by: Vec<String>,
    pub reason: Option<String>,
    /// What the form was filled in with.
    pub answer: Option<Value>,
    pub at: Option<Time>,
}

impl Decision {
    pub fn approved(&self) -> bool {
        self.status == Answer::Approved
    }
}

/// How a question ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Approved,
    Rejected,
    Expired,
}

/// One of several waits, of which the first counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<'a> {
    /// A signal to this name.
    Signal(&'a str),
    Sleep(Duration),
}

/// Which wait came first.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Won {
    pub index: usize,
    /// The payload of a signal.
    #[serde(default)]
    pub result: Value,
}
