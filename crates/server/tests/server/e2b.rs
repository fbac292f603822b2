//! Sandboxes, asked as the official clients of the E2B API ask for them.

use crate::common::{Answer, Caller, TestServer};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use cellblock_server::Authentication;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

const ENVD: &str = "49983";
const CODE: &str = "49999";

/// A sandbox and how its services are asked.
struct Sandbox<'a> {
    server: &'a TestServer,
    id: String,
    token: String,
}

impl<'a> Sandbox<'a> {
    async fn create(caller: &Caller<'a>, body: Value) -> Sandbox<'a> {
        let answer = caller.post("/v2/sandboxes", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        Sandbox::of(caller.server, &answer.json())
    }

    fn of(server: &'a TestServer, told: &Value) -> Sandbox<'a> {
        let text = |name: &str| told[name].as_str().expect("a text").to_owned();
        Sandbox {
            server,
            id: text("sandboxID"),
            token: text("envdAccessToken"),
        }
    }

    fn service(&self, port: &str) -> Caller<'a> {
        self.server
            .anyone()
            .with("e2b-sandbox-id", &self.id)
            .with("e2b-sandbox-port", port)
            .with("x-access-token", &self.token)
    }

    /// Runs a cell and returns its lines.
    async fn run(&self, request: Value) -> Vec<Value> {
        let answer = self.service(CODE).post("/execute", request).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let text = answer.text();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        lines.collect()
    }

    /// The text of the last value of a cell.
    async fn value(&self, code: &str) -> Value {
        let lines = self.run(json!({"code": code})).await;
        let result = lines.iter().find(|line| line["type"] == "result");
        result.map_or(json!(lines), |line| line["text"].clone())
    }

    async fn rpc(&self, method: &str, request: Value) -> Answer {
        self.service(ENVD)
            .post(&format!("/{method}"), request)
            .await
    }

    /// Calls a method that answers by a stream, and returns its messages and the last one.
    async fn stream(&self, method: &str, request: &[u8]) -> (Vec<Value>, Value) {
        let caller = self
            .service(ENVD)
            .with("content-type", "application/connect+json");
        let body = Body::from(request.to_vec());
        let request = caller.request(Method::POST, &format!("/{method}"), body);
        let answer = self.server.send(request).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let (mut messages, mut last, mut rest) = (Vec::new(), Value::Null, &answer.body[..]);
        while let [flag, a, b, c, d, after @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let message = serde_json::from_slice(&after[..length]).expect("JSON");
            match flag {
                0 => messages.push(message),
                _ => last = message,
            }
            rest = &after[length..];
        }
        (messages, last)
    }

    /// Runs a line of the shell and returns its standard output and how it ended.
    async fn shell(&self, line: &str) -> (String, Value) {
        let request = json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", line]}});
        let (messages, last) = self
            .stream("process.Process/Start", &envelope(&request))
            .await;
        assert_eq!(last, json!({}), "{messages:?}");
        let output = messages
            .iter()
            .filter_map(|message| message["event"]["data"]["stdout"].as_str())
            .flat_map(|text| STANDARD.decode(text).expect("base64"))
            .collect();
        let end = messages
            .last()
            .map(|message| message["event"]["end"].clone());
        (
            String::from_utf8(output).expect("a text"),
            end.unwrap_or_default(),
        )
    }

    async fn upload(&self, path: &str, contents: &str) -> Answer {
        let caller = self
            .service(ENVD)
            .with("content-type", "application/octet-stream");
        let body = Body::from(contents.to_owned());
        let path = format!("/files?path={path}");
        self.server
            .send(caller.request(Method::POST, &path, body))
            .await
    }
}

fn envelope(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(text.len()).expect("short").to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

async fn open_server() -> TestServer {
    TestServer::with(|options| options.authentication = Authentication::Off).await
}

fn client(server: &TestServer) -> Caller<'_> {
    server.anyone().with("x-api-key", "any")
}

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
async fn sandboxes_of_others_and_wrong_tokens_are_refused() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let made = admin
        .post("/v1/tokens", json!({"name": "sdk", "scopes": ["run"]}))
        .await;
    let key = made.json()["token"].as_str().expect("a token").to_owned();
    let sandbox = Sandbox::create(
        &server.anyone().with("x-api-key", &key),
        json!({"templateID": "base"}),
    )
    .await;
    let other = server.user(&admin, "bob").await;
    let path = format!("/sandboxes/{}", sandbox.id);
    for refused in [other.get(&path).await, other.delete(&path).await] {
        assert_eq!(refused.status, StatusCode::NOT_FOUND);
        assert_eq!(refused.json()["code"], 404);
    }
    let listed = other.get("/v2/sandboxes").await;
    assert_eq!(listed.json(), json!([]));
    let refused = server
        .anyone()
        .with("x-api-key", "cb_wrong_key")
        .get("/v2/sandboxes")
        .await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (StatusCode::UNAUTHORIZED, &json!(401))
    );
    let stranger = Sandbox {
        token: "wrong".into(),
        id: sandbox.id.clone(),
        ..sandbox
    };
    for (port, path) in [
        (CODE, "/execute"),
        (ENVD, "/process.Process/List"),
        (ENVD, "/files?path=a"),
    ] {
        let refused = stranger
            .service(port)
            .post(path, json!({"code": "1"}))
            .await;
        assert_eq!(refused.status, StatusCode::BAD_GATEWAY, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_back_as_they_were_sent_and_can_be_described() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    let written = sandbox.upload("dir/a.txt", "hello").await;
    assert_eq!(written.status, StatusCode::OK, "{}", written.text());
    let path = written.json()[0]["path"]
        .as_str()
        .expect("a path")
        .to_owned();
    assert!(path.ends_with("/dir/a.txt"), "{path}");
    let read = sandbox.service(ENVD).get("/files?path=dir/a.txt").await;
    assert_eq!(read.text(), "hello");
    assert_eq!(sandbox.value("open('dir/a.txt').read()").await, "hello");
    let told = sandbox
        .rpc("filesystem.Filesystem/Stat", json!({"path": "dir/a.txt"}))
        .await
        .json();
    assert_eq!(
        (&told["entry"]["size"], &told["entry"]["type"]),
        (&json!("5"), &json!("FILE_TYPE_FILE"))
    );
    let moved = sandbox
        .rpc(
            "filesystem.Filesystem/Move",
            json!({"source": "dir/a.txt", "destination": "b.txt"}),
        )
        .await;
    assert_eq!(moved.status, StatusCode::OK, "{}", moved.text());
    let missing = sandbox
        .rpc("filesystem.Filesystem/Stat", json!({"path": "dir/a.txt"}))
        .await;
    assert_eq!(
        (missing.status, &missing.json()["code"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let again = sandbox
        .rpc("filesystem.Filesystem/MakeDir", json!({"path": "dir"}))
        .await;
    assert_eq!(again.json()["code"], "already_exists");
    let directory = sandbox.service(ENVD).get("/files?path=dir").await;
    assert_eq!(directory.status, StatusCode::BAD_REQUEST);
    let watcher = sandbox
        .rpc(
            "filesystem.Filesystem/CreateWatcher",
            json!({"path": "dir"}),
        )
        .await
        .json();
    sandbox.upload("dir/new.txt", "x").await;
    let events = sandbox
        .rpc(
            "filesystem.Filesystem/GetWatcherEvents",
            json!({"watcherId": watcher["watcherId"]}),
        )
        .await
        .json();
    assert_eq!(
        events["events"][0],
        json!({"name": "new.txt", "type": "EVENT_TYPE_CREATE"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_url_reads_one_file_until_its_time_is_over() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    sandbox.upload("a.txt", "signed").await;
    let url = |path: &str, operation: &str, expiration: u64| {
        let text = format!("{path}:{operation}:user:{}:{expiration}", sandbox.token);
        let signature = STANDARD_NO_PAD
            .encode(Sha256::digest(text.as_bytes()))
            .replace('+', "%2B");
        format!(
            "/files?path=a.txt&username=user&signature=v1_{signature}&signature_expiration={expiration}"
        )
    };
    let later = 4_000_000_000;
    let read = server.anyone().get(&url("a.txt", "read", later)).await;
    assert_eq!(
        (read.status, read.text().as_str()),
        (StatusCode::OK, "signed")
    );
    for wrong in [
        url("a.txt", "write", later),
        url("b.txt", "read", later),
        url("a.txt", "read", 1),
    ] {
        assert_eq!(
            server.anyone().get(&wrong).await.status,
            StatusCode::UNAUTHORIZED,
            "{wrong}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_started_followed_fed_and_ended() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    let (output, end) = sandbox.shell("echo one; echo two; exit 3").await;
    assert_eq!(output, "one\ntwo\n");
    assert_eq!(
        end,
        json!({"exitCode": 3, "exited": true, "status": "exit status 3"})
    );
    let (_, end) = sandbox.shell("kill -9 $$").await;
    assert_eq!(
        (&end["exitCode"], &end["status"]),
        (&json!(-1), &json!("signal: killed"))
    );
    let gone = sandbox
        .rpc(
            "process.Process/SendSignal",
            json!({"process": {"pid": 99999}, "signal": "SIGNAL_SIGKILL"}),
        )
        .await;
    assert_eq!(gone.json()["code"], "not_found");
    let unknown_user = sandbox
        .service(ENVD)
        .with("authorization", "Basic bWFsbG9yeTo=");
    let refused = unknown_user.post("/process.Process/List", json!({})).await;
    assert_eq!(refused.json()["message"], "user 'mallory' not found");
    let request = json!({"process": {"cmd": "sleep", "args": ["30"]}});
    let caller = sandbox
        .service(ENVD)
        .with("content-type", "application/connect+json")
        .with("connect-timeout-ms", "300");
    let answer = server
        .send(caller.request(
            Method::POST,
            "/process.Process/Start",
            envelope(&request).into(),
        ))
        .await;
    assert!(
        answer.text().contains("deadline_exceeded"),
        "{}",
        answer.text()
    );
    let running = sandbox.rpc("process.Process/List", json!({})).await.json();
    assert_eq!(
        running["processes"][0]["config"]["cmd"], "sleep",
        "the process outlives the stream"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_end_the_call_and_not_the_sandbox() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({"templateID": "base"})).await;
    for body in [
        &b""[..],
        &[0, 0],
        &[0, 0, 0, 0, 9, b'{'],
        &[1, 0, 0, 0, 2, b'{', b'}'],
        &[0, 0, 0, 0, 2, b'[', b']'],
    ] {
        let (messages, last) = sandbox.stream("process.Process/Start", body).await;
        assert_eq!(
            (messages, &last["error"]["code"]),
            (vec![], &json!("invalid_argument")),
            "{body:?}"
        );
    }
    let unknown = sandbox.rpc("process.Process/Dance", json!({})).await;
    assert_eq!(unknown.status, StatusCode::NOT_IMPLEMENTED);
    let no_code = sandbox
        .service(CODE)
        .post("/execute", json!({"cod": 1}))
        .await;
    assert_eq!(no_code.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(sandbox.value("1 + 1").await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_sandbox_is_not_there_until_it_is_connected_to() {
    let server = open_server().await;
    let caller = client(&server);
    let sandbox = Sandbox::create(&caller, json!({"templateID": "base"})).await;
    sandbox.value("x = 5").await;
    let path = |what: &str| format!("/sandboxes/{}/{what}", sandbox.id);
    assert_eq!(
        caller.post(&path("pause"), json!({})).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        caller.post(&path("pause"), json!({})).await.status,
        StatusCode::CONFLICT
    );
    let health = sandbox.service(ENVD).get("/health").await;
    assert_eq!(health.status, StatusCode::BAD_GATEWAY);
    assert!(health.text().contains("was not found"), "{}", health.text());
    let listed = caller.get("/v2/sandboxes?state=paused").await.json();
    assert_eq!(listed[0]["sandboxID"], sandbox.id.as_str());
    let resumed = caller
        .post(&format!("/v2{}", path("connect")), json!({"timeout": 60}))
        .await;
    assert_eq!(resumed.status, StatusCode::CREATED);
    assert_eq!(sandbox.value("x").await, "5");
    let connected = caller.post(&path("connect"), json!({"timeout": 60})).await;
    assert_eq!(connected.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_snapshots_counts_for_their_user() {
    let server = TestServer::with(|options| {
        options.authentication = Authentication::Off;
        options.quotas.memory = 3 << 30;
    })
    .await;
    let caller = client(&server);
    let sandbox = Sandbox::create(&caller, json!({"templateID": "base"})).await;
    let path = format!("/sandboxes/{}/snapshots", sandbox.id);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(caller.post(&path, json!({})).await.status);
    }
    let refused = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(made, [StatusCode::CREATED, StatusCode::CREATED, refused]);
    let another = caller
        .post("/sandboxes", json!({"templateID": "base"}))
        .await;
    assert_eq!(another.status, refused, "{}", another.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_the_token_resumes_no_paused_sandbox() {
    let server = open_server().await;
    let caller = client(&server);
    let wanted = json!({"templateID": "base", "autoPause": true, "autoResume": {"enabled": true}});
    let sandbox = Sandbox::create(&caller, wanted).await;
    sandbox.value("x = 5").await;
    let pause = format!("/sandboxes/{}/pause", sandbox.id);
    let paused = caller.post(&pause, json!({})).await;
    assert_eq!(paused.status, StatusCode::NO_CONTENT);
    let stranger = Sandbox {
        server: &server,
        id: sandbox.id.clone(),
        token: "another".to_owned(),
    };
    let ask = json!({"code": "x"});
    let answers = [
        stranger.service(ENVD).get("/health").await.status,
        stranger.service(CODE).get("/health").await.status,
        stranger.service(ENVD).get("/files?path=f").await.status,
        stranger.service(CODE).post("/execute", ask).await.status,
        stranger.rpc("process.Process/List", json!({})).await.status,
    ];
    assert_eq!(answers, [StatusCode::BAD_GATEWAY; 5]);
    let listed = caller.get("/v2/sandboxes?state=paused").await.json();
    assert_eq!(listed[0]["sandboxID"], sandbox.id.as_str());
    // The holder of the token does resume it.
    assert_eq!(sandbox.value("x").await, "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_and_snapshots_begin_where_the_sandbox_stood() {
    let server = open_server().await;
    let caller = client(&server);
    let sandbox = Sandbox::create(&caller, json!({"templateID": "base"})).await;
    sandbox.value("x = 1; open('f', 'w').write('one')").await;
    let path = |what: &str| format!("/sandboxes/{}/{what}", sandbox.id);
    let snapshot = caller
        .post(&path("snapshots"), json!({"name": "mine"}))
        .await;
    assert_eq!(snapshot.status, StatusCode::CREATED, "{}", snapshot.text());
    let forks = caller.post(&path("fork"), json!({"count": 2})).await.json();
    assert_eq!(forks.as_array().map(Vec::len), Some(2));
    let fork = Sandbox::of(&server, &forks[0]["sandbox"]);
    assert_eq!(fork.value("x += 1; x").await, "2");
    sandbox.value("x = 7").await;
    let later = Sandbox::create(
        &caller,
        json!({"templateID": snapshot.json()["snapshotID"]}),
    )
    .await;
    assert_eq!(later.value("x, open('f').read()").await, "(1, 'one')");
    let removed = caller
        .delete(&format!(
            "/templates/{}",
            snapshot.json()["snapshotID"].as_str().expect("an id")
        ))
        .await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    assert_eq!(caller.get("/snapshots").await.json(), json!([]));
    let gone = caller
        .post("/v2/sandboxes", json!({"templateID": "mine"}))
        .await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
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
    assert!(other.text().contains("python or bash"), "{}", other.text());
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
async fn a_sandbox_ends_when_its_time_is_over() {
    let server = open_server().await;
    let caller = client(&server);
    let sandbox = Sandbox::create(&caller, json!({"templateID": "base", "timeout": 1})).await;
    let path = format!("/sandboxes/{}", sandbox.id);
    for _ in 0..600 {
        if caller.get(&path).await.status == StatusCode::NOT_FOUND {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the sandbox lives on");
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

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_what_a_sandbox_uses() {
    let server = open_server().await;
    let sandbox = Sandbox::create(&client(&server), json!({})).await;
    let metrics = async || {
        let path = format!("/sandboxes/{}/metrics", sandbox.id);
        client(&server).get(&path).await.json()[0].clone()
    };
    let before = metrics().await;
    let work = "import time\nheld = bytearray(b'x') * 100_000_000\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass";
    sandbox.run(json!({"code": work})).await;
    let after = metrics().await;
    let added = after["memUsed"].as_u64().unwrap() - before["memUsed"].as_u64().unwrap();
    assert!(
        (90_000_000..300_000_000).contains(&added),
        "{before} {after}"
    );
    assert!(after["cpuUsedPct"].as_f64().unwrap() > 1.0, "{after}");
    let inside = sandbox.service(ENVD).get("/metrics").await.json();
    assert!(
        inside["mem_used"].as_u64().unwrap() > 90_000_000,
        "{inside}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_says_so_in_a_sentence() {
    let server = open_server().await;
    let caller = client(&server);
    let sandbox = Sandbox::create(&caller, json!({"templateID": "base"})).await;
    let paths = [
        (Method::POST, "/v3/templates", "environments"),
        (Method::GET, "/volumes", "volumes"),
        (Method::POST, "/secrets", "credentials"),
    ];
    for (method, path, word) in paths {
        let refused = caller.send(method, path, json!({})).await;
        assert_eq!(refused.status, StatusCode::NOT_IMPLEMENTED, "{path}");
        assert!(refused.text().contains(word), "{}", refused.text());
    }
    let port = sandbox.service("8080").get("/").await;
    assert_eq!(port.status, StatusCode::NOT_IMPLEMENTED);
    assert!(port.text().contains("8080"), "{}", port.text());
    let unknown = caller
        .post("/v2/sandboxes", json!({"templateID": "no-such"}))
        .await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_uploads_of_one_user_that_are_not_whole_have_a_bound() {
    const MAX_UPLOADS: usize = 16;
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let other = server.user(&admin, "bob").await;
    let sandbox = Sandbox::create(&admin, json!({"templateID": "base"})).await;
    let bobs = Sandbox::create(&other, json!({"templateID": "base"})).await;
    // Bodies that begin and never end.
    let mut unfinished = Vec::new();
    for _ in 0..MAX_UPLOADS {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<_, std::io::Error>>(1);
        let first = bytes::Bytes::from_static(b"x");
        sender.send(Ok(first)).await.expect("sent");
        let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|piece| (piece, receiver))
        });
        let caller = sandbox
            .service(ENVD)
            .with("content-type", "application/octet-stream");
        let body = Body::from_stream(pieces);
        let request = caller.request(Method::POST, "/files?path=a", body);
        let router = server.router.clone();
        let answer = tokio::spawn(tower::ServiceExt::oneshot(router, request));
        // The server has taken the first piece when there is room for another one.
        let room = sender.reserve().await.map(drop);
        room.expect("the upload goes on");
        unfinished.push((sender, answer));
    }
    let refused = sandbox.upload("b", "more").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(bobs.upload("b", "more").await.status, StatusCode::OK);
    // When the others have ended, there is room again.
    for (sender, answer) in unfinished {
        drop(sender);
        let answer = answer.await.expect("an answer").expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
    }
    assert_eq!(sandbox.upload("b", "more").await.status, StatusCode::OK);
}
