//! Requests whose bodies do not end: they must not fill the memory of the server.

use crate::common::TestServer;
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use futures_util::{StreamExt as _, stream};
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// A body that sends some bytes, and then neither more nor its end.
fn unfinished(bytes: usize) -> Body {
    let sent = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes]))]);
    Body::from_stream(sent.chain(stream::pending()))
}

#[tokio::test]
async fn a_service_inside_a_sandbox_reads_no_body_without_the_token_of_the_sandbox() {
    let server = TestServer::new().await;
    for (port, path) in [
        ("49999", "/execute"),
        ("49999", "/contexts"),
        ("49983", "/process.Process/List"),
        ("49983", "/filesystem.Filesystem/Stat"),
        ("49983", "/files?path=a"),
    ] {
        for token in [None, Some("wrong")] {
            let mut caller = server
                .anyone()
                .with("e2b-sandbox-id", "i1")
                .with("e2b-sandbox-port", port);
            if let Some(token) = token {
                caller = caller.with("x-access-token", token);
            }
            let request = caller.request(Method::POST, path, unfinished(1 << 20));
            let answer = tokio::time::timeout(Duration::from_secs(20), server.send(request)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{path} waits for the body"));
            let is_refused = matches!(answer.status.as_u16(), 401 | 502);
            assert!(is_refused, "{path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn texts_to_render_that_do_not_end_take_a_bounded_part_of_memory() {
    const BYTES: usize = 20 << 20;
    let server = TestServer::new().await;
    let request = |body| {
        let caller = server.anyone().with("content-type", "application/json");
        caller.request(Method::POST, "/web/render", body)
    };
    let begin = Instant::now();
    let mut waiting = stream::FuturesUnordered::new();
    // The first ones wait for the rest of their bodies. One that comes when too much is held is refused at once.
    for _ in 0..10 {
        waiting.push(server.send(request(unfinished(BYTES))));
    }
    let refused = waiting.next().await.expect("an answer");
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    assert!(begin.elapsed() < Duration::from_secs(15));
    drop(waiting);
    let body = Body::from(r#"[{"kind": "markdown", "text": "*a*"}]"#);
    let answer = server.send(request(body)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}

#[tokio::test]
async fn requests_of_a_user_that_do_not_end_take_a_bounded_part_of_memory_and_hold_up_no_other_user()
 {
    const BYTES: usize = 1_000_000;
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let other = server.user(&admin, "other").await;
    let request = |body| {
        let caller = admin.clone().with("content-type", "application/json");
        caller.request(Method::POST, "/v1/sessions", body)
    };
    let mut waiting = stream::FuturesUnordered::new();
    for _ in 0..80 {
        waiting.push(server.send(request(unfinished(BYTES))));
    }
    let refused = tokio::time::timeout(Duration::from_secs(20), waiting.next()).await;
    let refused = refused.expect("more is held").expect("an answer");
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    assert_eq!(refused.json()["code"], "too_much");
    other.open().await;
    drop(waiting);
    let answer = server.send(request(Body::from("{}"))).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
}

#[tokio::test]
async fn a_body_of_a_caller_without_a_login_is_small_and_comes_soon() {
    let server = TestServer::new().await;
    for path in ["/v1/login", "/v1/setup", "/v1/enter"] {
        for (bytes, status) in [
            (17 << 10, StatusCode::PAYLOAD_TOO_LARGE),
            (100, StatusCode::REQUEST_TIMEOUT),
        ] {
            let caller = server.anyone().with("content-type", "application/json");
            let request = caller.request(Method::POST, path, unfinished(bytes));
            let answer = tokio::time::timeout(Duration::from_secs(60), server.send(request)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{path} waits for the body"));
            assert_eq!(answer.status, status, "{path}: {answer:?}");
        }
    }
}
