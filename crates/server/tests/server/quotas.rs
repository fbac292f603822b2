//! What one user may use, and what users may not ask for.

use crate::common::TestServer;
use axum::http::StatusCode;
use cellblock_server::Authentication;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_told_with_the_time_to_wait() {
    let server = TestServer::with(|options| {
        options.quotas.sessions = 1;
        options.quotas.cells_per_minute = 2;
    })
    .await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let second = admin.post("/v1/sessions", json!({})).await;
    assert_eq!(
        (second.status, &second.json()["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("quota_sessions"))
    );
    let fork = admin
        .post(&format!("/v1/sessions/{session}/fork"), json!({}))
        .await;
    assert_eq!(fork.status, StatusCode::TOO_MANY_REQUESTS);
    admin.run(&session, "1").await;
    admin.run(&session, "2").await;
    let third = admin
        .post(
            &format!("/v1/sessions/{session}/cells?wait=1"),
            json!({"code": "3"}),
        )
        .await;
    assert_eq!(
        (third.status, &third.json()["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("quota_cells"))
    );
    let wait: u64 = third.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(
        admin
            .delete(&format!("/v1/sessions/{session}"))
            .await
            .status,
        StatusCode::OK
    );
    admin.open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_time_have_quotas_too() {
    let server = TestServer::with(|options| {
        options.quotas.memory = 3 << 30;
        options.quotas.seconds_per_day = 0;
    })
    .await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let second = admin.post("/v1/sessions", json!({})).await;
    assert_eq!(second.json()["code"], "quota_memory", "{}", second.text());
    let small = admin
        .post("/v1/sessions", json!({"limits": {"memory": "512MB"}}))
        .await;
    assert_eq!(small.status, StatusCode::CREATED, "{}", small.text());
    let cell = admin
        .post(
            &format!("/v1/sessions/{session}/cells"),
            json!({"code": "1"}),
        )
        .await;
    assert_eq!(cell.json()["code"], "quota_time", "{}", cell.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn users_cannot_ask_for_the_hosts_own() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    for options in [
        json!({"workspace": "/"}),
        json!({"isolation": "none"}),
        json!({"network": ["example.org"]}),
        json!({"env": "/etc/requirements.txt"}),
        json!({"container": {"image": "x"}}),
    ] {
        let answer = bob.post("/v1/sessions", options.clone()).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{options}: {}",
            answer.text()
        );
    }
    for options in [
        json!({"session": "mine"}),
        json!({"journal": "/tmp"}),
        json!({"colour": 1}),
        json!({"limits": {"disk": "1TB"}}),
    ] {
        let answer = admin.post("/v1/sessions", options.clone()).await;
        assert_eq!(
            answer.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{options}: {}",
            answer.text()
        );
    }
}

/// Code that writes 60 MB, in pieces so that the limit is seen in between.
pub const FILL_DISK: &str = "\
import time
with open('big', 'wb', buffering=0) as file:
    for _ in range(60):
        file.write(b'x' * 1_000_000)
        time.sleep(0.01)
print('wri' + 'tten')";

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_session_has_the_disk_limit_of_its_user() {
    let server = TestServer::with(|options| {
        options.authentication = Authentication::Off;
        options.quotas.disk = 32 << 20;
    })
    .await;
    let own = server.anyone().with("x-cellblock", "1");
    let session = own.open().await;
    let told = own.run(&session, FILL_DISK).await;
    assert_eq!(told["error"]["obstacle"], "disk", "{told}");

    let chat = server.anyone();
    let code = json!({"lang": "py", "code": FILL_DISK});
    let told = chat.post("/librechat/exec", code).await;
    assert!(told.text().contains("File too large"), "{}", told.text());

    let sandbox = chat
        .clone()
        .with("x-api-key", "any")
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await
        .json();
    let text = |name: &str| sandbox[name].as_str().expect("a text").to_owned();
    let inside = chat
        .clone()
        .with("e2b-sandbox-id", &text("sandboxID"))
        .with("e2b-sandbox-port", "49999")
        .with("x-access-token", &text("envdAccessToken"));
    let described = chat
        .clone()
        .with("x-api-key", "any")
        .get(&format!("/sandboxes/{}", text("sandboxID")))
        .await;
    assert_eq!(described.json()["diskSizeMB"], 32, "{}", described.text());
    let beside = inside.post("/contexts", json!({})).await;
    assert!(beside.status.is_success(), "{}", beside.text());
    let beside = beside.json()["id"].as_str().expect("an id").to_owned();
    for request in [
        json!({"code": FILL_DISK, "context_id": beside}),
        json!({"code": FILL_DISK}),
    ] {
        let told = inside.post("/execute", request.clone()).await;
        assert!(
            !told.text().contains("written"),
            "{request}: {}",
            told.text()
        );
    }
}
