//! What every request passes: `Host`, `Origin`, headers, bodies, one shape of errors.

use crate::common::TestServer;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::json;

#[tokio::test]
async fn a_name_that_is_not_the_servers_is_refused() {
    let server = TestServer::new().await;
    for good in [
        "localhost",
        "localhost:8000",
        "127.0.0.1:1",
        "[::1]:8",
        "LOCALHOST",
    ] {
        let answer = server.anyone().with("host", good).get("/healthz").await;
        assert_eq!(answer.status, StatusCode::OK, "{good}");
    }
    for bad in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:80",
        "",
        "[::1",
    ] {
        let answer = server.anyone().with("host", bad).get("/healthz").await;
        assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{bad}");
        assert_eq!(answer.json()["code"], "wrong_host");
    }
    let twice = server
        .anyone()
        .with("host", "localhost")
        .with("host", "localhost");
    assert_eq!(twice.get("/healthz").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_name_that_the_operator_allows_is_taken() {
    let server =
        TestServer::with(|options| options.allowed_hosts = vec!["Box.example".into()]).await;
    let answer = server
        .anyone()
        .with("host", "box.example:443")
        .get("/healthz")
        .await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_change_anything() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    for bad in [
        "https://evil.example",
        "null",
        "http://localhost:1",
        "file://",
    ] {
        let answer = admin
            .clone()
            .with("origin", bad)
            .post("/v1/sessions", json!({}))
            .await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{bad}");
        assert_eq!(answer.json()["code"], "foreign_origin");
    }
    let own = admin
        .clone()
        .with("origin", "http://localhost")
        .post("/v1/tokens", json!({"name": "x"}))
        .await;
    assert_eq!(own.status, StatusCode::CREATED, "{}", own.text());
}

#[tokio::test]
async fn a_cookie_alone_changes_nothing() {
    let server = TestServer::new().await;
    let mut admin = server.admin().await;
    admin.headers.retain(|(name, _)| name != "x-cellblock");
    assert_eq!(admin.get("/v1/me").await.status, StatusCode::OK);
    let answer = admin.post("/v1/tokens", json!({"name": "x"})).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.text().contains("X-Cellblock"), "{}", answer.text());
    // A browser sends a name and a password by itself, too.
    let basic = admin.clone().with("authorization", "Basic YTpi");
    let answer = basic.post("/v1/sessions", json!({})).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{answer:?}");
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let server = TestServer::new().await;
    for path in ["/healthz", "/v1/me", "/nothing", "/v1/openapi.json"] {
        let answer = server.anyone().get(path).await;
        assert!(
            answer
                .header("content-security-policy")
                .starts_with("default-src 'none'"),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("access-control-allow-origin"), "", "no CORS");
    }
}

#[tokio::test]
async fn errors_have_one_shape() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let unknown = admin.get("/v1/nothing").await;
    let method = admin.send(Method::PUT, "/v1/sessions", json!({})).await;
    let missing = admin.get("/v1/sessions/s1").await;
    let broken = admin.server.send({
        let mut request = admin.request(Method::POST, "/v1/tokens", Body::from("{"));
        request.headers_mut().insert(
            "content-type",
            "application/json".parse().expect("a header"),
        );
        request
    });
    let broken = broken.await;
    let field = admin
        .post("/v1/tokens", json!({"name": "x", "colour": 1}))
        .await;
    let form = admin.clone().with("content-type", "text/plain");
    let form = server
        .send(form.request(Method::POST, "/v1/tokens", Body::from("{\"name\":\"x\"}")))
        .await;
    let all = [
        (unknown, 404, "not_found"),
        (method, 405, "unknown_op"),
        (missing, 404, "not_found"),
        (broken, 422, "malformed"),
        (field, 422, "invalid"),
        (form, 415, "malformed"),
        (server.anyone().get("/v1/me").await, 401, "unauthenticated"),
    ];
    for (answer, status, code) in all {
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
        let json = answer.json();
        let mut keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
        keys.sort();
        assert_eq!(keys, ["code", "hint", "message"]);
        assert_eq!(json["code"], code);
    }
}

#[tokio::test]
async fn a_body_beyond_its_limit_is_refused() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let name = "x".repeat(2 << 20);
    let answer = admin.post("/v1/tokens", json!({"name": name})).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.json()["code"], "too_large");
}

/// The options of `POST /v1/sessions` have other names than the flags of the command line.
#[tokio::test(flavor = "multi_thread")]
async fn hints_name_the_options_of_the_api() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    for (code, option) in [
        ("import nowhere", "environment that has them (`env`)"),
        ("bytearray(200 << 30)", "raise the limit `memory`"),
        (
            "[open('/dev/null') for _ in range(5000)]",
            "raise the limit `open_files`",
        ),
    ] {
        let result = admin.run(&session, code).await;
        let hint = result["error"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(option), "{code}: {hint}");
        assert!(!hint.contains("--"), "{code}: {hint}");
    }
}

#[tokio::test]
async fn errors_about_journals_name_no_directory_of_the_server() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    for of_journal in ["export", "journal", "usage"] {
        let path = format!("/v1/sessions/{session}/{of_journal}");
        let answer = admin.get(&path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{of_journal}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(!message.contains('/'), "{message}");
    }
}
