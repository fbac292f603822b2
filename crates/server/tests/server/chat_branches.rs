//! Chats that are taken back and forked.

use crate::common::{Caller, TestServer, ended};
use crate::runs::{ask, new_chat, with};
use axum::http::StatusCode;
use cellblock_agent::{Agent, Format};
use cellblock_model::{Model, Reply, ScriptedModel};
use cellblock_server::AgentSetup;
use serde_json::{Value, json};
use std::sync::Arc;

const SET: &str = "```python\nx = 1\n```";
const LOOK: &str = "```python\nprint('x is', x)\n```";

fn saying(texts: &[&str]) -> (Arc<ScriptedModel>, AgentSetup) {
    let model = Arc::new(ScriptedModel::new(
        texts.iter().map(|text| Reply::text(*text)),
    ));
    let setup = AgentSetup::new(Arc::clone(&model) as Arc<dyn Model>)
        .builder(Agent::builder().format(Format::Markdown));
    (model, setup)
}

async fn asked(caller: &Caller<'_>, chat: &str, text: &str) -> Value {
    let run = ask(caller, chat, text).await;
    ended(caller, &run).await
}

/// What the model was asked last.
fn last_request(model: &ScriptedModel) -> String {
    format!("{:?}", model.requests().last().expect("a request"))
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_of_a_chat_are_taken_back_and_the_model_is_told() {
    let (model, setup) = saying(&[SET, "One.", "```python\nx = 2\n```", "Two.", LOOK, "One."]);
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let undo = format!("/v1/chats/{chat}/undo");
    let early = admin.post(&undo, json!({})).await;
    assert_eq!(early.status, StatusCode::NOT_FOUND, "{}", early.text());
    asked(&admin, &chat, "Keep 1.").await;
    asked(&admin, &chat, "Now 2.").await;
    let undone = admin.post(&undo, json!({"n": 1})).await;
    assert_eq!(undone.status, StatusCode::OK, "{}", undone.text());
    assert_eq!(undone.json()["cell"], 1);
    asked(&admin, &chat, "What is x?").await;
    let request = last_request(&model);
    assert!(
        request.contains("took back the last 1 cell") && request.contains("x is 1"),
        "{request}"
    );
    let too_many = admin.post(&undo, json!({"n": 100})).await;
    assert!(too_many.status.is_client_error(), "{}", too_many.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_answers_is_not_taken_back() {
    let (_, setup) = saying(&["```python\nwhile True: pass\n```", "?"]);
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "?").await;
    let path = format!("/v1/runs/{run}");
    // Its first event is there as soon as it answers.
    while admin.get(&path).await.json()["seq"].as_u64().unwrap_or(0) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let busy = admin
        .post(&format!("/v1/chats/{chat}/undo"), json!({}))
        .await;
    assert_eq!(
        (busy.status, &busy.json()["code"]),
        (StatusCode::CONFLICT, &json!("busy"))
    );
    admin
        .post(&format!("/v1/runs/{run}/cancel"), json!({}))
        .await;
    ended(&admin, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_remembers_the_code_and_what_was_taken_back() {
    let (model, setup) = saying(&[SET, "One.", "Noted.", "Noted, too."]);
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    asked(&admin, &chat, "Keep 1.").await;
    admin
        .post(&format!("/v1/chats/{chat}/undo"), json!({}))
        .await;
    let mut fork = chat;
    for question in ["And here?", "And there?"] {
        let made = admin
            .post(&format!("/v1/chats/{fork}/fork"), json!({}))
            .await;
        fork = made.json()["id"].as_str().expect("an id").to_owned();
        // A fork of a fork that was asked nothing yet remembers as much.
        let made = admin
            .post(&format!("/v1/chats/{fork}/fork"), json!({}))
            .await;
        fork = made.json()["id"].as_str().expect("an id").to_owned();
        asked(&admin, &fork, question).await;
        let request = last_request(&model);
        for text in ["Keep 1.", "x = 1", "took back the last 1 cell", question] {
            assert!(request.contains(text), "{text}: {request}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_back_after_a_restart_is_told() {
    let (_, setup) = saying(&[SET, "One."]);
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let token = admin.post("/v1/tokens", json!({"name": "t"})).await.json()["token"].clone();
    let chat = new_chat(&admin).await;
    asked(&admin, &chat, "Keep 1.").await;
    let session = admin.get(&format!("/v1/chats/{chat}")).await.json()["session"].clone();
    let (model, setup) = saying(&[LOOK, "One."]);
    let server = server.restarted(with(setup)).await;
    let bearer = format!("Bearer {}", token.as_str().expect("a token"));
    let caller = server.anyone().with("authorization", &bearer);
    caller
        .run(session.as_str().expect("a session"), "x = 5")
        .await;
    let undone = caller
        .post(&format!("/v1/chats/{chat}/undo"), json!({}))
        .await;
    assert_eq!(undone.status, StatusCode::OK, "{}", undone.text());
    asked(&caller, &chat, "What is x?").await;
    let request = last_request(&model);
    assert!(
        request.contains("took back the last 1 cell") && request.contains("x is 1"),
        "{request}"
    );
}
