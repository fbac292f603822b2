//! Cells of JavaScript. With `node` on the machine they run, without it they are refused.

use super::{CODE, Sandbox, client, open_server};
use crate::common::TestServer;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::path::Path;

/// Whether programs of a session find `node`: they see these directories.
fn has_node() -> bool {
    let directories = ["/usr/local/bin", "/usr/bin", "/bin"];
    directories
        .iter()
        .any(|directory| Path::new(directory).join("node").exists())
}

/// A sandbox with a variable, where cells of JavaScript run; none where they are refused, which is checked.
async fn sandbox_with_node(server: &TestServer) -> Option<Sandbox<'_>> {
    let body = json!({"templateID": "base", "envVars": {"ALL": "sandbox"}});
    let sandbox = Sandbox::create(&client(server), body).await;
    if has_node() {
        return Some(sandbox);
    }
    let request = json!({"code": "1", "language": "javascript"});
    let refused = sandbox.service(CODE).post("/execute", request).await;
    assert_eq!(refused.status, StatusCode::NOT_IMPLEMENTED);
    assert!(refused.text().contains("no `node`"), "{}", refused.text());
    assert!(!languages(&sandbox).await.contains(&json!("javascript")));
    None
}

async fn languages(sandbox: &Sandbox<'_>) -> Vec<Value> {
    let told: Value = sandbox.service(CODE).get("/contexts").await.json();
    let contexts = told.as_array().expect("a list");
    let languages = contexts.iter().map(|context| context["language"].clone());
    languages.collect()
}

/// The lines of a cell that are not the same for every cell, without their times.
async fn told(sandbox: &Sandbox<'_>, code: &str, more: Value) -> Vec<Value> {
    let mut request = json!({"code": code, "language": "javascript"});
    for (name, value) in more.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    let mut lines = sandbox.run(request).await;
    lines.retain(|line| line["type"] != "number_of_executions" && line["type"] != "keepalive");
    assert_eq!(lines.pop(), Some(json!({"type": "end_of_execution"})));
    for line in &mut lines {
        line.as_object_mut().expect("an object").remove("timestamp");
    }
    lines
}

fn result(text: &str) -> Value {
    json!({"type": "result", "text": text, "is_main_result": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_of_javascript_keep_their_variables_where_there_is_node() {
    let server = open_server().await;
    let Some(sandbox) = sandbox_with_node(&server).await else {
        return;
    };
    assert_eq!(languages(&sandbox).await, ["python", "javascript"]);
    let none = json!({});
    let output = json!({"type": "stdout", "text": "out\n"});
    let code = "const x = 1; console.log('out'); x + 1";
    assert_eq!(
        told(&sandbox, code, none.clone()).await,
        [output, result("2")]
    );
    // A name may be declared again, modules are loaded, and promises are awaited.
    let code = "import { readFileSync as read } from 'fs'\nconst x = await Promise.resolve(typeof read); x";
    assert_eq!(
        told(&sandbox, code, none.clone()).await,
        [result("function")]
    );
    let code = "process.env.ALL + process.env.ONE + ' ' + process.cwd()";
    let variables = json!({"env_vars": {"ONE": "1"}});
    let here = result("sandbox1 /home/user");
    assert_eq!(told(&sandbox, code, variables).await, [here]);
    let gone = told(&sandbox, "process.env.ONE ?? 'gone'", none.clone()).await;
    assert_eq!(gone, [result("gone")]);
    let failed = told(&sandbox, "throw new TypeError('no')", none.clone()).await;
    let error = json!({"type": "error", "name": "TypeError", "value": "no", "traceback": "TypeError: no\n    at <anonymous>:1:7"});
    assert_eq!(failed, [error]);
    let list = told(&sandbox, "[1, { a: 'b' }]", none).await;
    assert_eq!(list[0]["json"], json!([1, {"a": "b"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_is_started_anew_by_the_next_cell() {
    let server = open_server().await;
    let Some(sandbox) = sandbox_with_node(&server).await else {
        return;
    };
    let none = json!({});
    told(&sandbox, "var x = 1", none.clone()).await;
    let ended = told(&sandbox, "process.exit(3)", none.clone()).await;
    assert_eq!(ended[0]["name"], "ExecutionError", "{ended:?}");
    let after = told(&sandbox, "typeof x", none.clone()).await;
    assert_eq!(after, [result("undefined")]);
    // Lines that are not the interpreter's own are output of the cell.
    let code = "require('child_process').execSync('echo \"[1]\"', {stdio: 'inherit'}); 1";
    let forged = told(&sandbox, code, none.clone()).await;
    let output = json!({"type": "stdout", "text": "[1]\n"});
    assert_eq!(forged, [output, result("1")]);
    // A context of its own has its own variables, and forgets them when it is started anew.
    let request = json!({"language": "javascript", "cwd": "/tmp"});
    let context: Value = sandbox
        .service(CODE)
        .post("/contexts", request)
        .await
        .json();
    let within = async |code: &str| {
        let request = json!({"code": code, "context_id": context["id"]});
        let lines = sandbox.run(request).await;
        let found = lines.iter().find(|line| line["type"] == "result");
        found.map_or(json!(lines), |line| line["text"].clone())
    };
    assert_eq!(within("var y = 5; process.cwd()").await, "/tmp");
    assert_eq!(within("y").await, "5");
    let id = context["id"].as_str().expect("an id");
    let path = format!("/contexts/{id}/restart");
    let restarted = sandbox.service(CODE).post(&path, none).await;
    assert_eq!(restarted.status, StatusCode::NO_CONTENT);
    assert_eq!(within("typeof y").await, "undefined");
}
