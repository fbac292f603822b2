//! Every prompt and observation of a run, as it was sent to the model.

use crate::common::{TestServer, ended};
use crate::runs::{ask, new_chat, with};
use axum::http::StatusCode;
use cellblock_model::{Reply, ScriptedModel};
use cellblock_server::AgentSetup;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn every_prompt_and_observation_is_read_as_it_was_sent() {
    let replies = ["I compute.\n```python\nprint(6 * 7)\n```", "It is 42."];
    let model = Arc::new(ScriptedModel::new(replies.map(Reply::text)));
    let setup = AgentSetup::new(model.clone())
        .builder(cellblock_agent::Agent::builder().format(cellblock_agent::Format::Markdown));
    let server = TestServer::with(with(setup)).await;
    let admin = server.admin().await;
    let chat = new_chat(&admin).await;
    let run = ask(&admin, &chat, "What is 6 times 7?").await;
    ended(&admin, &run).await;
    let listed = admin.get(&format!("/v1/runs/{run}/requests")).await.json();
    let counts = listed["requests"].as_array().expect("a list").iter();
    let counts: Vec<Value> = counts
        .map(|request| {
            json!([
                request["request"],
                request["step"],
                request["message_count"],
                request["first_new"]
            ])
        })
        .collect();
    assert_eq!(counts, [json!([1, 1, 2, 0]), json!([2, 2, 4, 2])]);
    for (index, sent) in model.requests().iter().enumerate() {
        let path = format!("/v1/runs/{run}/requests/{}", index + 1);
        assert_eq!(
            admin.get(&path).await.json()["messages"],
            json!(sent.messages)
        );
    }
    let last = admin
        .get(&format!("/v1/runs/{run}/requests/2"))
        .await
        .json();
    let observation = last["messages"][3]["content"].as_str().expect("a text");
    assert!(observation.contains("42"), "{observation}");
    for unknown in ["0", "3", "x", "-1"] {
        let answer = admin
            .get(&format!("/v1/runs/{run}/requests/{unknown}"))
            .await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{unknown}");
    }
    // Readers of a shared chat and of the record do not get the prompts.
    let record = admin.get(&format!("/v1/runs/{run}/record")).await.text();
    assert!(!record.contains("\"role\":\"system\""));
}
