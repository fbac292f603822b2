//! Sandboxes from their creation to their end: who reaches them, pauses, snapshots and metrics.

use super::{CODE, ENVD, Sandbox, client, open_server};
use crate::common::TestServer;
use axum::http::{Method, StatusCode};
use cellblock_server::Authentication;
use serde_json::json;
use std::time::Duration;

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
