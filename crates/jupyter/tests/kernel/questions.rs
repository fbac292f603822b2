//! Requests that run no cell.

use crate::client::Client;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_editor_is_answered() {
    let mut client = Client::start();
    client.run("number = 5").await;
    let content = json!({"code": "numb", "cursor_pos": 4});
    let reply = client.ask("complete_request", content).await.reply;
    assert_eq!(reply["matches"], json!(["number"]));
    assert_eq!(
        (&reply["cursor_start"], &reply["cursor_end"]),
        (&json!(0), &json!(4))
    );
    let content = json!({"code": "zip", "cursor_pos": 3, "detail_level": 0});
    let reply = client.ask("inspect_request", content).await.reply;
    assert_eq!(reply["found"], true);
    assert!(
        reply["data"]["text/plain"]
            .as_str()
            .unwrap()
            .contains("zip")
    );
    for (code, status) in [
        ("1", "complete"),
        ("def f():", "incomplete"),
        ("1 +* 2", "invalid"),
    ] {
        let content = json!({"code": code});
        let reply = client.ask("is_complete_request", content).await.reply;
        assert_eq!(reply["status"], status, "{code}");
    }
    let help = client.run("zip?").await;
    assert_eq!(help.reply["payload"][0]["source"], "page");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_answered() {
    let mut client = Client::start();
    for code in ["1+2", "x = 3", "1+2"] {
        client.run(code).await;
    }
    let mut ask = async |content: Value| {
        let reply = client.ask("history_request", content).await.reply;
        reply["history"].clone()
    };
    let content = json!({"hist_access_type": "tail", "n": 2, "output": true});
    assert_eq!(
        ask(content).await,
        json!([[1, 2, ["x = 3", null]], [1, 3, ["1+2", "3"]]])
    );
    let content = json!({"hist_access_type": "range", "session": 0, "start": 1, "stop": 3});
    assert_eq!(ask(content).await, json!([[1, 1, "1+2"], [1, 2, "x = 3"]]));
    let content = json!({"hist_access_type": "search", "pattern": "1+*", "unique": true});
    assert_eq!(ask(content).await, json!([[1, 3, "1+2"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debugger_is_refused() {
    let mut client = Client::start();
    let reply = client.control("debug_request", json!({})).await;
    assert_eq!(reply["status"], "error");
    let info = client.control("kernel_info_request", json!({})).await;
    assert_eq!(info["supported_features"], json!([]));
    assert_eq!(info["language_info"]["name"], "python");
}
