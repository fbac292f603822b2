//! Sessions over HTTP: cells, events, files, undo, forks, restarts, limits.

use crate::common::{Caller, TestServer};
use axum::body::Body;
use axum::http::{Method, StatusCode};
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
async fn files_are_written_and_read_in_ranges() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let file = format!("/v1/sessions/{session}/files/in/a%20b.html");
    let put = server
        .send(admin.request(Method::PUT, &file, Body::from("0123456789")))
        .await;
    assert_eq!(
        put.json(),
        json!({"path": "in/a b.html", "bytes": 10, "mime": "text/html"})
    );
    assert_eq!(
        admin.run(&session, "open('in/a b.html').read()").await["value"]["repr"],
        "'0123456789'"
    );
    let whole = admin.get(&file).await;
    assert_eq!(
        (whole.status, whole.text().as_str()),
        (StatusCode::OK, "0123456789")
    );
    assert!(
        whole
            .header("content-disposition")
            .starts_with("attachment"),
        "never shown as a page"
    );
    assert_eq!(
        whole.header("content-security-policy"),
        "sandbox; default-src 'none'"
    );
    let part = admin.clone().with("range", "bytes=2-4").get(&file).await;
    assert_eq!(
        (part.status, part.text().as_str()),
        (StatusCode::PARTIAL_CONTENT, "234")
    );
    assert_eq!(part.header("content-range"), "bytes 2-4/10");
    let beyond = admin.clone().with("range", "bytes=20-").get(&file).await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    let tag = whole.header("etag").to_owned();
    let same = admin.clone().with("if-none-match", &tag).get(&file).await;
    assert_eq!(
        (same.status, same.body.len()),
        (StatusCode::NOT_MODIFIED, 0)
    );
    admin
        .run(&session, "open('in/a b.html', 'w').write('new')")
        .await;
    let changed = admin.clone().with("if-none-match", &tag).get(&file).await;
    assert_eq!(
        (changed.status, changed.text().as_str()),
        (StatusCode::OK, "new")
    );
    let list = admin
        .get(&format!("/v1/sessions/{session}/files"))
        .await
        .json();
    assert_eq!(list["files"][0]["path"], "in/a b.html");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_of_the_workspace() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    admin
        .run(
            &session,
            "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')",
        )
        .await;
    for path in [
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "link",
        "root%2fetc%2fpasswd",
        "a%2f..%2f..%2fb",
        "%00",
    ] {
        let path = format!("/v1/sessions/{session}/files/{path}");
        let read = admin.get(&path).await;
        assert!(read.status.is_client_error(), "{path}: {}", read.text());
        assert!(!read.text().contains("root:"), "{path}");
        let written = server
            .send(admin.request(Method::PUT, &path, Body::from("x")))
            .await;
        // A link of the workspace may be replaced by a file, but never followed.
        assert!(
            written.status.is_client_error() || path.ends_with("link"),
            "{path}: {}",
            written.text()
        );
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_told_with_the_time_to_wait() {
    let server = TestServer::with(|options| {
        options.quotas.sessions = 1;
        options.quotas.cells_per_minute = 2;
    })
    .await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let second = admin.post("/v1/sessions", json!({})).await;
    assert_eq!(
        (second.status, &second.json()["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("quota_sessions"))
    );
    let fork = admin
        .post(&format!("/v1/sessions/{session}/fork"), json!({}))
        .await;
    assert_eq!(fork.status, StatusCode::TOO_MANY_REQUESTS);
    admin.run(&session, "1").await;
    admin.run(&session, "2").await;
    let third = admin
        .post(
            &format!("/v1/sessions/{session}/cells?wait=1"),
            json!({"code": "3"}),
        )
        .await;
    assert_eq!(
        (third.status, &third.json()["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("quota_cells"))
    );
    let wait: u64 = third.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(
        admin
            .delete(&format!("/v1/sessions/{session}"))
            .await
            .status,
        StatusCode::OK
    );
    admin.open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_time_have_quotas_too() {
    let server = TestServer::with(|options| {
        options.quotas.memory = 3 << 30;
        options.quotas.seconds_per_day = 0;
    })
    .await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let second = admin.post("/v1/sessions", json!({})).await;
    assert_eq!(second.json()["code"], "quota_memory", "{}", second.text());
    let small = admin
        .post("/v1/sessions", json!({"limits": {"memory": "512MB"}}))
        .await;
    assert_eq!(small.status, StatusCode::CREATED, "{}", small.text());
    let cell = admin
        .post(
            &format!("/v1/sessions/{session}/cells"),
            json!({"code": "1"}),
        )
        .await;
    assert_eq!(cell.json()["code"], "quota_time", "{}", cell.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn users_cannot_ask_for_the_hosts_own() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    for options in [
        json!({"workspace": "/"}),
        json!({"isolation": "none"}),
        json!({"network": ["example.org"]}),
        json!({"env": "/etc/requirements.txt"}),
        json!({"container": {"image": "x"}}),
    ] {
        let answer = bob.post("/v1/sessions", options.clone()).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{options}: {}",
            answer.text()
        );
    }
    for options in [
        json!({"session": "mine"}),
        json!({"journal": "/tmp"}),
        json!({"colour": 1}),
        json!({"limits": {"disk": "1TB"}}),
    ] {
        let answer = admin.post("/v1/sessions", options.clone()).await;
        assert_eq!(
            answer.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{options}: {}",
            answer.text()
        );
    }
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
