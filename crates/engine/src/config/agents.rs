//! `[[agent]]`: agents that Stasis calls, and what they are asked in (runs.md section 9).

use std::time::Duration;

use protocol::limits::{JOB_LEASE_MAX, JOB_LEASE_MIN};
use protocol::principal::DEFAULT_NAMESPACE;
use url::Url;

use super::reader::{Section, Value};
use super::tools::secret;
use crate::tools::Reference;

/// A declared agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Jobs of this kind are started at it.
    pub kind: String,
    /// Where jobs are made by a POST; `url/{id}` is one job.
    pub url: Url,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<Reference>,
    /// Whether it takes our id as the key of a job, and can be asked by it: an unanswered start is then asked about, and else
    /// lost.
    pub idempotent: bool,
    /// How long one request may last.
    pub timeout: Duration,
    /// How often it is asked what became of a job.
    pub poll_every: Duration,
    /// A job of which nothing could be learned for so long is lost.
    pub lease: Duration,
    /// An agent that cannot be reached is tried for so long before the job fails.
    pub start_within: Duration,
    /// The namespace whose jobs it gets.
    pub namespace: String,
}

pub(super) fn read(root: &Section<'_>) -> Vec<Agent> {
    let mut agents: Vec<Agent> = Vec::new();
    for section in root.sections("agent") {
        if let Some(agent) = read_one(&section) {
            let same = |known: &&Agent| (&known.kind, &known.namespace) == (&agent.kind, &agent.namespace);
            if agents.iter().find(same).is_some() {
                section.fault("kind", format!("`{}` is in the file twice", agent.kind));
            }
            section.note("kind", format!("{:?}", agent.kind));
            agents.push(agent);
        }
        section.finish();
    }
    agents
}

fn read_one(section: &Section<'_>) -> Option<Agent> {
    let kind = section.require("kind").and_then(|value| value.name());
    let address = section.require("url").and_then(|value| url(&value));
    let token = section.get("token").and_then(|value| secret(&value)).and_then(|text| Reference::parse(&text));
    let idempotent = section.get("idempotent").and_then(|value| value.boolean()).unwrap_or(false);
    let span = |key: &'static str, least: Duration, usual: u64| {
        let given = section.get(key).and_then(|value| value.duration(least..=JOB_LEASE_MAX));
        given.unwrap_or(Duration::from_secs(usual))
    };
    let shortest = Duration::from_millis(1);
    let (timeout, poll_every) = (span("timeout", shortest, 30), span("poll_every", shortest, 5));
    let (lease, start_within) = (span("lease", JOB_LEASE_MIN, 300), span("start_within", shortest, 60));
    let namespace = section.get("namespace").and_then(|value| value.name());
    if lease <= poll_every {
        section.fault("lease", "has to be longer than `poll_every`, or every job is lost between two looks");
    }
    Some(Agent {
        kind: kind?,
        url: address?,
        token,
        idempotent,
        timeout,
        poll_every,
        lease,
        start_within,
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
    })
}

fn url(value: &Value<'_>) -> Option<Url> {
    let text = value.text()?;
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host().is_some() => {
            if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
                value.fault_with_hint(format!("`{text}` has more than a place in it"), "a secret goes into `token`");
            }
            Some(url)
        }
        _ => {
            value.fault(format!("`{text}` is no http or https url"));
            None
        }
    }
}
