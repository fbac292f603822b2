//! The checks themselves. Each has names of its own, because engines may outlive a test.

mod moves;
mod retention;
mod runs;

pub(crate) use moves::*;
pub(crate) use retention::*;
pub(crate) use runs::*;

use crate::{SHORT_LEASE, tokio_runtime};
use bytes::Bytes;
use cellblock_cluster::engine::{
    AppendError, ClaimError, Delivery, Engine, Epoch, MAX_RECORD_BYTES, Moves, NodeRecord,
    NodeState, RequestError, Sequence, SessionEntry, SessionState,
};
use cellblock_cluster::{
    BoxFuture, CellReply, Gateway, Interpreter, Interpreters, Node, NodeId, NodeOptions, Owner,
    OwnerServices, RequestKey, SessionId,
};
use cellblock_test_support::MINUTE;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_millis(300);

pub(crate) async fn of_several_claims_of_the_same_entry_one_succeeds(engine: Engine) {
    let session = new_session();
    let entries: Vec<_> = (0..8).map(|n| entry(&format!("n{n}"))).collect();
    for _ in 0..2 {
        // First as a new session, then as one that has an owner.
        let placed = engine.directory.get(&session).await.unwrap();
        let seen = placed.map(|placed| placed.epoch);
        let claims = entries
            .iter()
            .map(|entry| engine.directory.claim(&session, seen, entry));
        let outcomes = join_all(claims).await;
        let won: Vec<_> = (0..8).filter(|n| outcomes[*n].is_ok()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        let placed = engine.directory.get(&session).await.unwrap().unwrap();
        assert_eq!(placed.entry, entries[won[0]]);
        assert_eq!(Ok(placed.epoch), outcomes[won[0]]);
    }
}

pub(crate) async fn a_claim_of_an_entry_that_changed_is_lost(engine: Engine) {
    let (session, directory) = (new_session(), &engine.directory);
    let first = directory.claim(&session, None, &entry("a")).await.unwrap();
    let second = directory
        .claim(&session, Some(first), &entry("b"))
        .await
        .unwrap();
    let stale = directory.claim(&session, Some(first), &entry("c")).await;
    assert_eq!(stale, Err(ClaimError::Lost));
    let again = directory.claim(&session, None, &entry("c")).await;
    assert_eq!(again, Err(ClaimError::Lost));
    let placed = directory.get(&session).await.unwrap().unwrap();
    assert_eq!((placed.epoch, &placed.entry), (second, &entry("b")));
    // A list may be behind for a moment.
    let is_listed = async || {
        let listed = directory.list().await.unwrap();
        listed.contains(&(session.clone(), placed.clone()))
    };
    eventually("the session is listed", is_listed).await;
    assert_eq!(directory.get(&new_session()).await.unwrap(), None);
}

pub(crate) async fn epochs_grow_over_all_sessions(engine: Engine) {
    let mut newest = Epoch(0);
    for _ in 0..5 {
        let claimed = engine
            .directory
            .claim(&new_session(), None, &entry("a"))
            .await;
        let epoch = claimed.unwrap();
        assert!(epoch > newest);
        newest = epoch;
    }
}

pub(crate) async fn an_append_names_the_last_record_or_is_refused(engine: Engine) {
    let (session, journals) = (new_session(), &engine.journals);
    assert_eq!(journals.last(&session).await.unwrap(), None);
    let first = journals
        .append(&session, Sequence::START, "\"a\"".into())
        .await
        .unwrap();
    for wrong in [Sequence::START, Sequence(first.0 + 1)] {
        let refused = journals.append(&session, wrong, "\"x\"".into()).await;
        assert_eq!(refused, Err(AppendError::Conflict));
    }
    let second = journals
        .append(&session, first, "\"b\"".into())
        .await
        .unwrap();
    assert!(second > first);
    let last = journals.last(&session).await.unwrap().unwrap();
    assert_eq!((last.sequence, &last.record[..]), (second, &b"\"b\""[..]));
    // Another journal has nothing to do with it.
    let other = journals
        .append(&new_session(), Sequence::START, "\"c\"".into())
        .await;
    assert!(other.is_ok());
}

pub(crate) async fn of_many_appends_at_the_same_place_one_succeeds(engine: Engine) {
    let session = new_session();
    let mut last = Sequence::START;
    for _ in 0..5 {
        let appends = (0..8).map(|n| {
            engine
                .journals
                .append(&session, last, format!("{n}").into())
        });
        let outcomes = join_all(appends).await;
        let mut won = outcomes.iter().filter_map(|outcome| outcome.clone().ok());
        last = won.next().unwrap();
        assert_eq!(won.next(), None, "{outcomes:?}");
    }
    assert_eq!(engine.journals.read(&session, last).await.unwrap().len(), 5);
}

pub(crate) async fn a_journal_gives_its_records_back_byte_for_byte(engine: Engine) {
    let session = new_session();
    let records: Vec<Bytes> = ["{\"b\": 1,  \"a\":\"é\\n\"}", "[1.50]", "\"x\"", "{}"]
        .map(Bytes::from)
        .to_vec();
    let mut last = Sequence::START;
    let mut places = Vec::new();
    for record in &records {
        last = engine
            .journals
            .append(&session, last, record.clone())
            .await
            .unwrap();
        places.push(last);
    }
    let read = engine.journals.read(&session, last).await.unwrap();
    let read: Vec<_> = read
        .into_iter()
        .map(|stored| (stored.sequence, stored.record))
        .collect();
    let all: Vec<_> = places.iter().copied().zip(records).collect();
    assert_eq!(read, all);
    let half = engine.journals.read(&session, places[1]).await.unwrap();
    assert_eq!(half.len(), 2);
}

pub(crate) async fn a_record_that_is_too_long_is_refused(engine: Engine) {
    let long = Bytes::from(vec![b'x'; MAX_RECORD_BYTES + 1]);
    let refused = engine
        .journals
        .append(&new_session(), Sequence::START, long)
        .await;
    let bytes = MAX_RECORD_BYTES + 1;
    assert_eq!(refused, Err(AppendError::TooLarge { bytes }));
}

pub(crate) async fn a_request_reaches_its_node_and_its_reply_comes_back(engine: Engine) {
    let node = new_node();
    let mut requests = engine.router.serve(&node).await.unwrap();
    let serve = async {
        let incoming = requests.recv().await.unwrap();
        let reply = format!("{} back", String::from_utf8_lossy(&incoming.message));
        incoming.reply(reply.into());
    };
    let ask = engine.router.request(&node, "there".into(), MINUTE);
    let (reply, ()) = futures_util::future::join(ask, serve).await;
    assert_eq!(reply.unwrap(), "there back");
}

pub(crate) async fn a_request_to_a_node_that_does_not_exist_has_no_responder(engine: Engine) {
    let node = new_node();
    let gone = engine.router.request(&node, "x".into(), MINUTE).await;
    assert_eq!(gone, Err(RequestError::NoResponder));
    // Also after the node has ended. The engine may need a moment to see that.
    drop(engine.router.serve(&node).await.unwrap());
    let is_gone = async || {
        let asked = engine.router.request(&node, "x".into(), MINUTE / 60).await;
        asked == Err(RequestError::NoResponder)
    };
    eventually("the node has ended", is_gone).await;
}

pub(crate) async fn a_request_that_is_not_replied_to_ends_in_silence(engine: Engine) {
    let node = new_node();
    let _requests = engine.router.serve(&node).await.unwrap();
    let time = Duration::from_millis(200);
    let silent = engine.router.request(&node, "x".into(), time).await;
    assert_eq!(silent, Err(RequestError::Silent));
}

pub(crate) async fn a_node_is_listed_until_its_lease_lapses(engine: Engine) {
    let node = new_node();
    // On a busy machine the lease may lapse before the first look.
    let is_found = async || {
        let renewed = engine.members.renew(&record(&node)).await;
        assert_eq!(renewed.unwrap(), SHORT_LEASE);
        let listed = engine.members.list().await.unwrap();
        listed.contains(&record(&node))
    };
    eventually("the node is listed", is_found).await;
    eventually("the lease lapses", async || {
        !is_listed(&engine, &node).await
    })
    .await;
}

pub(crate) async fn a_node_whose_heartbeats_do_not_come_is_silent(engine: Engine) {
    let (silent, heard) = (new_node(), new_node());
    let record_of = |node: &NodeId| NodeRecord {
        heartbeat_ms: 100,
        ..record(node)
    };
    engine.members.renew(&record_of(&silent)).await.unwrap();
    eventually("one is silent and the other is not", async || {
        engine.members.renew(&record_of(&heard)).await.unwrap();
        let nodes = engine.members.list().await.unwrap();
        let is_silent = |node: &NodeId| {
            let found = nodes.iter().find(|record| record.node == *node);
            found.map(NodeRecord::is_silent)
        };
        is_silent(&silent) == Some(true) && is_silent(&heard) == Some(false)
    })
    .await;
}

pub(crate) async fn a_node_that_leaves_is_not_listed(engine: Engine) {
    let node = new_node();
    engine.members.renew(&record(&node)).await.unwrap();
    engine.members.leave(&node).await.unwrap();
    eventually("the node has left", async || {
        !is_listed(&engine, &node).await
    })
    .await;
}

pub(crate) async fn events_come_in_order_and_from_any_place_on(engine: Engine) {
    let (session, events) = (new_session(), &engine.events);
    for number in 0..3 {
        events
            .publish(&session, format!("{number}").into())
            .await
            .unwrap();
    }
    let mut reader = events.follow(&session, Sequence::START).await.unwrap();
    let mut places = Vec::new();
    for number in 0..3 {
        match reader.next().await.unwrap() {
            Delivery::Event(place, event) => {
                assert_eq!(event, format!("{number}"));
                places.push(place);
            }
            Delivery::Gap => panic!("no event is missing"),
        }
    }
    // A reader that comes back goes on where it was, and gets what comes later.
    let mut reader = events.follow(&session, places[1]).await.unwrap();
    events.publish(&session, "later".into()).await.unwrap();
    let expected = Delivery::Event(places[2], "2".into());
    assert_eq!(reader.next().await.unwrap(), expected);
    let later = reader.next().await.unwrap();
    assert!(matches!(later, Delivery::Event(_, event) if event == "later"));
}

pub(crate) async fn two_readers_get_all_events(engine: Engine) {
    let (session, events) = (new_session(), &engine.events);
    let mut readers = [
        events.follow(&session, Sequence::START).await.unwrap(),
        events.follow(&session, Sequence::START).await.unwrap(),
    ];
    for number in 0..100 {
        events
            .publish(&session, format!("{number}").into())
            .await
            .unwrap();
    }
    for reader in &mut readers {
        for number in 0..100 {
            let delivery = reader.next().await.unwrap();
            let is_next =
                matches!(&delivery, Delivery::Event(_, event) if *event == format!("{number}"));
            assert!(is_next, "{number}: {delivery:?}");
        }
    }
}

pub(crate) async fn blobs_are_stored_under_their_digest(engine: Engine) {
    let bytes = Bytes::from(vec![7; 300_000]);
    let digest = engine.blobs.put(bytes.clone()).await.unwrap();
    assert_eq!(engine.blobs.put(bytes.clone()).await.unwrap(), digest);
    assert_eq!(engine.blobs.get(&digest).await.unwrap(), Some(bytes));
    let other = cellblock_cluster::engine::Digest::of(b"not stored");
    assert_eq!(engine.blobs.get(&other).await.unwrap(), None);
    let long = vec![0; cellblock_cluster::engine::MAX_BLOB_BYTES + 1];
    assert!(engine.blobs.put(long.into()).await.is_err());
}

pub(crate) async fn a_key_that_is_sent_a_hundred_times_runs_once(engine: Engine) {
    let session = new_session();
    let (_nodes, starts) = start_nodes(&engine, 2).await;
    let gateways = [1, 2, 3].map(|_| Gateway::new(engine.clone(), tokio_runtime()));
    call(&gateways[0], &session, "first").await;
    let calls = (0..100).map(|n| call(&gateways[n % 3], &session, "same"));
    for answer in join_all(calls).await {
        assert_eq!(answer.result, json!(2));
    }
    assert_eq!(starts.load(Ordering::Relaxed), 2);
}

pub(crate) async fn a_changed_journal_is_not_replayed(engine: Engine) {
    let (session, surroundings) = (new_session(), surroundings(&engine));
    let mut owner = Owner::adopt(surroundings.clone(), &ANY_NODE, &session, None, Value::Null)
        .await
        .unwrap();
    owner.run(&key("a"), &Value::Null).await.unwrap();
    let last = engine.journals.last(&session).await.unwrap().unwrap();
    // A record with the right number that does not name the record before it.
    let forged = String::from_utf8(last.record.to_vec()).unwrap();
    let forged = forged.replace("\"n\":1", "\"n\":2");
    let appended = engine
        .journals
        .append(&session, last.sequence, forged.into())
        .await;
    appended.unwrap();
    let refused = Owner::adopt(
        surroundings,
        &ANY_NODE,
        &session,
        Some(owner.epoch()),
        Value::Null,
    )
    .await;
    let message = refused.err().unwrap().to_string();
    assert_eq!(
        message,
        "record 2 of the journal does not follow from the record before it: one of them was changed"
    );
}

static ANY_NODE: std::sync::LazyLock<NodeId> = std::sync::LazyLock::new(new_node);

/// A name that no other test has, also in another process that uses the same engine.
fn unique(prefix: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{number}", std::process::id())
}

fn new_session() -> SessionId {
    SessionId::new(unique("s")).unwrap()
}

fn new_node() -> NodeId {
    NodeId::new(unique("n")).unwrap()
}

fn key(text: &str) -> RequestKey {
    RequestKey::new(text).unwrap()
}

fn entry(node: &str) -> SessionEntry {
    SessionEntry {
        node: NodeId::new(node).unwrap(),
        state: SessionState::Live,
        about: Value::Null,
    }
}

fn record(node: &NodeId) -> NodeRecord {
    NodeRecord {
        node: node.clone(),
        state: NodeState::Ready,
        version: "1".into(),
        sessions: 0,
        capacity: 100,
        free_memory: 1 << 30,
        environments: vec!["lock".into()],
        walls: "full".into(),
        address: String::new(),
        secret: String::new(),
        load: 0.0,
        run_slots: 0,
        run_ms: 0,
        heartbeat_ms: 0,
        moves: Moves::default(),
        silent_ms: 0,
    }
}

async fn is_listed(engine: &Engine, node: &NodeId) -> bool {
    let listed = engine.members.list().await.unwrap();
    listed.iter().any(|record| record.node == *node)
}

async fn eventually(what: &str, is_true: impl AsyncFn() -> bool) {
    let begin = std::time::Instant::now();
    while !is_true().await {
        let time = cellblock_test_support::under_load(MINUTE);
        assert!(begin.elapsed() < time, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn call(gateway: &Gateway, session: &SessionId, text: &str) -> CellReply {
    let answered = gateway
        .call(session, &key(text), &Value::Null, MINUTE * 2)
        .await;
    answered.unwrap()
}

fn surroundings(engine: &Engine) -> OwnerServices {
    OwnerServices {
        engine: engine.clone(),
        runtime: tokio_runtime(),
        interpreters: Arc::new(Counters::default()),
    }
}

/// Starts nodes and waits until they have their leases. Returns them with the number of cells that they began.
async fn start_nodes(engine: &Engine, count: usize) -> (Vec<Arc<Node>>, Arc<AtomicU64>) {
    let interpreters = Arc::new(Counters::default());
    let starts = Arc::clone(&interpreters.starts);
    let mut nodes = Vec::new();
    for _ in 0..count {
        let surroundings = OwnerServices {
            interpreters: Arc::<Counters>::clone(&interpreters),
            ..surroundings(engine)
        };
        let options = NodeOptions {
            record: record(&new_node()),
            heartbeat: HEARTBEAT,
            measure: None,
        };
        let node = Node::new(surroundings, options);
        let serving = Arc::clone(&node);
        tokio::spawn(async move { serving.serve().await });
        eventually("the node has its lease", async || node.has_lease()).await;
        nodes.push(node);
    }
    (nodes, starts)
}

/// Starts interpreters that count their cells.
#[derive(Default)]
struct Counters {
    starts: Arc<AtomicU64>,
}

struct Counter {
    starts: Arc<AtomicU64>,
    cells: u64,
}

impl Interpreters for Counters {
    fn open<'a>(
        &'a self,
        _session: &'a SessionId,
        _about: &'a Value,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, String>> {
        Box::pin(async move {
            let counter = Counter {
                starts: Arc::clone(&self.starts),
                cells: 0,
            };
            Ok(Box::new(counter) as Box<dyn Interpreter>)
        })
    }
}

impl Interpreter for Counter {
    fn run<'a>(&'a mut self, _key: &'a RequestKey, _cell: &'a Value) -> BoxFuture<'a, Value> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.cells += 1;
            json!(self.cells)
        })
    }

    fn replay<'a>(
        &'a mut self,
        _key: &'a RequestKey,
        _cell: &'a Value,
        recorded: &'a Value,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.cells += 1;
        let is_same = *recorded == json!(self.cells);
        Box::pin(async move { is_same.then_some(()).ok_or_else(|| "another number".into()) })
    }
}
