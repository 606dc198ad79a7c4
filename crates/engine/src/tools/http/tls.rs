//! TLS towards the other side: always verified (C-254), made when it is first needed.
//!
//! Owns the choice of roots. There is no switch that turns verification off.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Whose certificates are believed.
#[derive(Debug, Clone)]
pub enum Trust {
    /// The system's roots (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured).
    System,
    /// These roots and no others.
    Only(Arc<RootCertStore>),
}

pub(crate) struct Tls {
    trust: Trust,
    connector: OnceLock<TlsConnector>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.trust).finish()
    }
}

impl Tls {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, connector: OnceLock::new() }
    }

    pub(super) fn connector(&self) -> &TlsConnector {
        self.connector.get_or_init(|| connector(&self.trust))
    }
}

fn connector(trust: &Trust) -> TlsConnector {
    let roots = match trust {
        Trust::System => Arc::new(system_roots()),
        Trust::Only(roots) => roots.clone(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of both versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// The system's roots. A machine without any still serves plain http; over TLS it then believes nobody.
fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a root certificate of the system cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(found.certs);
    if unusable > 0 || roots.is_empty() {
        tracing::warn!(unusable, usable = roots.len(), "root certificates of the system");
    }
    roots
}
