//! The Rust client of the HTTP interface, over TCP or over the socket of the process that has a store open (I-18).
//!
//! Owns how a request is written and an answer read, and the three ways in which that fails ([`ClientError`]). It
//! repeats nothing by itself, but for an event stream that was cut: what a lost answer meant is for the caller to read
//! by key. It never interprets a run.

mod error;
mod events;
mod routes;
mod sse;

pub use error::ClientError;
pub use events::{EventStream, StreamItem};

use crate::problem::Problem;
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection is kept for the next request: less than a server keeps it, so that neither closes what the other uses.
const IDLE_WITHIN: Duration = Duration::from_secs(5);
/// How long an answer may take beyond what the request itself asks for (a long poll).
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Speaks to one server. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
    /// What is named when it cannot be reached: the URL, or the socket's path.
    target: String,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("`{url}` is no server URL: {cause}")]
    Url { url: String, cause: String },
    #[error("the HTTP client cannot start: {0}")]
    Http(#[from] reqwest::Error),
}

impl Client {
    /// A client for `http://host:port`. TLS works if the process installed a rustls provider.
    ///
    /// # Errors
    /// A URL that does not parse or is neither `http` nor `https`.
    pub fn tcp(url: &str, token: Option<String>) -> Result<Client, BuildError> {
        let refuse = |cause: &str| BuildError::Url { url: url.to_owned(), cause: cause.to_owned() };
        let mut base = Url::parse(url).map_err(|error| refuse(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(refuse("expected http://host:port"));
        }
        base.set_query(None);
        base.set_fragment(None);
        let http = builder().build()?;
        let target = base.as_str().trim_end_matches('/').to_owned();
        Ok(Client { http, base, token, target })
    }

    /// A client for the socket of a process on this machine.
    ///
    /// # Errors
    /// The HTTP client cannot start.
    pub fn unix(socket: &Path, token: Option<String>) -> Result<Client, BuildError> {
        let http = builder().unix_socket(socket).build()?;
        // The authority is only what HTTP wants to see; the socket decides where requests go.
        let base = Url::parse("http://localhost/").expect("a constant URL parses");
        Ok(Client { http, base, token, target: socket.display().to_string() })
    }

    /// What this client speaks to, for messages.
    pub fn target(&self) -> &str {
        &self.target
    }

    fn url(&self, path: &[&str], query: &impl Serialize) -> Result<Url, ClientError> {
        let mut url = self.base.clone();
        url.path_segments_mut().expect("http URLs have a path").pop_if_empty().extend(path);
        let query = serde_json::to_value(query).map_err(|error| self.protocol(&error))?;
        for (name, value) in query.as_object().into_iter().flatten() {
            match value {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => drop(url.query_pairs_mut().append_pair(name, text)),
                other => drop(url.query_pairs_mut().append_pair(name, &other.to_string())),
            }
        }
        Ok(url)
    }

    fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &impl Serialize) -> Result<T, ClientError> {
        let request = self.request(Method::GET, self.url(path, query)?).timeout(ANSWER_WITHIN);
        self.read(self.send(request).await?).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, ClientError> {
        let request = self.request(Method::POST, self.url(path, &())?).timeout(ANSWER_WITHIN);
        self.read(self.send(request.json(body)).await?).await
    }

    /// Sends, and turns everything but a success into an error.
    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        Err(self.refusal(status, &bytes))
    }

    /// The body as `T`, straight from its bytes: a detour over a value tree would round numbers.
    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, ClientError> {
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.protocol(&error))
    }

    fn refusal(&self, status: StatusCode, bytes: &[u8]) -> ClientError {
        match serde_json::from_slice::<Problem>(bytes) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(_) => ClientError::Protocol {
                target: self.target.clone(),
                cause: format!("answered {status} without a problem object; is it a Stasis server?"),
            },
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable { target: self.target.clone(), cause: root_cause(error) }
    }

    fn protocol(&self, error: &dyn std::error::Error) -> ClientError {
        ClientError::Protocol { target: self.target.clone(), cause: error.to_string() }
    }
}

fn builder() -> reqwest::ClientBuilder {
    // A redirect would send the token elsewhere; the API makes none.
    reqwest::Client::builder()
        .connect_timeout(CONNECT_WITHIN)
        .pool_idle_timeout(IDLE_WITHIN)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("stasis/", env!("CARGO_PKG_VERSION")))
}

/// The innermost cause: what the system said, without the layers that pass it on.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunQuery;

    #[test]
    fn paths_are_encoded_and_absent_query_fields_left_out() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::tcp("http://127.0.0.1:7878", None).unwrap();
        let query = RunQuery { label: Some("team=a b".into()), limit: Some(5), ..RunQuery::default() };
        let url = client.url(&["v1", "workflows", "a/b c"], &query).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:7878/v1/workflows/a%2Fb%20c?label=team%3Da+b&limit=5");
        assert_eq!(client.target(), "http://127.0.0.1:7878");
    }

    #[test]
    fn what_is_no_server_url_is_refused() {
        for url in ["", "localhost:7878", "ftp://host", "unix:///x"] {
            assert!(matches!(Client::tcp(url, None), Err(BuildError::Url { .. })), "{url}");
        }
    }
}
