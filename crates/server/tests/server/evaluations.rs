//! Reports of evaluations, and what administrators see of the machine.

use crate::common::TestServer;
use axum::http::StatusCode;
use serde_json::{Value, json};

/// A report of one task.
pub fn report(passed: bool) -> Value {
    let usage = json!({
        "input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 5, "reasoning_tokens": 0, "estimated": false,
    });
    let (score, count) = if passed { (1.0, 1) } else { (0.0, 0) };
    json!({
        "cellblock_eval": 1, "suite": "smoke", "model": "m", "format": "markdown", "date": "today", "complete": true,
        "totals": {
            "score": score, "passed": count, "tasks": 1, "steps": 1, "code_actions": 1, "parsed_at_first_try": 1,
            "failed_cells": 0, "usage": usage, "ms": 5,
        },
        "tasks": [{
            "name": "sum", "passed": passed, "status": "answered", "answer": "3", "steps": 1, "code_actions": 1,
            "parsed_at_first_try": 1, "failed_cells": 0, "asked_again": 0, "usage": usage, "ms": 5,
        }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluations_are_kept_and_compared() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let mut ids = Vec::new();
    for passed in [true, false] {
        let made = ada.post("/v1/evaluations", report(passed)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
        ids.push(made.json()["id"].as_str().expect("an id").to_owned());
    }
    let list = ada.get("/v1/evaluations").await.json();
    let scores: Vec<&Value> = list["evaluations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| &row["score"])
        .collect();
    assert_eq!(scores, [&json!(0.0), &json!(1.0)]);
    let compared = ada
        .get(&format!(
            "/v1/evaluations/{}/compare?with={}",
            ids[1], ids[0]
        ))
        .await
        .json();
    assert_eq!(
        compared["regressions"].as_array().map(Vec::len),
        Some(1),
        "{compared}"
    );
    let wrong = ada.post("/v1/evaluations", json!({"suite": "x"})).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let address = format!("/v1/evaluations/{}", ids[0]);
    assert_eq!(ada.delete(&address).await.status, StatusCode::OK);
    assert_eq!(ada.get(&address).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_sees_the_machine_and_ends_sessions_that_come_back() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    let session = bob.open().await;
    bob.run(&session, "x = 1").await;
    let machine = admin.get("/v1/machine").await.json();
    assert!(
        machine["walls"]
            .as_array()
            .is_some_and(|walls| walls.len() > 3),
        "{machine}"
    );
    let environments = machine["environments"].as_array();
    assert!(
        environments.is_some_and(|all| all.iter().all(|one| one["path"].is_null())),
        "environments are told without paths of the server: {machine}"
    );
    let live = admin.get("/v1/live").await.json();
    assert_eq!(
        (&live["users"][0]["name"], &live["users"][0]["sessions"]),
        (&json!("bob"), &json!(1))
    );
    assert!(
        !live.to_string().contains(&session),
        "the id is its owner's: {live}"
    );
    for path in ["/v1/machine", "/v1/live"] {
        assert_eq!(bob.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let user = live["users"][0]["user"].as_str().expect("an id");
    let ended = admin.delete(&format!("/v1/users/{user}/live")).await.json();
    assert_eq!(ended["ended"], 1);
    assert_eq!(bob.run(&session, "x").await["value"]["repr"], "1");
}
