//! TLS: verified before the first byte of the request.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::server::{Script, Server};
use super::*;

/// A server for `localhost` that answers one request over TLS and says whether it saw one.
async fn secure_server() -> (u16, oneshot::Receiver<bool>) {
    let chain = vec![CertificateDer::from_pem_slice(include_bytes!("tls/server.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("both versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("key and certificate belong together");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (saw, seen) = oneshot::channel();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else {
            let _ = saw.send(false);
            return;
        };
        let mut request = [0; 4_096];
        let read = stream.read(&mut request).await.unwrap_or(0);
        let _ = stream
            .write_all(b"HTTP/1.1 200 Said\r\ncontent-length: 4\r\ncontent-type: application/json\r\n\r\ntrue")
            .await;
        let _ = stream.shutdown().await;
        let _ = saw.send(read > 0);
    });
    (port, seen)
}

fn secure_tool(host: &str, port: u16) -> ToolSpec {
    let url = format!("https://{host}:{port}/");
    tool("write", json!({"http": {"method": "POST", "url": url}}), json!({"limits": {"timeout": "2s"}}))
}

fn trusting(roots: RootCertStore) -> Connectors {
    let names = HashMap::from([
        ("localhost".to_owned(), vec![[127, 0, 0, 1].into()]),
        ("other.localhost".to_owned(), vec![[127, 0, 0, 1].into()]),
    ]);
    Connectors::new(Surroundings {
        names: Names::Table(Arc::new(names)),
        trust: Trust::Only(Arc::new(roots)),
        ..Surroundings::default()
    })
}

fn own_root() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(include_bytes!("tls/ca.pem")).expect("a certificate")).expect("a root");
    roots
}

#[tokio::test]
async fn a_server_with_a_trusted_certificate_is_called() {
    let (port, seen) = secure_server().await;
    let outcome = call(&trusting(own_root()), &secure_tool("localhost", port), json!({})).await;
    assert_eq!(result(&outcome), "true");
    assert_eq!(seen.await, Ok(true));
}

#[tokio::test]
async fn a_server_without_a_trusted_certificate_gets_no_byte_of_the_request() {
    let (port, seen) = secure_server().await;
    let untrusted = call(&trusting(RootCertStore::empty()), &secure_tool("localhost", port), json!({})).await;
    assert_error(&untrusted, Code::ConnectorUnreachable, Applied::No); // C-254, C-259
    assert_eq!(seen.await, Ok(false)); // C-254

    let (port, seen) = secure_server().await;
    let spec = secure_tool("other.localhost", port);
    let grant = Grant {
        hosts: vec![Host::of_url("other.localhost", port), Host::parse("127.0.0.1").expect("a host")],
        secrets: vec![],
    };
    let misnamed = call_with(&trusting(own_root()), &spec, &grant, json!({})).await;
    assert_error(&misnamed, Code::ConnectorUnreachable, Applied::No); // C-254, C-259
    assert_eq!(seen.await, Ok(false)); // C-254
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_gets_no_byte_of_the_request() {
    // It answers the greeting as if it were a request, hangs, or closes: the request itself never left.
    let mut server = Server::start([Script::Slam]).await;
    let outcome = call(&trusting(own_root()), &secure_tool("localhost", server.port), json!({})).await;
    assert_error(&outcome, Code::ConnectorUnreachable, Applied::No); // C-259
    assert_eq!(server.contacts(), 1);

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let url = format!("https://localhost:{port}/");
    let spec = tool("write", json!({"http": {"method": "POST", "url": url}}), json!({"limits": {"timeout": "150ms"}}));
    let outcome = call(&trusting(own_root()), &spec, json!({})).await;
    assert_error(&outcome, Code::ConnectorUnreachable, Applied::No); // C-122, C-259
    drop(listener);
}
