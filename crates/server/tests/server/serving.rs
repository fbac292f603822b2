//! A server on a real socket: health, stopping, and what a hostile client sends.

use crate::common::TestServer;
use axum::http::StatusCode;
use cellblock_agent::CancellationToken;
use cellblock_server::{Authentication, ServerError, StoreError, Tls, Transport};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Serves on a free port of this machine.
async fn serving(
    server: &TestServer,
) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let (server, token) = (server.server.clone(), stop.clone());
    let task = tokio::spawn(async move { server.serve(listener, token).await.expect("served") });
    (address, stop, task)
}

/// Sends bytes and reads until the server closes the connection.
async fn talk(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Cellblock: 1\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness_are_told_to_anyone() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let (address, stop, task) = serving(&server).await;
    for path in ["/healthz", "/readyz"] {
        let answer = talk(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let metrics = talk(
        address,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(
        metrics.contains("cellblock_http_requests_total 2"),
        "{metrics}"
    );
    stop.cancel();
    task.await.expect("ended");
    assert!(
        TcpStream::connect(address).await.is_err(),
        "there is no listener any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_the_requests_that_are_under_way() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let (address, stop, task) = serving(&server).await;
    let opened = talk(address, &post("/v1/sessions", "{}")).await;
    let session = opened
        .split("\"id\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("an id")
        .to_owned();
    let path = format!("/v1/sessions/{session}/cells?wait=1");
    let slow = tokio::spawn(async move {
        talk(
            address,
            &post(&path, r#"{"code": "import time; time.sleep(2); 6 * 7"}"#),
        )
        .await
    });
    let events = format!("GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let reader = tokio::spawn(async move { talk(address, &events).await });
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop.cancel();
    let answer = slow.await.expect("answered");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"repr\":\"42\""),
        "{answer}"
    );
    let events = reader.await.expect("ended");
    assert!(
        events.contains("event: cell_begun"),
        "a stream of events ends with the server: {events}"
    );
    task.await.expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_refused_and_the_server_goes_on() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let (address, stop, task) = serving(&server).await;
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(200_000)
    );
    for nonsense in [
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        &long,
        "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
    ] {
        let answer = talk(address, nonsense).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    let foreign = talk(
        address,
        "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(foreign.starts_with("HTTP/1.1 400"), "{foreign}");
    let good = talk(
        address,
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(good.starts_with("HTTP/1.1 200"), "{good}");
    stop.cancel();
    task.await.expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_data_is_refused() {
    let server = TestServer::new().await;
    let options = cellblock_server::ServerOptions::new(server.data.path().join("data"));
    let second =
        cellblock_server::Server::open(crate::common::host(server.data.path()), options).await;
    assert!(
        matches!(second, Err(ServerError::Store(StoreError::InUse { .. }))),
        "{second:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_of_a_server_whose_store_is_locked_learns_no_path() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let data = server.data.path().join("data");
    let other = rusqlite::Connection::open(data.join("cellblock.db")).expect("a database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let refused = admin.post("/v1/tokens", json!({"name": "t"})).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.json()["code"], "store");
    assert!(
        refused.text().contains("locked by another program"),
        "{refused:?}"
    );
    let place = data.display().to_string();
    assert!(!refused.text().contains(&place), "{}", refused.text());
    other.execute_batch("ROLLBACK").expect("unlocked");
    let made = admin.post("/v1/tokens", json!({"name": "t"})).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_speaks_tls_and_drops_what_does_not() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let directory = tempfile::tempdir().expect("a directory");
    let (chain, key) = (
        directory.path().join("chain.pem"),
        directory.path().join("key.pem"),
    );
    std::fs::write(&chain, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    assert!(
        Tls::from_files(&key, &chain).is_err(),
        "the files are the wrong way round"
    );
    let tls = Tls::from_files(&chain, &key).expect("a certificate");
    let server = TestServer::with(|options| options.transport = Transport::Tls(tls)).await;
    let (address, stop, task) = serving(&server).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(
        !talk(address, request).await.contains("200"),
        "plain HTTP is not answered"
    );

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("connected");
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().expect("a name"), stream)
        .await
        .expect("a handshake");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(answer.contains("strict-transport-security"), "{answer}");
    stop.cancel();
    task.await.expect("stopped");
}
