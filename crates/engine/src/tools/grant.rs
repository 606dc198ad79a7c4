//! The grant of one tool: which hosts it may reach and which secrets it may name (C-39).
//!
//! Owns the JSON shape `{hosts, secrets}` and the question whether a place or a name is granted. A guest never sees a
//! grant. An entry that does not parse is refused when the grant is read, never skipped.

use std::fmt;
use std::net::IpAddr;

use protocol::json::{self, Canonical, Value};

use super::address::Network;

/// One entry of `hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name or address, with the one port it is granted for, or any.
    Named {
        /// A domain name in lower case, or an address as text.
        host: String,
        /// The port, or every port.
        port: Option<u16>,
    },
    /// Addresses of a network in CIDR form: they may be reached under a granted name that leads there.
    Network(Network),
}

/// What one tool may reach and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Hosts and addresses.
    pub hosts: Vec<Host>,
    /// References of secrets (`env:NAME`, `file:PATH`).
    pub secrets: Vec<String>,
}

/// Why a JSON object is no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct GrantError {
    /// JSON Pointer of the bad part.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
}

impl GrantError {
    fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

impl Grant {
    /// Reads a grant from its canonical JSON.
    pub fn read(body: &Canonical) -> Result<Self, GrantError> {
        let value = body.value();
        let object = value.as_object().ok_or_else(|| GrantError::new("", "a grant is an object"))?;
        let mut grant = Self::default();
        for (key, value) in object.iter() {
            let texts = texts(key, value);
            match key {
                "hosts" => {
                    for (n, text) in texts?.into_iter().enumerate() {
                        let host = Host::parse(&text).ok_or_else(|| {
                            GrantError::new(format!("/hosts/{n}"), format!("`{text}` is no host, address or network"))
                        })?;
                        grant.hosts.push(host);
                    }
                }
                "secrets" => grant.secrets = texts?,
                _ => return Err(GrantError::new(format!("/{key}"), "unknown field of a grant")),
            }
        }
        Ok(grant)
    }

    /// The canonical JSON of the grant, whose digest a plan names.
    pub fn canonical(&self) -> Canonical {
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        json::to_canonical(&serde_json::json!({ "hosts": hosts, "secrets": self.secrets }))
            .expect("texts are strict JSON, and the parser of every part refuses what is not")
    }

    /// Whether host and port, as a url names them, are granted.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|entry| entry.names(host, port))
    }

    /// Whether an address that is not public is named (C-253).
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        self.hosts.iter().any(|entry| match entry {
            Host::Network(network) => network.contains(address),
            Host::Named { host, port: granted } => {
                granted.is_none_or(|granted| granted == port) && host.parse::<IpAddr>() == Ok(address)
            }
        })
    }
}

fn texts(key: &str, value: &Value) -> Result<Vec<String>, GrantError> {
    let items = value.as_array().ok_or_else(|| GrantError::new(format!("/{key}"), "a list of text"))?;
    items
        .iter()
        .enumerate()
        .map(|(n, item)| match item.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(GrantError::new(format!("/{key}/{n}"), "text")),
        })
        .collect()
}

impl Host {
    /// Reads `name`, `name:port`, `address`, `address:port`, `[v6]:port` or `network/bits`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('/') {
            return Network::parse(text).map(Self::Network);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Named { host: address.to_string(), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                (host, Some(port.parse().ok()?))
            }
            Some(_) => return None,
            None => (text, None),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Named { host: address.to_string(), port });
        }
        let label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        name.split('.').all(label).then_some(Self::Named { host: name, port })
    }

    /// The entry for host and port of a url: what a tool is granted by default (I-62).
    pub fn of_url(host: &str, port: u16) -> Self {
        Self::Named { host: bare(host).to_ascii_lowercase(), port: Some(port) }
    }

    fn names(&self, host: &str, port: u16) -> bool {
        match self {
            Self::Named { host: name, port: granted } => {
                granted.is_none_or(|granted| granted == port) && name.eq_ignore_ascii_case(bare(host))
            }
            Self::Network(network) => bare(host).parse::<IpAddr>().is_ok_and(|address| network.contains(address)),
        }
    }
}

/// A host as a url writes it, without the brackets of an IPv6 address and the dot of an absolute name.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).trim_end_matches('.')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { host, port: None } => f.write_str(host),
            Self::Named { host, port: Some(port) } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Named { host, port: Some(port) } => write!(f, "{host}:{port}"),
            Self::Network(network) => write!(f, "{network}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_reads_back_as_written_and_refuses_what_it_does_not_know() {
        let text = br#"{"hosts":["api.example.com:443","10.1.2.3","[::1]:8080","10.0.0.0/8"],"secrets":["env:A"]}"#;
        let body = json::canonicalize(text).expect("strict JSON");
        let grant = Grant::read(&body).expect("a grant");
        assert_eq!(grant.canonical(), body); // C-39
        for bad in [
            &br#"{"hosts":["a b"]}"#[..],
            br#"{"hosts":["a:99999"]}"#,
            br#"{"accounts":[]}"#,
            br#"{"hosts":"a"}"#,
            b"[]",
        ] {
            let body = json::canonicalize(bad).expect("strict JSON");
            assert!(Grant::read(&body).is_err(), "{body}", body = body.as_str());
        }
    }

    #[test]
    fn a_granted_host_is_granted_for_its_port_only() {
        let grant = Grant {
            hosts: vec![Host::parse("api.example.com:443").expect("host"), Host::parse("[::1]:80").expect("host")],
            secrets: vec![],
        };
        assert!(grant.allows("API.example.com.", 443));
        assert!(!grant.allows("api.example.com", 80));
        assert!(!grant.allows("evil.example.com", 443));
        assert!(grant.allows("[::1]", 80));
        assert!(!grant.names_address("10.0.0.1".parse().expect("address"), 443));
    }
}
