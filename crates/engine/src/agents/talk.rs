//! What is said to an agent over HTTP, and what its answers mean.
//!
//! One resource a job: it is made by a POST to the agent's url, read by a GET of `url/{id}`, and asked to stop by a POST to
//! `url/{id}/cancel`.

use crate::config::Agent;
use crate::inner::Inner;
use crate::tools::Said;
use http::{HeaderMap, HeaderValue, Method, header};
use protocol::job::Job;
use protocol::json::{Canonical, canonicalize};
use protocol::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use url::Url;

/// What the other side says of a job.
#[derive(Deserialize)]
pub(super) struct Told {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) status: Stage,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Box<RawValue>>,
    #[serde(default)]
    progress: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    #[default]
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

/// Why there is no usable answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// Nothing of the request left this machine.
    Unsent(String),
    /// It may have arrived.
    Unknown(String),
    /// It answered with this status, and did nothing.
    Refused(u16, String),
}

/// Of one job at one agent.
pub(super) struct Line<'a> {
    pub(super) inner: &'a Inner,
    pub(super) agent: &'a Agent,
}

#[derive(Serialize)]
struct Start<'a> {
    deadline: Option<Time>,
    id: &'a str,
    job: String,
    kind: &'a str,
    run: String,
    schema: Option<&'a RawValue>,
    task: &'a RawValue,
}

impl Line<'_> {
    /// Asks the agent to begin; `key` is the same at every try.
    pub(super) async fn start(&self, job: &Job, key: &str, task: &str) -> Result<Told, Silence> {
        let raw =
            |text: &str| RawValue::from_string(text.to_owned()).map_err(|error| Silence::Unsent(error.to_string()));
        let task = raw(task)?;
        let schema = job.request.schema.as_ref().map(|schema| raw(schema.as_str())).transpose()?;
        let body = Start {
            deadline: job.deadline,
            id: key,
            job: job.id.to_string(),
            kind: &job.request.kind,
            run: job.run.to_string(),
            schema: schema.as_deref(),
            task: &task,
        };
        let body = serde_json::to_vec(&body).map_err(|error| Silence::Unsent(error.to_string()))?;
        self.say(Method::POST, &self.agent.url, Some(key), body).await
    }

    /// What became of it.
    pub(super) async fn ask(&self, id: &str) -> Result<Told, Silence> {
        self.say(Method::GET, &self.place(&[id])?, None, Vec::new()).await
    }

    /// Asks it to stop. That it has, it says when it is asked for the job.
    pub(super) async fn cancel(&self, id: &str) -> Result<Told, Silence> {
        self.say(Method::POST, &self.place(&[id, "cancel"])?, None, b"{}".to_vec()).await
    }

    fn place(&self, parts: &[&str]) -> Result<Url, Silence> {
        let mut url = self.agent.url.clone();
        let bad = || Silence::Unsent("its url has no path".to_owned());
        url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(parts);
        Ok(url)
    }

    async fn say(&self, method: Method, url: &Url, key: Option<&str>, body: Vec<u8>) -> Result<Told, Silence> {
        let mut headers = HeaderMap::new();
        let value = |text: &str| HeaderValue::try_from(text).map_err(|error| Silence::Unsent(error.to_string()));
        if let Some(key) = key {
            headers.insert("idempotency-key", value(key)?);
        }
        if let Some(token) = &self.agent.token {
            let token = self.inner.connectors.secret(token).map_err(Silence::Unsent)?;
            let mut bearer = HeaderValue::try_from([b"Bearer ", token.as_slice()].concat())
                .map_err(|_| Silence::Unsent("the token is no header".to_owned()))?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        let most = self.inner.limits.result_bytes + 64 * 1024;
        let said = self.inner.connectors.talk(method, url, headers, body.into(), (self.agent.timeout, most)).await;
        match said {
            Said::Unsent(why) => Err(Silence::Unsent(why)),
            Said::Cut(why) => Err(Silence::Unknown(why)),
            Said::Answered(status, bytes) if status.is_success() => read(&bytes),
            // What a gateway says of the server behind it is no word of that server's.
            Said::Answered(status, _) if matches!(status.as_u16(), 502..=504) => {
                Err(Silence::Unknown(format!("status {}", status.as_u16())))
            }
            Said::Answered(status, bytes) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1_024)]).into_owned();
                Err(Silence::Refused(status.as_u16(), text))
            }
        }
    }
}

/// An empty answer says that it runs.
fn read(bytes: &[u8]) -> Result<Told, Silence> {
    let bytes = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| Silence::Unknown(format!("an answer that cannot be read: {error}")))
}

impl Told {
    /// Its result as canonical JSON; `null` if there is none.
    pub(super) fn result(&self) -> Result<Canonical, String> {
        canonical(self.result.as_deref())
    }

    pub(super) fn error(&self) -> Result<Canonical, String> {
        canonical(self.error.as_deref())
    }

    pub(super) fn progress(&self) -> Option<Canonical> {
        self.progress.as_deref().and_then(|told| canonicalize(told.get().as_bytes()).ok())
    }
}

fn canonical(told: Option<&RawValue>) -> Result<Canonical, String> {
    let text = told.map_or("null", RawValue::get);
    canonicalize(text.as_bytes()).map_err(|fault| format!("{} at byte {}", fault.reason, fault.offset))
}
