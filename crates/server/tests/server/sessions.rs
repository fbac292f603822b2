//! Sessions over HTTP: undo, forks, restarts, their end, and states that were kept aside.

use crate::common::TestServer;
use axum::http::StatusCode;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn undo_and_fork_go_back_and_apart() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin.run(&session, "x = 1").await;
    admin.run(&session, "x = 2").await;
    let fork = admin
        .post(&format!("/v1/sessions/{session}/fork"), json!({}))
        .await;
    assert_eq!(fork.status, StatusCode::CREATED, "{}", fork.text());
    let fork = fork.json();
    assert_eq!(fork["parent"], session.as_str());
    let fork = fork["id"].as_str().expect("an id").to_owned();
    let undone = admin
        .post(&format!("/v1/sessions/{session}/undo"), json!({}))
        .await;
    assert_eq!(undone.json()["cell"], 1, "{}", undone.text());
    assert_eq!(admin.run(&session, "x").await["value"]["repr"], "1");
    let in_fork = admin.run(&fork, "x").await;
    assert_eq!(in_fork["value"]["repr"], "2");
    assert_eq!(in_fork["session"], fork.as_str());
    let at = |cell: u64| format!("/v1/sessions/{session}/vars?at={cell}");
    assert_eq!(
        admin.get(&at(2)).await.json()["vars"][0]["summary"],
        "2",
        "as it was then"
    );
    assert_eq!(
        admin.get(&at(3)).await.json()["vars"][0]["summary"],
        "1",
        "after the undo"
    );
    assert_eq!(admin.get(&at(9)).await.status, StatusCode::NOT_FOUND);
    let journal = admin
        .get(&format!("/v1/sessions/{session}/journal"))
        .await
        .json();
    let fates: Vec<&str> = journal["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .map(|cell| cell["fate"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(fates, ["kept", "undone", "kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_begins_at_an_earlier_state_and_the_original_stays() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    for code in [
        "x = [1]",
        "x.append(2)\nopen('f.txt', 'w').write('2')",
        "1 / 0",
    ] {
        admin.run(&session, code).await;
    }
    admin
        .run(&session, "x.append(4)\nopen('f.txt', 'w').write('4')")
        .await;
    let address = format!("/v1/sessions/{session}/fork");
    let fork = admin.post(&address, json!({"at": 2})).await;
    assert_eq!(fork.status, StatusCode::CREATED, "{}", fork.text());
    let fork = fork.json();
    assert_eq!(fork["parent"], session.as_str());
    assert_eq!(fork["live"]["rebuilt"]["replayed"], json!([1, 2]), "{fork}");
    assert_eq!(fork["live"]["rebuilt"]["differences"], json!([]), "{fork}");
    let fork = fork["id"].as_str().expect("an id").to_owned();
    let look = "x, open('f.txt').read()";
    let there = admin.run(&fork, look).await;
    assert_eq!(there["value"]["repr"], "([1, 2], '2')");
    assert_eq!(there["cell"], 3, "{there}");
    let here = admin.run(&session, look).await;
    assert_eq!(here["value"]["repr"], "([1, 2, 4], '4')");
    // The fork has a journal of its own, and comes back from it.
    let journal = admin.get(&format!("/v1/sessions/{fork}/journal")).await;
    let cells = journal.json()["cells"].as_array().map(Vec::len);
    assert_eq!(cells, Some(3), "{}", journal.text());
    let beginning = admin.post(&address, json!({"at": 0})).await;
    let beginning = beginning.json()["id"].as_str().expect("an id").to_owned();
    let vars = admin.get(&format!("/v1/sessions/{beginning}/vars")).await;
    assert_eq!(vars.json()["vars"], json!([]));
    for (wrong, status) in [
        (9, StatusCode::NOT_FOUND),
        (-1, StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let refused = admin.post(&address, json!({"at": wrong})).await;
        assert_eq!(refused.status, status, "{}", refused.text());
    }
    let sessions = admin.get("/v1/sessions").await.json();
    let count = sessions["sessions"].as_array().map(Vec::len);
    assert_eq!(count, Some(3), "nothing is left of a fork that was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_rebuilds_a_session_from_its_journal() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin.run(&session, "x = [1]\ny = x").await;
    admin
        .run(&session, "x.append(2)\nopen('f.txt', 'w').write('kept')")
        .await;
    let token = admin.post("/v1/tokens", json!({"name": "t"})).await.json()["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let server = server.restarted(|_| {}).await;
    let caller = server
        .anyone()
        .with("authorization", &format!("Bearer {token}"));
    let path = format!("/v1/sessions/{session}");
    assert_eq!(caller.get(&path).await.json()["state"], "asleep");
    let result = caller.run(&session, "(y, open('f.txt').read())").await;
    assert_eq!(result["value"]["repr"], "([1, 2], 'kept')");
    assert_eq!(result["cell"], 3, "numbers are never used twice");
    let told = caller.get(&path).await.json();
    assert_eq!(
        (&told["state"], &told["rebuilt"]),
        (&json!("live"), &json!(true))
    );
    assert_eq!(told["live"]["rebuilt"]["replayed"], json!([1, 2]));
    let gone = caller.get(&format!("{path}/events?after=3")).await;
    assert_eq!(
        gone.status,
        StatusCode::GONE,
        "the numbers of the life before are not mixed up with new ones"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_is_gone_and_its_journal_stays() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin.run(&session, "print('hello')").await;
    let path = format!("/v1/sessions/{session}");
    assert_eq!(admin.delete(&path).await.status, StatusCode::OK);
    assert_eq!(admin.get(&path).await.json()["state"], "closed");
    let run = admin
        .post(&format!("{path}/cells"), json!({"code": "1"}))
        .await;
    assert_eq!(
        (run.status, &run.json()["code"]),
        (StatusCode::GONE, &json!("ended"))
    );
    let journal = admin.get(&format!("{path}/journal")).await.json();
    assert_eq!(journal["cells"][0]["result"]["stdout"], "hello\n");
    let script = admin.get(&format!("{path}/export?as=py")).await;
    assert!(
        script.text().contains("print('hello')"),
        "{}",
        script.text()
    );
    assert!(
        script
            .header("content-disposition")
            .starts_with("attachment")
    );
    let markdown = admin.get(&format!("{path}/export?as=md")).await;
    let cell = "```python\nprint('hello')\n```\n\n```\nhello\n```\n";
    assert!(markdown.text().ends_with(cell), "{}", markdown.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_begin_with_a_state_that_was_kept_aside() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin.run(&session, "x = [1]").await;
    let operations = format!("/v1/sessions/{session}/operations");
    let freeze = json!({"op": "freeze", "name": "one"});
    let kept = admin.post(&operations, freeze.clone()).await;
    assert_eq!(
        kept.json(),
        json!({"answer": {"snapshot": "one"}}),
        "{}",
        kept.text()
    );
    let again = admin.post(&operations, freeze).await;
    assert_eq!(
        (again.status, &again.json()["code"]),
        (StatusCode::CONFLICT, &json!("exists"))
    );
    admin.run(&session, "x.append(2)").await;
    for wrong in [json!({"from": 1}), json!({"from": "one", "seed": {"y": 1}})] {
        let answer = admin.post("/v1/sessions", wrong).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    let opened = admin.post("/v1/sessions", json!({"from": "one"})).await;
    assert_eq!(opened.status, StatusCode::CREATED, "{}", opened.text());
    let copy = opened.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(admin.run(&copy, "x").await["value"]["repr"], "[1]");
    // The session may be gone: its snapshot stays.
    admin.delete(&format!("/v1/sessions/{session}")).await;
    let listed = admin.get("/v1/snapshots").await.json();
    let listed = &listed["snapshots"];
    assert_eq!(
        (&listed[0]["name"], &listed[0]["session"], &listed[1]),
        (&json!("one"), &json!(session), &Value::Null)
    );
    let other = server.user(&admin, "bob").await;
    assert_eq!(
        other.get("/v1/snapshots").await.json(),
        json!({"snapshots": []})
    );
    let theft = other.post("/v1/sessions", json!({"from": "one"})).await;
    assert_eq!(theft.status, StatusCode::NOT_FOUND);
    let discarded = admin.delete("/v1/snapshots/one").await;
    assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.text());
    let gone = admin.post("/v1/sessions", json!({"from": "one"})).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.run(&copy, "x").await["value"]["repr"], "[1]");
}
