//! Bad luck from a seed: nodes and servers of the engine are killed and stopped while callers go on, and the checker of histories judges.

use crate::support::{Engine, Node};
use cellblock_cluster::history::{Acknowledged, History};
use cellblock_cluster::{RequestKey, SessionId};
use cellblock_test_support::Dice;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The lease of the nodes in seconds: longer than the engine needs to choose a leader.
const LEASE_SECONDS: u64 = 15;
/// How long a caller repeats a cell before that is a failure.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// How large a storm is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) sessions: usize,
    pub(crate) cells: usize,
    pub(crate) faults: usize,
}

struct World {
    engine: Mutex<Engine>,
    nodes: Mutex<Vec<Arc<Node>>>,
    history: Mutex<History>,
    repeated: AtomicUsize,
    slowest: Mutex<Duration>,
    is_over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets callers run cells while faults happen, and checks what they saw.
pub(crate) fn storm(seed: u64, size: Size) {
    let Some(engine) = Engine::start() else {
        return;
    };
    let dice = Dice::new(seed);
    let start = |name: &str| Arc::new(Node::start_with(&engine, "storm", name, LEASE_SECONDS, &[]));
    let nodes = ["a", "b", "c"].map(start).to_vec();
    let world = Arc::new(World {
        engine: Mutex::new(engine),
        nodes: Mutex::new(nodes),
        history: Mutex::default(),
        repeated: AtomicUsize::new(0),
        slowest: Mutex::default(),
        is_over: AtomicBool::new(false),
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let begun = Instant::now();
    let caused = runtime.block_on(async {
        let mut sessions = Vec::new();
        for number in 0..size.sessions {
            let node = Arc::clone(&lock(&world.nodes)[number % 3]);
            let session = node.open().await;
            node.run(&session, "keys = []").await;
            sessions.push(session);
        }
        let faults = {
            let (world, dice) = (Arc::clone(&world), dice.part(1));
            tokio::task::spawn_blocking(move || cause_faults(&world, size.faults, dice))
        };
        let callers = sessions.iter().zip(2..).map(|(session, part)| {
            let (world, session, dice) = (Arc::clone(&world), session.clone(), dice.part(part));
            tokio::spawn(async move { call_session(&world, &session, size.cells, dice).await })
        });
        for caller in futures_util::future::join_all(callers).await {
            caller.unwrap();
        }
        world.is_over.store(true, Ordering::SeqCst);
        let caused = faults.await.unwrap();
        for session in &sessions {
            let (_, value) =
                call(&world, session, "list(keys)", "the-end", &mut dice.part(0)).await;
            let list: Vec<String> = serde_json::from_str(&value.replace('\'', "\"")).unwrap();
            let list = list.into_iter().map(|key| RequestKey::new(key).unwrap());
            let session = SessionId::new(session).unwrap();
            lock(&world.history).lists.insert(session, list.collect());
        }
        caused
    });
    let history = lock(&world.history);
    eprintln!(
        "seed {seed}: {} cells, {caused} faults, {} requests repeated by callers, slowest cell {:?}, {:?} in all",
        history.acknowledged.len(),
        world.repeated.load(Ordering::SeqCst),
        *lock(&world.slowest),
        begun.elapsed(),
    );
    assert_eq!(history.acknowledged.len(), size.sessions * size.cells);
    assert_eq!(history.faults(), [], "seed {seed}");
    let listed: usize = history.lists.values().map(Vec::len).sum();
    assert_eq!(listed, size.sessions * size.cells, "seed {seed}");
}

async fn call_session(world: &World, session: &str, cells: usize, mut dice: Dice) {
    for cell in 0..cells {
        tokio::time::sleep(dice.pause(Duration::from_millis(400))).await;
        let key = format!("{session}-{cell}");
        let code = format!("keys.append('{key}'); len(keys)");
        let (took, value) = call(world, session, &code, &key, &mut dice).await;
        let mut slowest = lock(&world.slowest);
        *slowest = slowest.max(took);
        drop(slowest);
        lock(&world.history).acknowledged.push(Acknowledged {
            session: SessionId::new(session).unwrap(),
            key: RequestKey::new(key).unwrap(),
            length: value.parse().unwrap(),
        });
    }
}

/// Sends a cell to any node, again and again until one answers. Returns the time that it took, and the value.
async fn call(
    world: &World,
    session: &str,
    code: &str,
    key: &str,
    dice: &mut Dice,
) -> (Duration, String) {
    let path = format!("/v1/sessions/{session}/cells?wait=1");
    let begun = Instant::now();
    loop {
        let node = {
            let nodes = lock(&world.nodes);
            Arc::clone(dice.pick(&nodes))
        };
        let body = Some(json!({ "code": code }));
        let problem = match node.send("POST", &path, body, Some(key)).await {
            Ok((200, result)) => {
                let value = result["value"]["repr"].as_str();
                let value = value.unwrap_or_else(|| panic!("{session} {key}: {result}"));
                return (begun.elapsed(), value.to_owned());
            }
            Ok((status, answer)) => format!("{status} {answer}"),
            Err(error) => error.to_string(),
        };
        assert!(begun.elapsed() < MAX_WAIT, "{session} {key}: {problem}");
        world.repeated.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Causes faults one after the other, until there were enough or the callers are done. Returns how many there were.
fn cause_faults(world: &World, faults: usize, mut dice: Dice) -> usize {
    for number in 0..faults {
        std::thread::sleep(Duration::from_secs(2) + dice.pause(Duration::from_secs(4)));
        if world.is_over.load(Ordering::SeqCst) {
            return number;
        }
        let victim = dice.below(3);
        match dice.below(8) {
            0..=2 => kill_node(world, victim, number),
            3..=5 => {
                // Sometimes longer than its lease.
                let node = Arc::clone(&lock(&world.nodes)[victim]);
                node.signal("-STOP");
                std::thread::sleep(dice.pause(Duration::from_secs(LEASE_SECONDS + 8)));
                node.signal("-CONT");
            }
            6 => kill_servers(world, &[victim], dice.pause(Duration::from_secs(6))),
            _ => kill_servers(world, &[0, 1, 2], dice.pause(Duration::from_secs(3))),
        }
    }
    faults
}

fn kill_node(world: &World, victim: usize, number: usize) {
    let node = lock(&world.nodes).remove(victim);
    node.signal("-KILL");
    let engine = lock(&world.engine);
    let name = format!("r{number}");
    let next = Arc::new(Node::start_with(
        &engine,
        "storm",
        &name,
        LEASE_SECONDS,
        &[],
    ));
    lock(&world.nodes).push(next);
}

fn kill_servers(world: &World, victims: &[usize], pause: Duration) {
    let mut engine = lock(&world.engine);
    for victim in victims {
        let _ = engine.servers[*victim].kill();
        let _ = engine.servers[*victim].wait();
    }
    std::thread::sleep(pause);
    for victim in victims {
        engine.servers[*victim] = engine.start_server(*victim);
    }
}
