//! The service inside a sandbox: files and processes.

use super::{CODE, ENVD, Sandbox, client, envelope, open_server};
use crate::common::TestServer;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

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
