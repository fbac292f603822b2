//! Cells over HTTP: their results, events and displays, and what happens while they run.

use crate::common::{Caller, TestServer};
use axum::http::StatusCode;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_run_and_remembered() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    assert_eq!(admin.run(&session, "x = 20").await["status"], "success");
    let result = admin.run(&session, "x + 1").await;
    assert_eq!(result["value"]["repr"], "21");
    assert_eq!(
        (&result["cell"], &result["session"]),
        (&json!(2), &json!(session))
    );
    let vars = admin
        .get(&format!("/v1/sessions/{session}/vars"))
        .await
        .json();
    assert_eq!(vars["vars"][0]["name"], "x");
    let one = admin
        .get(&format!("/v1/sessions/{session}/vars/x"))
        .await
        .json();
    assert_eq!(one["repr"], "20");
    let accepted = admin
        .post(
            &format!("/v1/sessions/{session}/cells"),
            json!({"code": "y = 1"}),
        )
        .await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
    assert_eq!(accepted.json()["cell"], 3);
}

/// The events of a cell that is asked for with `Accept: text/event-stream`.
async fn events_of(caller: &Caller<'_>, session: &str, code: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/cells");
    let answer = caller
        .clone()
        .with("accept", "text/event-stream")
        .post(&path, json!({"code": code}))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/event-stream");
    data_of(&answer.text())
}

fn data_of(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_cell_come_as_a_stream_that_ends() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let events = events_of(&admin, &session, "print('a')\n1/0").await;
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(names, ["cell_begun", "stdout", "result"]);
    assert_eq!(events[0]["code"], "print('a')\n1/0");
    assert_eq!(events[0]["by"], "ada");
    assert_eq!(events[2]["result"]["error"]["type"], "ZeroDivisionError");
    assert!(
        events
            .iter()
            .all(|event| event["cell"] == 1 && event["session"] == session.as_str())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_not_kept_are_gone() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let path = format!("/v1/sessions/{session}/events");
    let gone = admin.get(&format!("{path}?after=1000")).await;
    assert_eq!(
        (gone.status, &gone.json()["code"]),
        (StatusCode::GONE, &json!("events_gone"))
    );
    let gone = admin.clone().with("last-event-id", "77").get(&path).await;
    assert_eq!(gone.status, StatusCode::GONE);
    let wrong = admin.clone().with("last-event-id", "x").get(&path).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_display_is_a_reference_and_never_a_page() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let code = "class Page:\n    def _repr_html_(self): return '<script>' + 'x' * 50_000\nPage()";
    let result = admin.run(&session, code).await;
    let file = result["value"]["mime"]["text/html"]["$file"]
        .as_str()
        .expect("a reference")
        .to_owned();
    assert_eq!(result["value"]["mime"]["text/html"]["bytes"], 50_008);
    let answer = admin.get(&format!("/v1/sessions/{session}/{file}")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body.len(), 50_008);
    assert!(
        answer
            .header("content-disposition")
            .starts_with("attachment")
    );
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    for wrong in [
        "displays/..%2f..%2fcellblock.db",
        "displays/x.html",
        "displays/%2e%2e",
    ] {
        let answer = admin.get(&format!("/v1/sessions/{session}/{wrong}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_waits_is_answered_once() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let tools = json!({"tools": [{"name": "weather", "description": "Degrees", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]});
    assert_eq!(
        admin
            .post(&format!("/v1/sessions/{session}/tools"), tools)
            .await
            .status,
        StatusCode::OK
    );
    let code = json!({"code": "input('Who? ') + str(weather(city='Oslo'))"});
    let cells = format!("/v1/sessions/{session}/cells?wait=1");
    let run = admin.post(&cells, code);
    let answer = async {
        let input = waiting_call(&admin, &session).await;
        let path = |op: &str| format!("/v1/sessions/{session}/{op}");
        let wrong = admin
            .post(&path("tool_result"), json!({"call": input, "result": 1}))
            .await;
        assert_eq!(
            wrong.status,
            StatusCode::NOT_FOUND,
            "another kind of answer"
        );
        let good = admin
            .post(&path("input"), json!({"call": input, "text": "Ada"}))
            .await;
        assert_eq!(good.status, StatusCode::OK, "{}", good.text());
        let again = admin
            .post(&path("input"), json!({"call": input, "text": "Eve"}))
            .await;
        assert_eq!(again.status, StatusCode::NOT_FOUND);
        let call = waiting_call(&admin, &session).await;
        let good = admin
            .post(&path("tool_result"), json!({"call": call, "result": 4}))
            .await;
        assert_eq!(good.status, StatusCode::OK, "{}", good.text());
    };
    let (result, ()) = tokio::join!(run, answer);
    assert_eq!(
        result.json()["value"]["repr"],
        "'Ada4'",
        "{}",
        result.text()
    );
}

pub(crate) async fn waiting_call(caller: &Caller<'_>, session: &str) -> String {
    for _ in 0..500 {
        let told = caller.get(&format!("/v1/sessions/{session}")).await.json();
        if let Some(call) = told["live"]["waiting_calls"][0].as_str() {
            return call.to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("no call waits")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cell_is_interrupted() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let path = format!("/v1/sessions/{session}/cells?wait=1");
    let run = admin.post(
        &path,
        json!({"code": "print('on', flush=True)\nwhile True: pass"}),
    );
    let stop = async {
        let journal = format!("/v1/sessions/{session}");
        while admin.get(&journal).await.json()["live"]["seq"]
            .as_u64()
            .unwrap_or(0)
            < 2
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        admin
            .post(&format!("/v1/sessions/{session}/interrupt"), json!({}))
            .await
    };
    let (result, _) = tokio::join!(run, stop);
    assert_eq!(result.json()["status"], "interrupted", "{}", result.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_an_event_and_not_an_end() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin.run(&session, "x = 1").await;
    let events = events_of(&admin, &session, "x = 2\nimport os\nos.abort()").await;
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap_or(""))
        .collect();
    assert!(names.contains(&"restored"), "{names:?}");
    assert_eq!(
        events.last().map(|event| &event["result"]["status"]),
        Some(&json!("crashed"))
    );
    assert_eq!(admin.run(&session, "x").await["value"]["repr"], "1");
}
