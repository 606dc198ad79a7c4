//! Connectors: how one call that passed its dispatch gate reaches the outside (calls.md section 13).
//!
//! Owns the dispatch of a single call over HTTP or to a local command, with its limits, its secrets and the judgement of
//! what came back. It knows nothing of runs, approvals or attempts, stores nothing, and never repeats a call.
//! Invariant: `applied: no` is said only where nothing left this machine or the other side itself refused; whatever else
//! goes wrong with a `write` is ambiguous (C-121, C-122).

mod address;
mod answer;
mod command;
mod grant;
mod http;
mod names;
mod operand;
mod outcome;
mod secret;
mod slots;
mod values;

use std::fmt;

use protocol::call::Applied;
use protocol::code::Code;
use protocol::json::Canonical;
use protocol::tool::{Connector, Effect, ToolSpec};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use address::Network;
pub use grant::{Grant, GrantError, Host};
pub(crate) use http::Said;
pub use http::Trust;
pub use names::Names;
pub use operand::Content;
pub use outcome::{DETAIL_BYTES, Ended, Outcome};
pub use secret::{Reference, Secrets};
pub use slots::Slot;

use outcome::cut;
use values::Values;

/// What connectors take from their surroundings.
#[derive(Clone)]
pub struct Surroundings {
    /// How host names are resolved.
    pub names: Names,
    /// Where secrets, and variables a command inherits, come from.
    pub secrets: Secrets,
    /// Whose certificates are believed.
    pub trust: Trust,
    /// Calls under way to one server at once, over all tools.
    pub server_concurrency: u32,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self { names: Names::System, secrets: Secrets::Process, trust: Trust::System, server_concurrency: 64 }
    }
}

/// All connectors of a server.
pub struct Connectors {
    names: Names,
    secrets: Secrets,
    tls: http::Tls,
    server_concurrency: u32,
    slots: slots::Slots,
}

/// One call to make.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// The tool, as pinned by the run's plan.
    pub spec: &'a ToolSpec,
    /// What the tool may reach and name.
    pub grant: &'a Grant,
    /// The bytes that were approved and hashed (C-68).
    pub arguments: &'a Canonical,
    /// The engine's key of the call (C-226), where the other side is to know it.
    pub key: Option<&'a str>,
    /// Cuts the call. To be fired for `on_cancel: abort` alone (C-22).
    pub cancel: CancellationToken,
    /// The place taken before the dispatch gate; given back when the call has ended.
    pub slot: Slot,
}

/// Arguments that the connector cannot send: `invalid_arguments`, broker step 9.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct Unfit {
    /// JSON Pointer of the argument; empty for all of them together.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
}

impl Unfit {
    fn of(name: &str, message: impl Into<String>) -> Self {
        Self { pointer: format!("/{}", name.replace('~', "~0").replace('/', "~1")), message: message.into() }
    }

    fn at(pointer: &str, message: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), message: message.into() }
    }

    fn whole(message: impl Into<String>) -> Self {
        Self::at("", message)
    }
}

/// The tool cannot be called now: `tool_unavailable`, before the dispatch gate (C-272).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Unready {
    /// What is missing. Names secrets, never values.
    pub detail: String,
}

impl Unready {
    fn new(detail: impl Into<String>) -> Self {
        Self { detail: cut(detail.into()) }
    }
}

impl fmt::Debug for Connectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connectors").field("names", &self.names).field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Connectors {
    /// Makes the connectors. Contacts nothing.
    pub fn new(surroundings: Surroundings) -> Self {
        let Surroundings { names, secrets, trust, server_concurrency } = surroundings;
        Self { names, secrets, tls: http::Tls::new(trust), server_concurrency, slots: slots::Slots::default() }
    }

    /// Whether the connector can send these arguments; the input schema is not looked at. Pure.
    pub fn fit(&self, spec: &ToolSpec, grant: &Grant, arguments: &Canonical) -> Result<(), Unfit> {
        let arguments = arguments.value();
        values::names_are_granted(spec, grant, &arguments)?;
        match &spec.connector {
            Connector::Http(http) => http::fit(http, &arguments),
            Connector::Command(_) | Connector::Mcp(_) | Connector::Builtin(_) => Ok(()),
        }
    }

    /// Waits for a place for one call of the tool (C-250), to be taken before the dispatch gate. Dropping the future
    /// leaves the line.
    pub async fn slot(&self, spec: &ToolSpec) -> Slot {
        let server = match &spec.connector {
            Connector::Http(http) => Some((http.url.authority(), self.server_concurrency)),
            Connector::Command(_) | Connector::Mcp(_) | Connector::Builtin(_) => None,
        };
        self.slots.take((spec.name.clone(), spec.version.clone()), spec.limits.concurrency, server).await
    }

    /// Whether the tool can be called now: its place granted, its program there, every secret of its own with a value.
    /// Reads small files; contacts nothing.
    pub fn ready(&self, spec: &ToolSpec, grant: &Grant) -> Result<(), Unready> {
        match &spec.connector {
            Connector::Http(http) => http::ready(http, grant)?,
            Connector::Command(command) => command::ready(command)?,
            Connector::Mcp(_) => return Err(Unready::new("MCP servers are not available in this version")),
            Connector::Builtin(_) => return Ok(()),
        }
        let mut values = Values::new(&self.secrets, grant, None);
        values.connector(&spec.connector).map(drop)
    }

    /// Whether what is at this url says that it is ready; why not, if it does not.
    pub(crate) async fn probe(&self, url: &url::Url) -> Result<(), String> {
        http::probe(url, &http::Net { names: &self.names, tls: &self.tls }).await
    }

    /// Sends a message to a webhook: the status of the answer, or why there is none.
    pub(crate) async fn post(
        &self,
        url: &url::Url,
        headers: ::http::HeaderMap,
        body: hyper::body::Bytes,
        private: bool,
    ) -> Result<::http::StatusCode, String> {
        http::post(url, headers, body, private, &http::Net { names: &self.names, tls: &self.tls }).await
    }

    /// Sends a request to a place that the operator named; the answer is read up to the bound, and all of it is over in time.
    pub(crate) async fn talk(
        &self,
        method: ::http::Method,
        url: &url::Url,
        headers: ::http::HeaderMap,
        body: hyper::body::Bytes,
        bounds: (std::time::Duration, u64),
    ) -> Said {
        http::talk(method, url, headers, body, bounds, &http::Net { names: &self.names, tls: &self.tls }).await
    }

    /// The value of a secret, as it is now; what is missing names the secret alone.
    pub(crate) fn secret(&self, reference: &Reference) -> Result<Vec<u8>, String> {
        self.secrets
            .resolve(reference)
            .map(|secret| secret.value().to_vec())
            .map_err(|unresolved| unresolved.to_string())
    }

    /// Makes the call and says what became of it; the tool's timeout runs from here (C-250).
    ///
    /// Dropping the future closes the connection or kills the process group, and then nothing is reported: the call is
    /// as after a crash.
    pub async fn dispatch(&self, dispatch: Dispatch<'_>) -> Ended {
        let deadline = deadline(dispatch.spec);
        let mut values = Values::new(&self.secrets, dispatch.grant, dispatch.key);
        let prepared = values
            .connector(&dispatch.spec.connector)
            .and_then(|sent| Ok((sent, values.arguments(dispatch.spec, dispatch.arguments)?)));
        let (sent, arguments) = match prepared {
            Ok(prepared) => prepared,
            Err(unready) => {
                return Ended::plain(Outcome::error(Code::ToolUnavailable, unready.detail, Applied::No));
            }
        };
        let redactor = values.redactor();
        let limit = dispatch.spec.limits.result_bytes;
        match (&dispatch.spec.connector, sent) {
            (Connector::Http(http), values::Sent::Headers(headers)) => {
                let progress = http::Progress::default();
                let call = http::Call {
                    effect: dispatch.spec.effect,
                    http,
                    grant: dispatch.grant,
                    arguments: &arguments,
                    headers,
                    key: dispatch.key,
                    result_bytes: limit,
                    redactor: &redactor,
                    progress: &progress,
                };
                Ended::plain(self.http(&dispatch, &call, deadline).await)
            }
            (Connector::Command(command), values::Sent::Environment(environment)) => {
                command::run(command::Call {
                    effect: dispatch.spec.effect,
                    command,
                    environment,
                    input: match http::canonical(&arguments) {
                        Ok(input) => input,
                        Err(unfit) => {
                            let outcome = Outcome::error(Code::InvalidArguments, unfit.to_string(), Applied::No);
                            return Ended::plain(outcome);
                        }
                    },
                    result_bytes: limit,
                    redactor: &redactor,
                    deadline,
                    timeout: dispatch.spec.limits.timeout,
                    cancel: &dispatch.cancel,
                })
                .await
            }
            _ => Ended::plain(Outcome::error(Code::ToolUnavailable, "no connector for this tool", Applied::No)),
        }
    }

    /// An HTTP call within its time.
    async fn http(&self, dispatch: &Dispatch<'_>, call: &http::Call<'_>, deadline: Instant) -> Outcome {
        let net = http::Net { names: &self.names, tls: &self.tls };
        tokio::select! {
            biased;
            outcome = http::run(call, &net) => outcome,
            () = dispatch.cancel.cancelled() => cut_off(call, "cut off by a cancel", Code::HandlerError),
            () = tokio::time::sleep_until(deadline) => {
                let why = format!("no answer within {:?}", dispatch.spec.limits.timeout);
                cut_off(call, &why, Code::HandlerTimeout)
            }
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a timeout is a span of the machine's own time, and decides nothing stored"
)]
fn deadline(spec: &ToolSpec) -> Instant {
    Instant::now() + spec.limits.timeout
}

/// The outcome of an HTTP call that was cut: what counts is whether anything had left (C-121, C-122).
fn cut_off(call: &http::Call<'_>, why: &str, code: Code) -> Outcome {
    match (call.effect, call.progress.sent()) {
        (Effect::Write, true) => Outcome::ambiguous(why),
        (_, true) => Outcome::error(code, why, Applied::No),
        (_, false) => Outcome::error(Code::ConnectorUnreachable, format!("{why}, and nothing was sent"), Applied::No),
    }
}
