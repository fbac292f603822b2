//! Links with which anyone reads a chat.

use crate::common::{TestServer, ended};
use axum::http::StatusCode;
use cellblock_model::{Reply, ScriptedModel};
use cellblock_server::AgentSetup;
use serde_json::json;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_chat_is_read_by_its_link_until_the_link_ends() {
    let server = TestServer::with(|options| {
        let model = ScriptedModel::new([
            Reply::text("I compute.\n```python\nprint(6 * 7)\n```"),
            Reply::text("It is 42."),
        ]);
        let builder = cellblock_agent::Agent::builder().format(cellblock_agent::Format::Markdown);
        options.agent = Some(AgentSetup::new(Arc::new(model)).builder(builder));
    })
    .await;
    let ada = server.admin().await;
    let run = ada
        .post("/v1/runs", json!({"text": "6 times 7?"}))
        .await
        .json();
    let (run, chat) = (
        run["id"].as_str().expect("an id"),
        run["chat"].as_str().expect("an id"),
    );
    let told = ended(&ada, run).await;
    let session = told["session"].as_str().expect("a session");
    let address = format!("/v1/chats/{chat}/share");
    let secret_of = |answer: &crate::common::Answer| {
        let path = answer.json()["path"].as_str().expect("a path").to_owned();
        path.strip_prefix("/shared#").expect("a secret").to_owned()
    };
    let first = secret_of(&ada.post(&address, json!({})).await);
    let read = |secret: String| {
        let anyone = server.anyone();
        async move { anyone.post("/v1/shared", json!({"secret": secret})).await }
    };
    let shared = read(first.clone()).await;
    assert_eq!(shared.status, StatusCode::OK, "{}", shared.text());
    let text = shared.text();
    assert!(
        text.contains("6 times 7?") && text.contains("It is 42.") && text.contains("print(6 * 7)")
    );
    for secret_id in [run, chat, session] {
        assert!(!text.contains(secret_id), "{secret_id} in {text}");
    }
    assert_eq!(
        ada.get(&format!("/v1/chats/{chat}")).await.json()["shared"],
        true
    );
    let second = secret_of(&ada.post(&address, json!({})).await);
    assert_eq!(
        read(first).await.status,
        StatusCode::NOT_FOUND,
        "an old link ends"
    );
    assert_eq!(read(second.clone()).await.status, StatusCode::OK);
    assert_eq!(ada.delete(&address).await.status, StatusCode::OK);
    assert_eq!(read(second).await.status, StatusCode::NOT_FOUND);
}
