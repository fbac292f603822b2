//! The demonstration: recorded replies, real sessions, a link that opens it.

use crate::common::{Caller, TestServer, ended};
use axum::http::StatusCode;
use cellblock_server::Demo;
use serde_json::{Value, json};

async fn started() -> (TestServer, String) {
    let demo = Demo::default();
    let server = TestServer::with(|options| options.agent = Some(demo.agent())).await;
    let path = demo.prepare(&server.server).await.expect("a demonstration");
    let secret = path.strip_prefix("/enter#").expect("a link").to_owned();
    (server, secret)
}

/// Enters by the link. Returns the visitor and the first page.
async fn enter<'a>(server: &'a TestServer, secret: &str) -> (Caller<'a>, String) {
    let answer = server
        .anyone()
        .post("/v1/enter", json!({"secret": secret}))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let page = answer.json()["page"].as_str().expect("a page").to_owned();
    let visitor = server.anyone().logged_in_by(&answer);
    (visitor, page)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demonstration_has_a_crash_a_plot_a_table_a_branch_and_a_call_that_waits() {
    let (server, secret) = started().await;
    let (visitor, page) = enter(&server, &secret).await;
    let chat = visitor.get(&format!("/v1{page}")).await.json();
    let runs = chat["runs"].as_array().expect("runs").clone();
    let statuses: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["answered", "answered", "running"]);
    let session = chat["session"].as_str().expect("a session");
    let journal = visitor
        .get(&format!("/v1/sessions/{session}/journal"))
        .await
        .json();
    let cells = journal["cells"].as_array().expect("cells");
    let has_display = |mime: &str| {
        let shown = cells.iter().flat_map(|cell| {
            cell["result"]["displays"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        });
        shown.into_iter().any(|display| !display[mime].is_null())
    };
    assert!(
        has_display("application/vnd.cellblock.table+json"),
        "{journal}"
    );
    assert!(has_display("image/svg+xml"), "{journal}");
    let crashed: Vec<&Value> = cells
        .iter()
        .map(|cell| &cell["result"])
        .filter(|result| result["status"] == "crashed")
        .collect();
    assert_eq!(crashed.len(), 1, "{journal}");
    assert_eq!(crashed[0]["state"]["outcome"], "restored");
    let chats = visitor.get("/v1/chats").await.json();
    let branch = chats["chats"]
        .as_array()
        .and_then(|chats| chats.iter().find(|other| other["parent"] == chat["id"]))
        .expect("a branch");
    let other = branch["session"].as_str().expect("a session");
    assert_eq!(
        visitor.run(other, "warmest").await["value"]["repr"],
        "(23.9, 'Jul')"
    );
    let run = runs[2]["id"].as_str().expect("an id");
    let approvals = waiting(&visitor, run).await;
    assert_eq!(approvals[0]["tool"], "send_report");
    // Readers are told of the call after the code that makes it.
    let events = format!("/v1/runs/{run}/events");
    let code = visitor.first_event(&events, "code").await;
    let approval = visitor.first_event(&events, "approval").await;
    assert!(
        code["seq"].as_u64() < approval["seq"].as_u64(),
        "{approval}"
    );
    let id = approvals[0]["approval"].as_str().expect("an id");
    let decided = visitor
        .post(
            &format!("/v1/runs/{run}/approvals/{id}"),
            json!({"decision": "accept"}),
        )
        .await;
    assert_eq!(decided.status, StatusCode::OK, "{}", decided.text());
    let told = ended(&visitor, run).await;
    assert_eq!(told["status"], "answered", "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_opens_again_and_a_wrong_one_does_not() {
    let (server, secret) = started().await;
    enter(&server, &secret).await;
    enter(&server, &secret).await;
    for wrong in ["", "x", &secret[1..]] {
        let answer = server
            .anyone()
            .post("/v1/enter", json!({"secret": wrong}))
            .await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    let plain = TestServer::new().await;
    let answer = plain
        .anyone()
        .post("/v1/enter", json!({"secret": secret}))
        .await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

/// The calls of a run that wait for a decision, once there is one.
async fn waiting(caller: &Caller<'_>, run: &str) -> Value {
    for _ in 0..600 {
        let told = caller.get(&format!("/v1/runs/{run}")).await.json();
        if told["approvals"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
        {
            return told["approvals"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("no call waits")
}
