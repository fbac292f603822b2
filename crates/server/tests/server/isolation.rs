//! Two users who try to reach each other by every id, on every route of the OpenAPI document.

use crate::common::TestServer;
use axum::http::{Method, StatusCode};
use cellblock_model::{Reply, ScriptedModel};
use cellblock_server::{AgentSetup, openapi_document};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_user_does_not_exist() {
    let server = TestServer::with(|options| {
        let model = ScriptedModel::new([Reply::text("```python\nx = 1\n```"), Reply::text("1")]);
        let builder = cellblock_agent::Agent::builder().format(cellblock_agent::Format::Markdown);
        options.agent = Some(AgentSetup::new(Arc::new(model)).builder(builder));
    })
    .await;
    let admin = server.admin().await;
    let ada = server.user(&admin, "eve").await;
    let bob = server.user(&admin, "bob").await;
    let chat = ada.post("/v1/chats", json!({})).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let run = ada
        .post(&format!("/v1/chats/{chat}/messages"), json!({"text": "?"}))
        .await
        .json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let session = loop {
        let told = ada.get(&format!("/v1/runs/{run}")).await.json();
        if told["status"] != "running" {
            break told["session"].as_str().expect("a session").to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let token = ada.post("/v1/tokens", json!({"name": "t"})).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let user = ada.get("/v1/me").await.json()["user"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let document = openapi_document();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        if !path.contains('{') {
            continue;
        }
        for method in operations.as_object().expect("operations").keys() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let is_admins = path.starts_with("/v1/users");
            // The others' callers: another user, and an administrator, who manages users but not what is theirs.
            for (who, caller) in [("another user", &bob), ("the administrator", &admin)] {
                if is_admins && who != "another user" {
                    continue;
                }
                let real = path
                    .replace("{session}", &session)
                    .replace("{run}", &run)
                    .replace("{chat}", &chat)
                    .replace("{token}", &token)
                    .replace("{user}", &user)
                    .replace("{cell}", "1")
                    .replace("{name}", "x")
                    .replace("{path}", "a.txt")
                    .replace("{approval}", "a1")
                    .replace("{process}", "p1")
                    .replace("{evaluation}", "e1");
                assert!(!real.contains('{'), "{real}");
                let unknown = real
                    .replace(&session, "s1")
                    .replace(&run, "r1")
                    .replace(&chat, "c1")
                    .replace(&token, "t1");
                let body = body_of(&real);
                let answer = caller.send(method.clone(), &real, body.clone()).await;
                let expected = caller.send(method.clone(), &unknown, body).await;
                let wanted = if is_admins {
                    StatusCode::FORBIDDEN
                } else {
                    StatusCode::NOT_FOUND
                };
                assert_eq!(
                    answer.status,
                    wanted,
                    "{who}: {method} {real}: {}",
                    answer.text()
                );
                // Nothing tells one that exists from one that does not.
                assert_eq!(answer.text(), expected.text(), "{who}: {method} {real}");
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "{tried}");
    for path in ["/v1/sessions", "/v1/runs", "/v1/chats", "/v1/tokens"] {
        let all = bob.get(path).await.json();
        assert_eq!(
            all.as_object().and_then(|all| all.values().next()),
            Some(&json!([])),
            "{path}"
        );
    }
    assert_eq!(
        ada.run(&session, "x").await["value"]["repr"],
        "1",
        "nothing of it was touched"
    );
}

/// A body that the route takes.
fn body_of(path: &str) -> Value {
    match path.rsplit('/').next().unwrap_or_default() {
        "cells" | "compute" | "is_complete" => json!({"code": "1"}),
        "complete" | "inspect" => json!({"code": "1", "pos": 1}),
        "processes" => json!({"argv": ["true"]}),
        "signal" => json!({"signal": 15}),
        "operations" => json!({"op": "procs"}),
        "move" => json!({"from": "a", "to": "b"}),
        "input" => json!({"call": "c1", "text": "x"}),
        "tool_result" => json!({"call": "c1", "result": 1}),
        "seed" => json!({"variables": {}}),
        "tools" => json!({"tools": []}),
        "messages" => json!({"text": "?"}),
        "a1" => json!({"decision": "accept"}),
        "events" | "undo" | "fork" | "reset" | "interrupt" | "verify" | "cancel" | "resume"
        | "link" | "session" | "share" | "live" => json!({}),
        _ if path.starts_with("/v1/sessions/") => json!({"title": "x"}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn without_credentials_only_public_routes_answer() {
    let server = TestServer::new().await;
    server.admin().await;
    let document = openapi_document();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let is_public = operation["security"] == json!([]);
            let method: Method = method.to_uppercase().parse().expect("a method");
            let real = path.replace(['{', '}'], "");
            let answer = server.anyone().send(method.clone(), &real, json!({})).await;
            let is_refused = answer.status == StatusCode::UNAUTHORIZED
                && answer.json()["code"] == "unauthenticated";
            assert_eq!(is_refused, !is_public, "{method} {path}: {}", answer.text());
        }
    }
}

#[test]
fn the_committed_description_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let made = openapi_document();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        let text = serde_json::to_string_pretty(&made).expect("JSON") + "\n";
        std::fs::write(path, text).expect("written");
    }
    let committed = std::fs::read_to_string(path).expect("the description");
    let committed: Value = serde_json::from_str(&committed).expect("JSON");
    assert!(
        committed == made,
        "openapi.json is old: run this test with UPDATE_OPENAPI=1 and look at the difference"
    );
}
