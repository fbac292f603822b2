//! A cluster of real processes on this machine: three servers of the engine, three nodes, real Python. Nodes are killed, stopped and
//! drained. Without `nats-server` these tests are skipped, and say so.
//!
//! `CELLBLOCK_LONG` adds a storm of faults, also on the servers of the engine. `CELLBLOCK_SEED` repeats one.
#![cfg(feature = "cluster")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are tests"
)]

mod bench;
mod evaluations;
#[path = "../it/fake_model.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests of the command use more of it"
)]
mod fake_model;
mod runs;
mod storm;
mod support;

use cellblock_test_support::{is_long, seed};
use serde_json::{Value, json};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use support::{Engine, LEASE, Node, cellblock, three_nodes};

/// One engine for all tests, and one test at a time: each has nodes of its own, and the machine may be small.
fn with_three_nodes(test: impl AsyncFnOnce(&Engine, Vec<Node>)) {
    with_nodes(&[], test);
}

/// The same, with nodes that are started with these arguments.
fn with_nodes(more: &[&str], test: impl AsyncFnOnce(&Engine, Vec<Node>)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(engine) = Engine::start() else {
        return;
    };
    let nodes = three_nodes(&engine, more);
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Runtime::new().unwrap());
    runtime.block_on(test(&engine, nodes));
}

/// The place of a node in the list, by its id.
fn place_of(nodes: &[Node], id: &str) -> usize {
    nodes.iter().position(|node| node.id == id).unwrap()
}

#[test]
fn a_session_is_the_same_through_every_node() {
    with_three_nodes(async |_, nodes| {
        let session = nodes[0].open().await;
        assert_eq!(nodes[0].run(&session, "x = 1; x").await, "1");
        assert_eq!(nodes[1].run(&session, "x += 1; x").await, "2");
        assert_eq!(nodes[2].run(&session, "x += 1; x").await, "3");
        // Streams of events come through every node too.
        for node in &nodes {
            let events = node.events(&session, "print('heard')").await;
            assert!(events.contains("heard"), "{events}");
            assert!(events.contains("event: result"), "{events}");
        }
        // And terminals, by WebSocket.
        let path = format!("/v1/sessions/{session}/processes");
        let process = json!({"argv": ["sh", "-c", "echo from the process"]});
        let process = nodes[0].good("POST", &path, Some(process)).await;
        let process = process["proc"].as_str().unwrap();
        for node in &nodes {
            let heard = node.attach(&format!("{path}/{process}/attach"), "from the process");
            assert!(heard.starts_with("HTTP/1.1 101 "), "{heard}");
        }
        let owners = [0, 1, 2].map(|number| nodes[number].node_of(&session));
        let [first, second, third] = owners;
        let owner = first.await;
        assert_eq!([second.await, third.await], [owner.clone(), owner]);
        let file = format!("/v1/sessions/{session}/files/note.txt");
        nodes[1]
            .run(&session, "open('note.txt', 'w').write('here')")
            .await;
        let (status, _) = nodes[2].send("GET", &file, None, None).await.unwrap();
        assert_eq!(status, 200);
        let title = json!({"title": "Renamed"});
        let path = format!("/v1/sessions/{session}");
        nodes[2].good("PATCH", &path, Some(title)).await;
        assert_eq!(nodes[0].good("GET", &path, None).await["title"], "Renamed");
        nodes[1].good("DELETE", &path, None).await;
        for node in &nodes {
            assert_eq!(node.good("GET", &path, None).await["state"], "closed");
        }
    });
}

#[test]
fn a_killed_node_loses_no_answered_cell() {
    with_three_nodes(async |_, mut nodes| {
        let (mut sessions, mut orders) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let session = nodes[0].open().await;
            nodes[0]
                .run(
                    &session,
                    "import random; seen = []; drawn = random.random()",
                )
                .await;
            // The order of a set of texts hangs on the seed of their hashes.
            let order = nodes[0].run(&session, "list(map(str, {str(n) for n in range(99)}))");
            orders.push((order.await, nodes[0].run(&session, "drawn").await));
            for number in 0..5 {
                nodes[number % 3]
                    .run(&session, "seen.append(len(seen))")
                    .await;
            }
            nodes[0]
                .run(&session, "open('kept.txt', 'w').write('contents')")
                .await;
            sessions.push(session);
        }
        // The node that has the first session goes; the requests come through another one.
        let owner = nodes[0].node_of(&sessions[0]).await;
        let victim = nodes.remove(place_of(&nodes, &owner));
        let long = format!("/v1/sessions/{}/cells?wait=1", sessions[0]);
        let code =
            json!({"code": "import time; time.sleep(2); seen.append('long'); seen.count('long')"});
        let running = nodes[0].send("POST", &long, Some(code), Some("the-long-cell"));
        let kill = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            victim.signal("-KILL");
        };
        // The cell that ran there runs again under its key, once.
        let (answered, ()) = tokio::join!(running, kill);
        let (status, result) = answered.unwrap();
        assert_eq!(
            (status, &result["value"]["repr"]),
            (200, &json!("1")),
            "{result}"
        );
        drop(victim);
        let begun = Instant::now();
        for (session, (order, drawn)) in sessions.iter().zip(&orders) {
            let again = nodes[1].run(session, "list(map(str, {str(n) for n in range(99)}))");
            assert_eq!(again.await, *order);
            assert_eq!(nodes[1].run(session, "drawn").await, *drawn);
            let seen = nodes[1]
                .run(session, "[n for n in seen if n != 'long']")
                .await;
            assert_eq!(seen, "[0, 1, 2, 3, 4]");
            let file = nodes[0].run(session, "open('kept.txt').read()").await;
            assert_eq!(file, "'contents'");
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
        // What was lost is told.
        let session = format!("/v1/sessions/{}", sessions[0]);
        let described = nodes[1].good("GET", &session, None).await;
        let left_out = &described["live"]["rebuilt"]["left_out"];
        assert_eq!(left_out[0]["fate"], "unfinished", "{described}");
    });
}

#[test]
fn a_stopped_node_serves_nothing_stale() {
    with_three_nodes(async |_, mut nodes| {
        let session = nodes[0].open().await;
        nodes[0].run(&session, "x = 'old'").await;
        let owner = nodes[0].node_of(&session).await;
        let stopped = nodes.remove(place_of(&nodes, &owner));
        // From now on it remembers that the session is its own.
        assert_eq!(stopped.run(&session, "x").await, "'old'");
        stopped.signal("-STOP");
        // Within its lease the others wait for it; then the session is theirs.
        assert_eq!(nodes[0].run(&session, "x = 'new'; x").await, "'new'");
        assert_ne!(nodes[1].node_of(&session).await, owner);
        let path = format!("/v1/sessions/{session}/vars/x");
        let read = async || {
            let (status, answer) = stopped.send("GET", &path, None, None).await.unwrap();
            let is_stale = status < 300 && !answer.to_string().contains("new");
            assert!(!is_stale, "{answer}");
        };
        // These lie there when it goes on, before it can know what has happened.
        let early = futures_util::future::join_all((0..20).map(|_| read()));
        let go_on = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            stopped.signal("-CONT");
        };
        tokio::join!(early, go_on);
        let end = Instant::now() + LEASE;
        while Instant::now() < end {
            read().await;
        }
        assert_eq!(stopped.run(&session, "x").await, "'new'");
    });
}

#[test]
fn a_drained_node_gives_its_sessions_away_without_a_failed_request() {
    with_three_nodes(async |engine, nodes| {
        let mut sessions = Vec::new();
        for _ in 0..6 {
            let session = nodes[0].open().await;
            nodes[0].run(&session, "n = 0").await;
            sessions.push(session);
        }
        let owner = nodes[0].node_of(&sessions[0]).await;
        let drained = place_of(&nodes, &owner);
        let through = &nodes[(drained + 1) % 3];
        let command = |arguments: &[&str]| {
            let mut command = cellblock();
            command.args(["nodes", "--cluster", &engine.urls()]);
            command.args(["--cluster-name", nodes[0].cluster.as_str()]);
            let output = command.args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let counted = async {
            let mut counts = vec![0; sessions.len()];
            let end = Instant::now() + Duration::from_secs(8);
            while Instant::now() < end {
                for (session, count) in sessions.iter().zip(&mut counts) {
                    *count += 1;
                    let value = through.run(session, "n += 1; n").await;
                    assert_eq!(value, count.to_string());
                }
            }
            counts
        };
        let drain = tokio::task::spawn_blocking({
            let (urls, cluster, owner) = (engine.urls(), nodes[0].cluster.clone(), owner.clone());
            move || {
                let mut command = cellblock();
                command.args(["nodes", "--cluster", &urls, "--cluster-name", &cluster]);
                command.args(["drain", &owner, "--wait"]).output().unwrap()
            }
        });
        let (counts, drain) = tokio::join!(counted, drain);
        assert!(drain.unwrap().status.success());
        assert!(counts.iter().all(|count| *count > 1));
        for session in &sessions {
            assert_ne!(through.node_of(session).await, owner);
        }
        let listed: Vec<Value> = serde_json::from_str(&command(&["--json"])).unwrap();
        let of = |listed: &[Value]| {
            let node = listed.iter().find(|node| node["node"] == owner.as_str());
            node.unwrap()["state"].as_str().unwrap().to_owned()
        };
        assert_eq!((listed.len(), of(&listed)), (3, "draining".to_owned()));
        command(&["uncordon", &owner]);
        let listed: Vec<Value> = serde_json::from_str(&command(&["--json"])).unwrap();
        assert_eq!(of(&listed), "ready");
    });
}

#[test]
fn only_a_node_speaks_for_a_user() {
    with_three_nodes(async |_, nodes| {
        let session = nodes[0].open().await;
        let path = format!("/v1/sessions/{session}");
        // The name alone counts for nothing, and a wrong secret is refused.
        let stranger = [("x-cellblock-user", "stranger")];
        assert_eq!(nodes[1].status_with(&path, &stranger).await, 200);
        let wrong = [
            ("x-cellblock-user", "stranger"),
            ("x-cellblock-peer", "guess"),
        ];
        assert_eq!(nodes[1].status_with(&path, &wrong).await, 401);
        let (_, list) = nodes[2]
            .send("GET", "/v1/sessions", None, None)
            .await
            .unwrap();
        assert!(!list.to_string().contains("secret"), "{list}");
    });
}

#[test]
fn one_key_through_all_nodes_runs_once() {
    with_three_nodes(async |_, nodes| {
        let session = nodes[0].open().await;
        nodes[0].run(&session, "count = 0").await;
        let path = format!("/v1/sessions/{session}/cells?wait=1");
        let requests = (0..30).map(|number| {
            let code = json!({"code": "import time; time.sleep(0.2); count += 1; count"});
            nodes[number % 3].send("POST", &path, Some(code), Some("the-key"))
        });
        for answered in futures_util::future::join_all(requests).await {
            let (status, result) = answered.unwrap();
            assert_eq!(
                (status, &result["value"]["repr"]),
                (200, &json!("1")),
                "{result}"
            );
        }
        assert_eq!(nodes[1].run(&session, "count").await, "1");
    });
}

#[test]
fn a_storm_of_faults_loses_nothing() {
    if !is_long() {
        return;
    }
    let size = storm::Size {
        sessions: 12,
        cells: 120,
        faults: 20,
    };
    storm::storm(seed("a_storm_of_faults_loses_nothing"), size);
}
