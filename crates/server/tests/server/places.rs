//! The limits of a user hold for sessions of every kind, also when many are opened at once.

use crate::common::{Caller, TestServer, host};
use crate::strangers::belongings::{mcp_client, mcp_session, sandbox};
use axum::http::StatusCode;
use cellblock_protocol::SessionOptions;
use cellblock_server::ServerOptions;
use cellblock_tools::{Registry, SessionFuture, ToolRunner};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

/// Offers MCP with real sessions.
fn with_mcp(options: &mut ServerOptions, data: &TempDir) {
    let registry = cellblock_mcp::with_tools_for_clients(Registry::builder().built_in())
        .build()
        .expect("tools");
    let host = host(data.path());
    options.mcp = Some(cellblock_mcp::Server::new(
        cellblock_mcp::Files::None,
        move |client| {
            let host = host.clone();
            let mut options = SessionOptions::default();
            options.limits = client.bounded(options.limits);
            let open = move || -> SessionFuture {
                let (host, options) = (host.clone(), options.clone());
                Box::pin(async move { Ok(host.open(options).await?) })
            };
            ToolRunner::builder(registry.clone())
                .open_sessions(open)
                .build()
        },
    ));
}

/// The status of a request to begin a session of MCP.
async fn begin(caller: &Caller<'_>) -> StatusCode {
    let begin = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let answer = mcp_client(caller).post("/mcp", begin).await;
    if answer.status == StatusCode::TOO_MANY_REQUESTS {
        assert_eq!(answer.json()["code"], "quota_sessions");
        assert!(!answer.header("retry-after").is_empty());
    }
    answer.status
}

/// Calls a tool over MCP and returns the result.
async fn call(caller: &Caller<'_>, session: &str, tool: &str, arguments: Value) -> Value {
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    });
    let client = mcp_client(caller).with("mcp-session-id", session);
    let answer = client.post("/mcp", call).await;
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut replies = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let reply = replies.find(|reply| reply["id"] == 2);
    reply.unwrap_or_else(|| panic!("no reply: {text}"))["result"].clone()
}

async fn used_sessions(caller: &Caller<'_>) -> Value {
    caller.get("/v1/me").await.json()["used"]["sessions"].clone()
}

/// Waits until a user has this many sessions.
async fn until_used(caller: &Caller<'_>, sessions: usize) {
    for _ in 0..600 {
        if used_sessions(caller).await == json!(sessions) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} sessions are used", used_sessions(caller).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_mcp_counts_as_a_session_of_its_user() {
    let data = tempfile::tempdir().expect("a directory");
    let server = TestServer::with(|options| {
        with_mcp(options, &data);
        options.quotas.sessions = 2;
    })
    .await;
    let ada = server.admin().await;
    let first = mcp_session(&ada).await;
    mcp_session(&ada).await;
    assert_eq!(used_sessions(&ada).await, 2);
    assert_eq!(begin(&ada).await, StatusCode::TOO_MANY_REQUESTS);
    let refused = ada.post("/v1/sessions", json!({})).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    // A message that begins no session takes no place.
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let client = mcp_client(&ada).with("mcp-session-id", &first);
    assert_eq!(client.delete("/mcp").await.status, StatusCode::OK);
    until_used(&ada, 1).await;
    let lost = mcp_client(&ada).post("/mcp", list).await;
    assert!(lost.status.is_client_error(), "{}", lost.text());
    until_used(&ada, 1).await;
    assert_eq!(begin(&ada).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_does_not_take_the_places_of_mcp_of_another() {
    let data = tempfile::tempdir().expect("a directory");
    let server = TestServer::with(|options| {
        with_mcp(options, &data);
        options.quotas.sessions = 80;
        options.quotas.memory = u64::MAX;
    })
    .await;
    let ada = server.admin().await;
    let bob = server.user(&ada, "bob").await;
    for _ in 0..80 {
        assert_eq!(begin(&ada).await, StatusCode::OK);
    }
    assert_eq!(begin(&ada).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(begin(&bob).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_and_calls_over_mcp_count_too() {
    let data = tempfile::tempdir().expect("a directory");
    let server = TestServer::with(|options| {
        with_mcp(options, &data);
        options.quotas.sessions = 2;
        options.quotas.cells_per_minute = 4;
    })
    .await;
    let ada = server.admin().await;
    let session = mcp_session(&ada).await;
    let code = json!({"python_code_snippet": "x = 1"});
    let ran = call(&ada, &session, "execute_python_code", code.clone()).await;
    assert_ne!(ran["isError"], true, "{ran}");
    let forked = call(&ada, &session, "fork", json!({"name": "one"})).await;
    assert_ne!(forked["isError"], true, "{forked}");
    assert_eq!(used_sessions(&ada).await, 2);
    let refused = call(&ada, &session, "fork", json!({"name": "two"})).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("2 may"), "{refused}");
    let mut last = Value::Null;
    for _ in 0..4 {
        last = call(&ada, &session, "execute_python_code", code.clone()).await;
    }
    assert_eq!(last["isError"], true, "{last}");
    assert!(last.to_string().contains("cells a minute"), "{last}");
    let used = ada.get("/v1/me").await.json()["used"]["today"].clone();
    assert!(used["cells"].as_i64() >= Some(3), "{used}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_mcp_has_the_disk_limit_of_its_user() {
    let data = tempfile::tempdir().expect("a directory");
    let server = TestServer::with(|options| {
        with_mcp(options, &data);
        options.quotas.disk = 32 << 20;
    })
    .await;
    let ada = server.admin().await;
    let session = mcp_session(&ada).await;
    let code = json!({"python_code_snippet": crate::quotas::FILL_DISK});
    let ran = call(&ada, &session, "execute_python_code", code).await;
    let told = ran.to_string();
    assert!(told.contains("File too large"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_opened_at_once_stay_within_the_limit() {
    let server = TestServer::with(|options| options.quotas.sessions = 3).await;
    let ada = server.admin().await;
    let opening = (0..12).map(|_| async { ada.post("/v1/sessions", json!({})).await.status });
    let statuses = futures_util::future::join_all(opening).await;
    let opened = statuses.iter().filter(|status| status.is_success());
    assert_eq!(opened.count(), 3, "{statuses:?}");
    assert_eq!(used_sessions(&ada).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_sessions_live_at_the_same_time() {
    // Some minutes on a small machine: where CELLBLOCK_LONG is not set, a tenth.
    let count = match std::env::var_os("CELLBLOCK_LONG") {
        Some(_) => 200,
        None => 20,
    };
    let server = TestServer::with(|options| {
        options.quotas.sessions = count;
        options.quotas.memory = u64::MAX;
    })
    .await;
    let ada = server.admin().await;
    let mut sessions = Vec::new();
    for number in 0..count {
        let session = ada.open().await;
        ada.run(&session, &format!("x = {number}")).await;
        sessions.push(session);
    }
    assert_eq!(used_sessions(&ada).await, count);
    for (number, session) in sessions.iter().enumerate() {
        let found = ada.run(session, "x").await;
        assert_eq!(found["value"]["repr"], number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_removed_user_stays_in_memory() {
    let data = tempfile::tempdir().expect("a directory");
    let server = TestServer::with(|options| with_mcp(options, &data)).await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    let user = bob.get("/v1/me").await.json()["user"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let client = mcp_session(&bob).await;
    let box_ = sandbox(&bob, json!({"templateID": "base"})).await;
    let snapshots = format!("/sandboxes/{}/snapshots", box_.id);
    let kept = bob.post(&snapshots, json!({})).await;
    assert_eq!(kept.status, StatusCode::CREATED, "{}", kept.text());
    let kernel = bob.post("/api/kernels", json!({})).await;
    assert_eq!(kernel.status, StatusCode::CREATED, "{}", kernel.text());
    let live = admin.get("/v1/live").await.json();
    assert!(live.to_string().contains(&user), "{live}");
    let code = json!({"python_code_snippet": "x = 1"});
    call(&bob, &client, "execute_python_code", code).await;

    let removed = admin.delete(&format!("/v1/users/{user}")).await;
    assert_eq!(removed.status, StatusCode::OK, "{}", removed.text());
    for _ in 0..200 {
        let live = admin.get("/v1/live").await.json();
        if !live.to_string().contains(&user) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}", admin.get("/v1/live").await.json())
}
