//! Nodes of a cluster in one process, over an engine in memory.

use crate::common::{Caller, TestServer, host};
use crate::runs::scripted;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use cellblock_cluster::engine::{
    Blobs, Digest, Engine, EngineError, NodeState, SessionEntry, SessionState,
};
use cellblock_cluster::{
    BoxFuture, NodeId, RecordBody, Request, RunQueue, Runtime, SessionId, TokioRuntime, embedded,
};
use cellblock_host::Host;
use cellblock_server::{Authentication, ClusterOptions, Server, ServerOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A node that serves until it is dropped.
pub(crate) struct Node {
    pub(crate) server: TestServer,
    id: NodeId,
    _stop: DropGuard,
}

impl Node {
    pub(crate) async fn start(
        cluster: &Cluster,
        name: &str,
        change: impl FnOnce(&mut ServerOptions, &mut ClusterOptions),
    ) -> Node {
        let data = tempfile::tempdir().expect("a directory");
        let host = host(data.path());
        Node::start_with(cluster, name, data, host, change).await
    }

    pub(crate) async fn start_with(
        cluster: &Cluster,
        name: &str,
        data: tempfile::TempDir,
        host: Host,
        change: impl FnOnce(&mut ServerOptions, &mut ClusterOptions),
    ) -> Node {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (engine, clock) = (cluster.engine.clone(), cluster.clock.clone());
        let mut options = ServerOptions::new(data.path().join("data"));
        options.authentication = Authentication::Off;
        let mut node = ClusterOptions::new(engine, clock, name, url).expect("a name");
        change(&mut options, &mut node);
        let id = node.node.clone();
        options.cluster = Some(node);
        let server = Server::open(host, options).await;
        let server = server.expect("a server");
        let stop = CancellationToken::new();
        let (serving, token) = (server.clone(), stop.clone());
        tokio::spawn(async move { serving.serve(listener, token).await });
        let node = Node {
            server: TestServer {
                router: server.router(),
                server,
                data,
            },
            id,
            _stop: stop.drop_guard(),
        };
        // From its first heartbeat on it takes sessions.
        loop {
            let listed = cluster.engine.members.list().await.expect("a list");
            if listed.iter().any(|other| other.node == node.id) {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn caller(&self) -> Caller<'_> {
        self.server.anyone().with("x-cellblock", "1")
    }
}

pub(crate) struct Cluster {
    pub(crate) engine: Engine,
    clock: TokioRuntime,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        let clock = TokioRuntime::new();
        let runtime: Arc<dyn Runtime> = Arc::new(clock.clone());
        let lease = Duration::from_secs(60);
        Cluster {
            engine: embedded::in_memory(&runtime, lease),
            clock,
        }
    }

    async fn set_state(&self, node: &NodeId, state: NodeState) {
        let request = serde_json::to_vec(&Request::SetState { state }).expect("JSON");
        let time = Duration::from_secs(10);
        let asked = self.engine.router.request(node, request.into(), time).await;
        asked.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_does_not_wake_a_session_that_sleeps() {
    let cluster = Cluster::new();
    let node = Node::start(&cluster, "a", |_, _| {}).await;
    let caller = node.caller();
    let session = caller.open().await;
    caller.run(&session, "x = 1").await;
    cluster.set_state(&node.id, NodeState::Draining).await;
    let id = SessionId::new(session.as_str()).expect("an id");
    let state = async || {
        let placed = cluster.engine.directory.get(&id).await;
        placed.expect("an engine").expect("a session").entry.state
    };
    while state().await != SessionState::Asleep {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.set_state(&node.id, NodeState::Ready).await;
    let path = format!("/v1/sessions/{session}");
    let described = caller.get(&path).await.json();
    assert_eq!(described["state"], "asleep", "{described}");
    assert_eq!(state().await, SessionState::Asleep);
    let result = caller.run(&session, "x").await;
    assert_eq!(result["value"]["repr"], "1", "{result}");
    assert_eq!(caller.get(&path).await.json()["state"], "live");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_sees_the_nodes_and_drains_one() {
    let cluster = Cluster::new();
    let first = Node::start(&cluster, "a", |_, _| {}).await;
    let second = Node::start(&cluster, "b", |_, _| {}).await;
    let caller = first.caller();
    let session = caller.open().await;
    caller.run(&session, "x = 1").await;
    let seen = caller.get("/v1/nodes").await.json();
    assert_eq!(seen["this_node"], first.id.as_str(), "{seen}");
    let names = seen["nodes"].as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|node| node["node"].as_str()).collect();
    assert_eq!(names, [Some(first.id.as_str()), Some(second.id.as_str())]);
    assert_eq!(seen["sessions"]["live"], 1, "{seen}");
    assert!(!seen.to_string().contains("secret"), "{seen}");
    // The node that has the session gives it away, and the list says so.
    let id = SessionId::new(session.as_str()).expect("an id");
    let owner = async || {
        let placed = cluster.engine.directory.get(&id).await;
        placed.expect("an engine").expect("a session").entry
    };
    let before = owner().await.node;
    let path = format!("/v1/nodes/{before}");
    let drained = caller
        .send(Method::PATCH, &path, json!({"state": "draining"}))
        .await;
    assert_eq!(drained.status, StatusCode::OK, "{}", drained.text());
    while owner().await.node == before && owner().await.state == SessionState::Live {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let node = loop {
        let seen = caller.get("/v1/nodes").await.json();
        let nodes = seen["nodes"].as_array().expect("a list").clone();
        let mut nodes = nodes.into_iter();
        let node = nodes.find(|node| node["node"] == before.as_str());
        let node = node.expect("it is still there");
        if node["moves"]["left"] == 1 {
            break node;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(node["state"], "draining");
    let result = caller.run(&session, "x").await;
    assert_eq!(result["value"]["repr"], "1", "{result}");
    // A node that is not there, and a state that is none.
    let missing = caller
        .send(Method::PATCH, "/v1/nodes/none", json!({"state": "ready"}))
        .await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let wrong = caller
        .send(Method::PATCH, &path, json!({"state": "gone"}))
        .await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_alone_has_no_nodes() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let caller = server.anyone().with("x-cellblock", "1");
    let answer = caller.get("/v1/nodes").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.json()["code"], "no_cluster");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_node_was_lost_while_it_opened_the_session_opens_another() {
    let cluster = Cluster::new();
    let replies = ["```python\nx = 6 * 7; x\n```", "It is 42."];
    let gateway = Node::start(&cluster, "a", |options, node| {
        options.agent = Some(scripted(&replies));
        node.run_slots = 0;
    });
    let gateway = gateway.await;
    let question = "What is 6 times 7?";
    let caller = gateway.caller();
    let asked = caller.post("/v1/runs", json!({"text": question})).await;
    let asked = asked.json();
    let path = format!("/v1/runs/{}", asked["id"].as_str().expect("an id"));
    // A node begins the run and claims a session for it. Then it is lost.
    let engine = &cluster.engine;
    let lost = NodeId::new("lost").expect("a name");
    let queue = RunQueue::new(engine.clone(), Arc::new(cluster.clock.clone()));
    let taken = queue.take(&lost, 1, |_| false).await.expect("an engine");
    let mut taken = taken.expect("a run");
    let begun =
        json!({"event": "begun", "question": question, "model": "scripted", "format": "markdown"});
    let event = json!({ "run_event": begun });
    let noted = taken.journal.append(RecordBody::Event { event }).await;
    noted.expect("a record");
    let session = SessionId::new("s-lost").expect("an id");
    let entry = SessionEntry {
        node: lost,
        state: SessionState::Live,
        about: json!({"user": taken.run.ticket.user, "chat": asked["chat"], "created_at": asked["created_at"]}),
    };
    let claimed = engine.directory.claim(&session, None, &entry).await;
    claimed.expect("a claim");
    let _worker = Node::start(&cluster, "b", |options, _| {
        options.agent = Some(scripted(&replies));
    })
    .await;
    let told = ended(&gateway, &path).await;
    assert_eq!(told["answer"], "It is 42.", "{told}");
    assert_ne!(told["session"], session.as_str(), "{told}");
    let opened = told["session"].as_str().expect("a session");
    let result = gateway.caller().run(opened, "x").await;
    assert_eq!(result["value"]["repr"], "42", "{result}");
    let placed = engine.directory.get(&session).await.expect("an engine");
    assert_eq!(placed.expect("an entry").entry.state, SessionState::Closed);
}

/// Blobs that cannot be read a few times, as in a network that comes back.
struct FailingBlobs {
    inner: Arc<dyn Blobs>,
    failures: AtomicU32,
}

impl Blobs for FailingBlobs {
    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Digest, EngineError>> {
        self.inner.put(bytes)
    }

    fn get<'a>(&'a self, digest: &'a Digest) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        let fewer = |left: u32| left.checked_sub(1);
        let counted = &self.failures;
        if counted.fetch_update(SeqCst, SeqCst, fewer).is_ok() {
            return Box::pin(async { Err(EngineError("no answer".to_owned())) });
        }
        self.inner.get(digest)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Digest>, EngineError>> {
        self.inner.list()
    }

    fn remove<'a>(
        &'a self,
        digest: &'a Digest,
        unused: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.inner.remove(digest, unused)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_question_cannot_be_read_for_a_while_waits_for_it() {
    let cluster = Cluster::new();
    let gateway = Node::start(&cluster, "a", |options, node| {
        options.agent = Some(scripted(&["It is 42."]));
        node.run_slots = 0;
    });
    let gateway = gateway.await;
    let failing = Arc::new(FailingBlobs {
        inner: Arc::clone(&cluster.engine.blobs),
        failures: AtomicU32::new(3),
    });
    let blobs = Arc::clone(&failing);
    let _worker = Node::start(&cluster, "b", |options, node| {
        options.agent = Some(scripted(&["It is 42."]));
        node.engine.blobs = blobs;
    })
    .await;
    // Too long for the journal, so it is a blob.
    let text = format!("What is 6 times 7? {}", "Think. ".repeat(50_000));
    let asked = gateway
        .caller()
        .post("/v1/runs", json!({"text": text}))
        .await;
    let asked = asked.json();
    let path = format!("/v1/runs/{}", asked["id"].as_str().expect("an id"));
    let told = ended(&gateway, &path).await;
    assert_eq!(told["answer"], "It is 42.", "{told}");
    assert_eq!(failing.failures.load(SeqCst), 0);
}

/// Asks until the run has ended.
pub(crate) async fn ended(node: &Node, path: &str) -> Value {
    for _ in 0..1200 {
        let told = node.caller().get(path).await.json();
        if told["status"] != "waiting" && told["status"] != "running" {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the run does not end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_queued_once_for_each_key_and_told_alike_by_all_nodes() {
    let cluster = Cluster::new();
    let replies = [
        "```python\nimport time; time.sleep(1); x = 6 * 7; x\n```",
        "It is 42.",
    ];
    // One run at a time, on the first node.
    let first = Node::start(&cluster, "a", |options, node| {
        options.agent = Some(scripted(&replies));
        node.run_slots = 1;
    });
    let first = first.await;
    let second = Node::start(&cluster, "b", |options, node| {
        options.agent = Some(scripted(&replies));
        node.run_slots = 0;
    });
    let second = second.await;
    let submit = async |node: &Node, text: &str, key: &str| {
        let caller = node.caller().with("idempotency-key", key);
        caller.post("/v1/runs", json!({ "text": text })).await
    };
    let asked = submit(&second, "What is 6 times 7?", "k").await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.text());
    let id = asked.json()["id"].as_str().expect("an id").to_owned();
    let again = submit(&first, "What is 6 times 7?", "k").await.json();
    assert_eq!(again["id"], id.as_str(), "{again}");
    let other = submit(&first, "What is 6 times 8?", "k").await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.text());
    // A second run waits, and is cancelled through the node that has no part in it.
    let waiting = submit(&second, "And then?", "later").await.json();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let path = format!("/v1/runs/{}", waiting["id"].as_str().expect("an id"));
    let told = first.caller().get(&path).await.json();
    assert!(told["wait"]["ahead"].is_u64(), "{told}");
    let cancelled = second
        .caller()
        .post(&format!("{path}/cancel"), json!({}))
        .await;
    assert_eq!(cancelled.status, StatusCode::OK, "{}", cancelled.text());
    let path = format!("/v1/runs/{id}");
    let told = ended(&second, &path).await;
    assert_eq!(told["answer"], "It is 42.", "{told}");
    assert_eq!(ended(&first, &path).await["answer"], "It is 42.");
    let record = second.caller().get(&format!("{path}/record")).await.json();
    let events = record["events"].as_array().expect("events").clone();
    assert!(
        events
            .iter()
            .any(|event| event["event"]["event"] == "answer")
    );
    let late = second
        .caller()
        .post(&format!("{path}/cancel"), json!({}))
        .await;
    assert_eq!(late.status, StatusCode::CONFLICT, "{}", late.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cancelled_before_it_began_is_told_by_the_node_that_ended_it() {
    let cluster = Cluster::new();
    let node = Node::start(&cluster, "a", |options, node| {
        options.agent = Some(scripted(&["It is 42."]));
        node.run_slots = 0;
    })
    .await;
    let caller = node.caller();
    let asked = caller
        .post("/v1/runs", json!({"text": "What is it?"}))
        .await;
    let id = asked.json()["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/runs/{id}");
    caller.post(&format!("{path}/cancel"), json!({})).await;
    let told = caller.get(&path).await.json();
    assert_eq!(told["status"], "cancelled", "{told}");
    let record = caller.get(&format!("{path}/record")).await.json();
    assert_eq!(record["outcome"]["status"], "cancelled", "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_with_the_files_of_its_question() {
    let cluster = Cluster::new();
    let code = "```python\nprint(sum(map(int, open('data/n.txt').read().split())))\n```";
    let node = Node::start(&cluster, "a", |options, _| {
        options.agent = Some(scripted(&[code, "It is 6."]));
    })
    .await;
    let caller = node.caller();
    let file = |base64: &str| json!([{"path": "data/n.txt", "base64": base64}]);
    let question = json!({"text": "What is the sum?", "files": file("MSAyIDM=")});
    let asked = caller.post("/v1/runs", question).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.text());
    let path = format!("/v1/runs/{}", asked.json()["id"].as_str().expect("an id"));
    let told = ended(&node, &path).await;
    assert_eq!(told["answer"], "It is 6.", "{told}");
    let record = caller.get(&format!("{path}/record")).await.json();
    let printed = &record["outcome"]["steps"][0]["actions"][0]["result"]["stdout"];
    assert_eq!(printed, "6\n", "{record}");
    // What is not base64 is refused before it is queued, and a chat that is there takes no files.
    let wrong = json!({"text": "What is the sum?", "files": file("?")});
    let wrong = caller.post("/v1/runs", wrong).await;
    assert_eq!(
        wrong.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{}",
        wrong.text()
    );
    let chat = caller.post("/v1/chats", json!({})).await.json();
    let messages = format!("/v1/chats/{}/messages", chat["id"].as_str().expect("an id"));
    let in_chat = json!({"text": "What is the sum?", "files": file("MSAyIDM=")});
    let in_chat = caller.post(&messages, in_chat).await;
    assert_eq!(
        in_chat.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{}",
        in_chat.text()
    );
}
