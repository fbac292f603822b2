//! Requests whose bodies do not end: they must not fill the memory of the server.

use crate::common::{Answer, Caller, TestServer};
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _, stream};
use serde_json::json;
use std::convert::Infallible;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

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

/// Sends many requests that do not end. Returns the first one that is refused, and the others, which wait.
async fn first_refused<'a>(
    caller: &Caller<'a>,
    path: &str,
    bytes: usize,
    count: usize,
) -> (
    Answer,
    FuturesUnordered<impl Future<Output = Answer> + use<'a>>,
) {
    let waiting = FuturesUnordered::new();
    for _ in 0..count {
        let request = caller.request(Method::POST, path, unfinished(bytes));
        waiting.push(caller.server.send(request));
    }
    let mut waiting = waiting;
    let refused = tokio::time::timeout(ANSWER_TIMEOUT, waiting.next()).await;
    let refused = refused.unwrap_or_else(|_| panic!("{path} holds more"));
    (refused.expect("an answer"), waiting)
}

fn with_json<'a>(caller: &Caller<'a>) -> Caller<'a> {
    caller.clone().with("content-type", "application/json")
}

async fn render(caller: &Caller<'_>) -> Answer {
    let texts = json!([{"kind": "markdown", "text": "*a*"}]);
    caller.post("/web/render", texts).await
}

#[tokio::test]
async fn texts_of_strangers_that_do_not_end_take_a_bounded_part_of_memory_and_hold_up_no_user() {
    const BYTES: usize = 20 << 20;
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let begin = Instant::now();
    // The first ones wait for the rest of their bodies. One that comes when too much is held is refused at once.
    let stranger = with_json(&server.anyone());
    let (refused, waiting) = first_refused(&stranger, "/web/render", BYTES, 10).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    assert_eq!(refused.json()["code"], "too_much");
    assert!(begin.elapsed() < Duration::from_secs(15));
    let answer = render(&admin).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let wrong = json!({"name": "ada", "password": "a wrong password"});
    let login = server.anyone().post("/v1/login", wrong).await;
    assert_eq!(login.status, StatusCode::UNAUTHORIZED, "{login:?}");
    drop(waiting);
    let answer = render(&server.anyone()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}

#[tokio::test]
async fn texts_to_render_count_for_the_user_who_sends_them() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let (refused, waiting) = first_refused(&with_json(&admin), "/v1/sessions", 1_000_000, 80).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    let long = json!([{"kind": "markdown", "text": "a".repeat(2_000_000)}]);
    let answer = admin.post("/web/render", long).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    drop(waiting);
}

#[tokio::test]
async fn what_anyone_may_ask_takes_short_bodies_only() {
    let server = TestServer::new().await;
    for path in ["/v1/login", "/v1/setup", "/v1/enter", "/v1/shared"] {
        let request = with_json(&server.anyone()).request(Method::POST, path, unfinished(100_000));
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, server.send(request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{path} waits for the body"));
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
}

#[tokio::test]
async fn requests_of_a_user_that_do_not_end_take_a_bounded_part_of_memory_and_hold_up_no_other_user()
 {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let other = server.user(&admin, "other").await;
    let (refused, waiting) = first_refused(&with_json(&admin), "/v1/sessions", 1_000_000, 80).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    assert_eq!(refused.json()["code"], "too_much");
    other.open().await;
    drop(waiting);
    admin.open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_compatible_apis_that_do_not_end_take_a_bounded_part_of_memory() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let other = server.user(&admin, "other").await;
    let sandbox = admin
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await
        .json();
    let text = |name: &str| sandbox[name].as_str().expect("a text").to_owned();
    let inside = server
        .anyone()
        .with("e2b-sandbox-id", &text("sandboxID"))
        .with("x-access-token", &text("envdAccessToken"));
    let envd = inside.clone().with("e2b-sandbox-port", "49983");
    let code = inside.with("e2b-sandbox-port", "49999");
    let form = "multipart/form-data; boundary=edge";
    for (caller, path, bytes, count) in [
        (with_json(&admin), "/v2/sandboxes", 1_000_000, 80),
        (with_json(&envd), "/process.Process/List", 12_000_000, 8),
        (
            with_json(&envd),
            "/filesystem.Filesystem/Stat",
            12_000_000,
            8,
        ),
        (with_json(&code), "/execute", 12_000_000, 8),
        (with_json(&code), "/contexts", 12_000_000, 8),
        (with_json(&admin), "/librechat/exec", 12_000_000, 8),
        (
            admin.clone().with("content-type", form),
            "/librechat/upload",
            12_000_000,
            8,
        ),
    ] {
        let (refused, waiting) = first_refused(&caller, path, bytes, count).await;
        assert_eq!(
            refused.status,
            StatusCode::TOO_MANY_REQUESTS,
            "{path}: {refused:?}"
        );
        // The other APIs count for the same user.
        let session = admin.post("/v1/sessions", json!({"title": "a".repeat(900_000)}));
        if bytes == 1_000_000 {
            let answer = session.await;
            assert_eq!(
                answer.status,
                StatusCode::TOO_MANY_REQUESTS,
                "{path}: {answer:?}"
            );
        }
        let answer = other.get("/v1/me").await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
        drop(waiting);
    }
    let lines = code.post("/execute", json!({"code": "6 * 7"})).await;
    assert!(lines.text().contains("42"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_kernels_that_do_not_end_take_a_bounded_part_of_memory() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let listening = server.listen().await;
    let kernel = admin.post("/api/kernels", json!({})).await.json();
    let path = format!(
        "/api/kernels/{}/channels",
        kernel["id"].as_str().expect("an id")
    );
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let socket = listening.try_connect(&path, &admin.headers).await;
        let mut socket = socket.expect("a socket");
        let part = Frame::message(vec![b' '; 30 << 20], OpCode::Data(Data::Text), false);
        // The server may end the connection before it has read everything.
        let _ = socket.send(Message::Frame(part)).await;
        sockets.push(socket);
    }
    let mut ends: FuturesUnordered<_> = sockets.iter_mut().map(|socket| socket.next()).collect();
    let end = tokio::time::timeout(ANSWER_TIMEOUT, ends.next()).await;
    let end = end.expect("all three are held").expect("a socket");
    assert!(!matches!(end, Some(Ok(Message::Text(_)))), "{end:?}");
    drop(ends);
    drop(sockets);
    // What the connections held is free again.
    for _ in 0..3 {
        let socket = listening.try_connect(&path, &admin.headers).await;
        let mut socket = socket.expect("a socket");
        let long = Message::text(" ".repeat(50 << 20));
        socket.send(long).await.expect("the share is free");
        socket
            .send(Message::Ping(Bytes::new()))
            .await
            .expect("a connection");
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, socket.next()).await;
        let answer = answer.expect("an answer");
        assert!(matches!(answer, Some(Ok(Message::Pong(_)))), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_too_much_reads_why_it_is_refused() {
    const BYTES: usize = 10_000_000;
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let listening = server.listen().await;
    for path in ["/v1/login", "/v1/chats"] {
        let mut stream = TcpStream::connect(&listening.address)
            .await
            .expect("a server");
        let headers = admin
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers: String = headers.collect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {BYTES}\r\n\r\n"
        );
        stream
            .write_all(head.as_bytes())
            .await
            .expect("a connection");
        let sent = stream.write_all(&vec![b' '; BYTES]).await;
        sent.unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413", "{path}");
    }
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

/// A body with this many empty lists, which are far larger in memory than here.
fn lists(count: usize) -> Body {
    let lists = "[],".repeat(count);
    Body::from(format!("{{\"x\": [{lists}[]]}}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_very_many_values_is_refused_by_every_api() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let operation = format!("/v1/sessions/{session}/operations");
    let result = format!("/v1/sessions/{session}/tool_result");
    for path in [
        operation.as_str(),
        result.as_str(),
        "/v1/evaluations",
        "/v1/chat/completions",
        "/mcp",
        "/librechat/exec",
    ] {
        let caller = with_json(&admin);
        let answer = server
            .send(caller.request(Method::POST, path, lists(1_000_000)))
            .await;
        let told = (answer.status, answer.text());
        assert_eq!(told.0, StatusCode::PAYLOAD_TOO_LARGE, "{path}: {}", told.1);
        assert!(told.1.contains("JSON values"), "{path}: {}", told.1);
    }
    let sandbox = admin
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await
        .json();
    let text = |name: &str| sandbox[name].as_str().expect("a text").to_owned();
    let inside = with_json(&server.anyone())
        .with("e2b-sandbox-id", &text("sandboxID"))
        .with("x-access-token", &text("envdAccessToken"));
    for (port, path) in [
        ("49999", "/execute"),
        ("49983", "/filesystem.Filesystem/Stat"),
    ] {
        let caller = inside.clone().with("e2b-sandbox-port", port);
        let request = caller.request(Method::POST, path, lists(1_000_000));
        let told = server.send(request).await.text();
        assert!(told.contains("JSON values"), "{path}: {told}");
    }
    // Fewer that take more are refused for what they take.
    for values in [
        "0,".repeat(600_000),
        "{\"\":0},".repeat(110_000),
        "[0],".repeat(150_000),
    ] {
        let body = Body::from(format!("{{\"x\": [{values}0]}}"));
        let request = with_json(&admin).request(Method::POST, &operation, body);
        let answer = server.send(request).await;
        let told = (answer.status, answer.text());
        assert_eq!(told.0, StatusCode::PAYLOAD_TOO_LARGE, "{}", told.1);
        assert!(told.1.contains("read as JSON"), "{}", told.1);
    }
    // What values take counts for their user, also while the bodies of other requests are read.
    let many = "[],".repeat(60_000);
    let requests = (0..4).map(|_| {
        let body = Body::from(format!("{{\"x\": [{many}[]]}}"));
        server.send(with_json(&admin).request(Method::POST, &operation, body))
    });
    let answers = futures_util::future::join_all(requests).await;
    let is_allowed = |answer: &Answer| {
        [
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::TOO_MANY_REQUESTS,
        ]
        .contains(&answer.status)
    };
    assert!(answers.iter().all(is_allowed), "{answers:?}");
}
