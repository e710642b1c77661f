//! HTTP/2, TLS, and connections that are used again.

use std::{fs, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{Method, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use server::{BadTls, BindError, Server, Settings, Tls};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    raw_http2::{frame, literal},
    support::{Harness, Request, fixture, settings},
};

/// PUTs and GETs a stream over one HTTP/2 connection; returns the Location.
async fn write_and_read<I>(server: &Harness, io: I, scheme: &str) -> String
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(io));
    let (mut sender, connection) = handshake.await.unwrap();
    server.sys.spawn.task("client", async move { drop(connection.await) });
    let uri = format!("{scheme}://localhost/v1/stream/a");
    let put = http::Request::put(&uri).header("content-type", "text/plain");
    let answer = sender.send_request(put.body(Full::new(Bytes::from("hello"))).unwrap()).await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 201);
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let get = http::Request::builder().method(Method::GET).uri(&uri);
    let answer = sender.send_request(get.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    location
}

#[tokio::test]
async fn http2_needs_no_tls() {
    let server = Harness::start().await;
    let socket = TcpStream::connect(server.address).await.unwrap();
    let location = write_and_read(&server, socket, "http").await;
    assert_eq!(location, "http://localhost/v1/stream/a");
}

#[tokio::test]
async fn a_live_reader_does_not_hold_up_the_rest_of_an_http2_connection() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let socket = TcpStream::connect(server.address).await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(socket));
    let (mut sender, connection) = handshake.await.unwrap();
    server.sys.spawn.task("client", async move { drop(connection.await) });
    let mut get = async |query: &str| {
        let uri = format!("http://localhost/v1/stream/a?{query}");
        sender.send_request(http::Request::get(uri).body(Empty::<Bytes>::new()).unwrap()).await
    };
    let mut live = get("offset=-1&live=sse").await.unwrap().into_body();
    live.frame().await.unwrap().unwrap();
    assert_eq!(get("offset=-1").await.unwrap().status(), 200);
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    let frame = live.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(b"event: data\ndata:hello\n\n"));
}

/// To the library that looks like a body that has ended, and it has not.
#[tokio::test]
async fn a_request_that_is_taken_back_is_not_stored() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let head = [
        literal(":method", "POST"),
        literal(":scheme", "http"),
        literal(":authority", "localhost"),
        literal(":path", "/v1/stream/a"),
        literal("content-type", "text/plain"),
    ];
    // More than there are threads to keep busy.
    for code in [0u32; 16] {
        let mut wire = server.connect().await;
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        wire.send(frame(4, 0, 0, &[])).await;
        wire.send(frame(1, 4, 1, &head.concat())).await;
        wire.send(frame(0, 0, 1, b"partial")).await;
        wire.send(frame(3, 0, 1, &code.to_be_bytes())).await;
        server.get("/healthz").await.expect(200);
    }
    assert_eq!(server.get("/v1/stream/a").await.text(), "");
}

fn tls() -> Option<Tls> {
    Some(Tls { certificates: fixture("tls.cert.pem"), key: fixture("tls.key.pem") })
}

async fn connect(server: &Harness, protocol: &[u8]) -> TlsStream<TcpStream> {
    #[expect(clippy::disallowed_methods, reason = "this is the client")]
    let pem = fs::read(fixture("tls.cert.pem")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let socket = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    stream
}

#[tokio::test]
async fn tls_speaks_both_versions() {
    let server = Harness::with(Settings { tls: tls(), ..settings() }).await;
    let stream = connect(&server, b"h2").await;
    let location = write_and_read(&server, stream, "https").await;
    assert_eq!(location, "https://localhost/v1/stream/a");

    let mut stream = connect(&server, b"http/1.1").await;
    let get = Request::new("GET", "/v1/stream/a").header("connection", "close").to_string();
    stream.write_all(get.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // A peer that closes without saying so first is an error to the client, and common.
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn bad_certificates_are_refused() {
    let [certificates, key] = ["tls.cert.pem", "tls.key.pem"].map(fixture);
    for (tls, says) in [
        (Tls { certificates: key.clone(), key: key.clone() }, "does not hold certificates"),
        (Tls { certificates: certificates.clone(), key: certificates.clone() }, "a private key"),
        (
            Tls { certificates: certificates.clone(), key: fixture("es256.key.pem") },
            "cannot be used",
        ),
        (Tls { certificates, key: fixture("missing") }, "cannot be read"),
    ] {
        let sys = sys::Sys::real();
        let log = Arc::new(log::MemoryLog::new(&sys));
        let settings = Settings { tls: Some(tls), ..settings() };
        let error = Server::bind(log, sys, settings).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(matches!(
            error,
            BindError::Tls(BadTls::Pem { .. } | BadTls::Rejected(_) | BadTls::File(_))
        ));
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = Harness::start().await;
    let mut wire = server.connect().await;
    let put = Request::new("PUT", "/v1/stream/a").header("content-type", "text/plain");
    wire.send(put.to_string()).await;
    wire.answer().await.expect(201);
    let post = Request::new("POST", "/v1/stream/a").header("content-type", "text/plain").body("x");
    wire.send(post.to_string().repeat(3)).await;
    for _ in 0..3 {
        wire.answer().await.expect(204);
    }
    assert_eq!(server.get("/v1/stream/a").await.text(), "xxx");
}
