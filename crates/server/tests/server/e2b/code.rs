//! Cells and contexts of the code interpreter.

use super::{CODE, Sandbox, client, open_server};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn cells_share_variables_and_say_what_came_of_them() {
    let server = open_server().await;
    let sandbox = Sandbox::create(
        &client(&server),
        json!({"templateID": "code-interpreter-v1", "envVars": {"A": "b"}}),
    )
    .await;
    let lines = sandbox
        .run(json!({"code": "import os\nprint(os.environ['A'])\nx = 20\n'te' + 'xt'"}))
        .await;
    let mut kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(kinds.pop(), Some("end_of_execution"));
    assert_eq!(
        lines[0],
        json!({"type": "number_of_executions", "execution_count": 1})
    );
    assert!(
        lines
            .iter()
            .any(|line| line["type"] == "stdout" && line["text"] == "b\n"),
        "{lines:?}"
    );
    let result = json!({"type": "result", "is_main_result": true, "text": "text"});
    assert!(lines.contains(&result), "{lines:?}");
    assert_eq!(sandbox.value("x + 1").await, "21");
    let lines = sandbox.run(json!({"code": "1 / 0"})).await;
    let error = lines
        .iter()
        .find(|line| line["type"] == "error")
        .expect("an error");
    assert_eq!(error["name"], "ZeroDivisionError");
    let lines = sandbox
        .run(json!({"code": "import os; os.environ['B']", "env_vars": {"B": "c"}}))
        .await;
    assert!(lines.iter().any(|line| line["text"] == "c"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_have_variables_of_their_own_and_the_files_of_the_sandbox() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    sandbox
        .value("x = 1; open('shared', 'w').write('here')")
        .await;
    let context = sandbox
        .service(CODE)
        .post("/contexts", json!({}))
        .await
        .json();
    let there =
        json!({"code": "'x' in globals(), open('shared').read()", "context_id": context["id"]});
    let lines = sandbox.run(there).await;
    assert!(
        lines.iter().any(|line| line["text"] == "(False, 'here')"),
        "{lines:?}"
    );
    let shell = sandbox
        .run(json!({"code": "cd /tmp; v=3", "language": "bash"}))
        .await;
    assert_eq!(
        shell.last().map(|line| line["type"].clone()),
        Some(json!("end_of_execution"))
    );
    let shell = sandbox
        .run(json!({"code": "echo $v $PWD", "language": "bash"}))
        .await;
    assert!(
        shell.iter().any(|line| line["text"] == "3 /tmp\n"),
        "{shell:?}"
    );
    let removed = sandbox
        .service(CODE)
        .delete(&format!(
            "/contexts/{}",
            context["id"].as_str().expect("an id")
        ))
        .await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    let refused = sandbox
        .service(CODE)
        .post(
            "/execute",
            json!({"code": "1", "context_id": context["id"]}),
        )
        .await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    let other = sandbox
        .service(CODE)
        .post("/execute", json!({"code": "1", "language": "r"}))
        .await;
    assert_eq!(other.status, StatusCode::NOT_IMPLEMENTED);
    assert!(
        other.text().contains("python, javascript or bash"),
        "{}",
        other.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_one_call_end_with_it_and_those_that_bash_changed_stay() {
    let server = open_server().await;
    let body = json!({"templateID": "base", "envVars": {"ALL": "sandbox"}});
    let sandbox = Sandbox::create(&client(&server), body).await;
    let told = async |code: &str, variables: Value| {
        let request = json!({"code": code, "language": "bash", "env_vars": variables});
        let lines = sandbox.run(request).await;
        let texts = lines.iter().filter_map(|line| line["text"].as_str());
        texts.collect::<String>()
    };
    let read = "echo $ALL ${ONE:-none} $KEPT";
    let given = json!({"ALL": "call", "ONE": "1"});
    assert_eq!(told(read, given).await, "call 1\n");
    assert_eq!(told(read, json!({})).await, "sandbox none\n");
    let changed = told("KEPT=$KEPT-more; ALL=own", json!({"KEPT": "given"})).await;
    assert_eq!(changed, "");
    assert_eq!(told(read, json!({})).await, "own none given-more\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_print_is_one_message() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    let lines = sandbox.run(json!({"code": "print('whole line')"})).await;
    let output: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "stdout")
        .map(|line| line["text"].clone())
        .collect();
    assert_eq!(output, ["whole line\n"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_interrupts_its_cell() {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    let code = "print('begun', flush=True)\nwhile True: pass";
    let caller = sandbox.service(CODE);
    let body = Body::from(json!({"code": code}).to_string());
    let request = caller.request(Method::POST, "/execute", body);
    let answer = server
        .router
        .clone()
        .oneshot(request)
        .await
        .expect("an answer");
    let mut body = answer.into_body();
    loop {
        let frame = body.frame().await.expect("a line").expect("a line");
        let line = frame.into_data().unwrap_or_default();
        if String::from_utf8_lossy(&line).contains("begun") {
            break;
        }
    }
    drop(body);
    let next = tokio::time::timeout(Duration::from_secs(120), sandbox.value("40 + 2"));
    assert_eq!(next.await.expect("the cell was interrupted"), "42");
}
