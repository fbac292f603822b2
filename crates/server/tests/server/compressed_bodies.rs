//! Bodies that come compressed: a few bytes must not become very many on the host.

use crate::common::{Answer, Caller, TestServer};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use cellblock_server::Authentication;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

const MEGABYTE: usize = 1 << 20;

fn compressed(contents: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(contents).expect("compressed");
    encoder.finish().expect("compressed")
}

async fn send(caller: &Caller<'_>, method: Method, path: &str, body: Vec<u8>) -> Answer {
    caller
        .server
        .send(caller.request(method, path, Body::from(body)))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_refused_by_every_api() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let caller = server.anyone().with("x-cellblock", "1");
    let session = caller.open().await;
    let file = format!("/v1/sessions/{session}/files/a.txt");
    for (method, path) in [
        (Method::PUT, file.as_str()),
        (Method::POST, "/v1/sessions"),
        (Method::POST, "/v1/login"),
        (Method::POST, "/web/render"),
        (Method::POST, "/api/kernels"),
        (Method::POST, "/v2/sandboxes"),
        (Method::POST, "/librechat/upload"),
        (Method::POST, "/librechat/exec"),
        (Method::POST, "/mcp"),
    ] {
        for coding in ["gzip", "deflate", "br", "zstd", "identity, GZip"] {
            let caller = caller
                .clone()
                .with("content-encoding", coding)
                .with("content-type", "application/json");
            let answer = send(&caller, method.clone(), path, compressed(b"{}")).await;
            let told = (answer.status, answer.text());
            assert_eq!(
                told.0,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "{path} {coding}: {}",
                told.1
            );
            assert!(
                told.1.contains("takes only uncompressed bodies"),
                "{path}: {}",
                told.1
            );
        }
    }
    let plain = caller.with("content-encoding", "identity");
    let answer = send(&plain, Method::PUT, &file, b"plain".to_vec()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
}

/// A sandbox of E2B, and a caller of its files.
async fn sandbox<'a>(caller: &Caller<'a>) -> Caller<'a> {
    let answer = caller
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
    let told: Value = answer.json();
    let text = |name: &str| told[name].as_str().expect("a text").to_owned();
    caller
        .server
        .anyone()
        .with("e2b-sandbox-id", &text("sandboxID"))
        .with("e2b-sandbox-port", "49983")
        .with("x-access-token", &text("envdAccessToken"))
        .with("content-type", "application/octet-stream")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_into_a_sandbox_may_be_compressed_and_is_bounded_by_what_was_sent() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let files = sandbox(&server.anyone().with("x-api-key", "any")).await;
    let gzip = files.clone().with("content-encoding", "gzip");
    let written = send(
        &gzip,
        Method::POST,
        "/files?path=a.txt",
        compressed(b"hello"),
    )
    .await;
    assert_eq!(written.status, StatusCode::OK, "{}", written.text());
    let read = files.get("/files?path=a.txt").await;
    assert_eq!(read.text(), "hello");
    let bomb = compressed(&vec![0; 200 * MEGABYTE]);
    assert!(bomb.len() < MEGABYTE);
    let refused = send(&gzip, Method::POST, "/files?path=b.txt", bomb).await;
    assert_eq!(
        refused.status,
        StatusCode::PAYLOAD_TOO_LARGE,
        "{}",
        refused.text()
    );
    let read = files.get("/files?path=b.txt").await;
    assert_eq!(read.status, StatusCode::NOT_FOUND);
    for coding in ["br", "gzip, gzip"] {
        let other = files.clone().with("content-encoding", coding);
        let refused = send(&other, Method::POST, "/files?path=c.txt", compressed(b"x")).await;
        assert_eq!(
            refused.status,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "{}",
            refused.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_an_upload_is_no_larger_than_the_disk_of_its_user() {
    let server = TestServer::with(|options| {
        options.authentication = Authentication::Off;
        options.quotas.disk = 16 << 20;
    })
    .await;
    let files = sandbox(&server.anyone().with("x-api-key", "any")).await;
    let small = send(&files, Method::POST, "/files?path=a", vec![7; MEGABYTE]).await;
    assert_eq!(small.status, StatusCode::OK, "{}", small.text());
    let large = send(
        &files,
        Method::POST,
        "/files?path=b",
        vec![7; 20 * MEGABYTE],
    )
    .await;
    assert_eq!(
        large.status,
        StatusCode::INSUFFICIENT_STORAGE,
        "{}",
        large.text()
    );
}
