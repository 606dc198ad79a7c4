//! From a host name to addresses, once for each call (C-253).
//!
//! Owns the only name resolution of the connectors. What it answers is checked and then connected to; nothing resolves
//! the name a second time, so a name cannot change its mind between check and connection.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// How names are resolved.
#[derive(Debug, Clone)]
pub enum Names {
    /// The system's resolver.
    System,
    /// A fixed table, and nothing else: for a machine without name service, and for tests.
    Table(Arc<HashMap<String, Vec<IpAddr>>>),
}

impl Names {
    /// The addresses of a host, in the order of preference; never empty.
    pub(super) async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let found: Vec<IpAddr> = match self {
            // The port is of no interest here; the resolver wants one.
            Self::System => tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect(),
            Self::Table(table) => table.get(host).cloned().unwrap_or_default(),
        };
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
        }
        Ok(found)
    }
}
