//! Three nodes, many sessions with a caller each, and faults.

use crate::executor::{Executor, Group, OUTSIDE};
use crate::network::{Mutant, Network};
use cellblock_cluster::engine::{Moves, NodeRecord, NodeState, Sequence};
use cellblock_cluster::history::{Acknowledged, History, Started};
use cellblock_cluster::{
    BoxFuture, CallError, Chain, Gateway, Interpreter, Interpreters, Node, NodeId, NodeOptions,
    OwnerServices, RecordBody, RequestKey, Runtime, SessionId, embedded,
};
use cellblock_test_support::Dice;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);
const NODES: u32 = 3;
const GATEWAYS: usize = 3;
const CALL_TIME: Duration = Duration::from_secs(60);
const MAX_SIMULATED_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How large a simulation is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) sessions: usize,
    pub(crate) cells: usize,
    pub(crate) faults: usize,
}

/// What came of a simulation.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) history: History,
    /// Cells that were given up because their session cannot go on.
    pub(crate) failed: usize,
    /// Journals whose chain of hashes is broken.
    pub(crate) damaged: usize,
    pub(crate) adoptions: u32,
    pub(crate) replay_differences: u32,
    pub(crate) time: Duration,
}

/// What the world and its interpreters share.
#[derive(Clone)]
struct Shared {
    network: Arc<Network>,
    history: Arc<Mutex<History>>,
    adoptions: Arc<AtomicU32>,
    differences: Arc<AtomicU32>,
}

struct World {
    executor: Executor,
    shared: Shared,
    runtime: Arc<dyn Runtime>,
    failed: Arc<AtomicUsize>,
    next_group: AtomicU32,
}

/// Runs a simulation to its end.
pub(crate) fn simulate(seed: u64, size: Size, mutant: Mutant) -> Outcome {
    let dice = Dice::new(seed);
    let executor = Executor::new(dice.part(1));
    let runtime = executor.runtime(OUTSIDE);
    let base = embedded::in_memory(&runtime, LEASE);
    let network = Network::new(base, Arc::clone(&runtime), dice.part(2), mutant);
    let world = Arc::new(World {
        executor: executor.clone(),
        shared: Shared {
            network,
            history: Arc::default(),
            adoptions: Arc::default(),
            differences: Arc::default(),
        },
        runtime: Arc::clone(&runtime),
        failed: Arc::default(),
        next_group: AtomicU32::new(1),
    });
    let left = Arc::new(AtomicUsize::new(size.sessions + 1));

    let (faults, is_done) = (Arc::clone(&world), Arc::clone(&left));
    let fault_dice = dice.part(3);
    runtime.spawn(Box::pin(async move {
        faults.cause_faults(size.faults, fault_dice).await;
        is_done.fetch_sub(1, Ordering::Relaxed);
    }));
    let gateway = |_| {
        let engine = world.shared.network.link(OUTSIDE, Arc::clone(&runtime));
        Gateway::new(engine, Arc::clone(&runtime))
    };
    let gateways: Arc<Vec<_>> = Arc::new((0..GATEWAYS).map(gateway).collect());
    for number in 0..size.sessions {
        let (caller, is_done) = (Arc::clone(&world), Arc::clone(&left));
        let gateways = Arc::clone(&gateways);
        let dice = dice.part(100 + number as u64);
        runtime.spawn(Box::pin(async move {
            caller
                .call_session(number, size.cells, &gateways, dice)
                .await;
            is_done.fetch_sub(1, Ordering::Relaxed);
        }));
    }
    executor.run(MAX_SIMULATED_TIME, || left.load(Ordering::Relaxed) == 0);
    world.outcome(size)
}

impl World {
    /// Runs the cells of one session, each until it is answered.
    async fn call_session(
        &self,
        number: usize,
        cells: usize,
        gateways: &[Gateway],
        mut dice: Dice,
    ) {
        let session = session_id(number);
        for cell in 0..cells {
            let key = RequestKey::new(format!("{session}:{cell}")).unwrap();
            let wait = dice.pause(Duration::from_secs(6));
            self.runtime.sleep(wait).await;
            while !self.call_once(&session, &key, gateways, &mut dice).await {}
        }
    }

    /// Sends a cell, sometimes through two gateways at once. Returns whether the caller is done with the cell.
    async fn call_once(
        &self,
        session: &SessionId,
        key: &RequestKey,
        gateways: &[Gateway],
        dice: &mut Dice,
    ) -> bool {
        let senders = if dice.one_in(20) { 2 } else { 1 };
        let calls = (0..senders).map(|_| {
            let gateway = dice.pick(gateways);
            gateway.call(session, key, &Value::Null, CALL_TIME)
        });
        let mut is_done = false;
        for answered in futures_util::future::join_all(calls).await {
            match answered {
                Ok(answer) => {
                    self.shared
                        .history
                        .lock()
                        .unwrap()
                        .acknowledged
                        .push(Acknowledged {
                            session: session.clone(),
                            key: key.clone(),
                            length: answer.result.as_u64().unwrap(),
                        });
                    is_done = true;
                }
                Err(CallError::Deadline(_)) => {}
                Err(CallError::Failed(_) | CallError::Closed) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    is_done = true;
                }
            }
        }
        is_done
    }

    /// Starts a node in a process of its own.
    fn start_node(&self, name: u32, dice: &Dice) -> Group {
        let group = Group(self.next_group.fetch_add(1, Ordering::Relaxed));
        let id = NodeId::new(format!("n{name}_{}", group.0)).unwrap();
        let runtime = self.executor.runtime(group);
        let surroundings = OwnerServices {
            engine: self.shared.network.link(group, Arc::clone(&runtime)),
            runtime: Arc::clone(&runtime),
            interpreters: Arc::new(Lists {
                node: id.clone(),
                shared: self.shared.clone(),
                runtime: Arc::clone(&runtime),
                dice: Mutex::new(dice.part(u64::from(group.0))),
            }),
        };
        let record = NodeRecord {
            node: id,
            state: NodeState::Ready,
            version: "1".into(),
            sessions: 0,
            capacity: 10_000,
            free_memory: 0,
            environments: Vec::new(),
            walls: "full".into(),
            address: String::new(),
            secret: String::new(),
            load: 0.0,
            run_slots: 0,
            run_ms: 0,
            heartbeat_ms: 0,
            moves: Moves::default(),
            silent_ms: 0,
        };
        let options = NodeOptions {
            record,
            heartbeat: HEARTBEAT,
            measure: None,
        };
        let node = Node::new(surroundings, options);
        runtime.spawn(Box::pin(async move {
            node.serve().await.unwrap();
        }));
        group
    }

    async fn cause_faults(&self, faults: usize, mut dice: Dice) {
        let mut nodes: Vec<_> = (0..NODES)
            .map(|name| self.start_node(name, &dice))
            .collect();
        for _ in 0..faults {
            self.sleep(&mut dice, 4).await;
            let name = dice.below(nodes.len());
            let node = nodes[name];
            match dice.below(5) {
                0 => {
                    self.executor.kill(node);
                    self.sleep(&mut dice, 5).await;
                    nodes[name] = self.start_node(name as u32, &dice);
                }
                1 => {
                    self.executor.pause(node);
                    self.sleep(&mut dice, 25).await;
                    self.executor.resume(node);
                }
                2 => {
                    self.shared.network.cut_off(node);
                    self.sleep(&mut dice, 15).await;
                    self.shared.network.join_again(node);
                }
                3 => {
                    self.shared.network.set_down(true);
                    self.sleep(&mut dice, 10).await;
                    self.shared.network.set_down(false);
                }
                _ => {
                    // All at once, as after a power cut.
                    for node in &nodes {
                        self.executor.kill(*node);
                    }
                    nodes = (0..NODES)
                        .map(|name| self.start_node(name, &dice))
                        .collect();
                }
            }
        }
    }

    async fn sleep(&self, dice: &mut Dice, most_seconds: u64) {
        let time = dice.pause(Duration::from_secs(most_seconds));
        self.runtime.sleep(time).await;
    }

    /// Reads the list of each session from its journal, and checks the chain of hashes.
    fn outcome(&self, size: Size) -> Outcome {
        let mut history = self.shared.history.lock().unwrap().clone();
        let mut damaged = 0;
        for number in 0..size.sessions {
            let session = session_id(number);
            let journals = &self.shared.network.base.journals;
            let read = journals.read(&session, Sequence(u64::MAX));
            let records = futures_util::FutureExt::now_or_never(read)
                .unwrap()
                .unwrap();
            let mut chain = Chain::start();
            let mut is_damaged = false;
            let mut list = Vec::new();
            for stored in &records {
                is_damaged |= chain.follow(&stored.record).is_err();
                let record: cellblock_cluster::Record =
                    serde_json::from_slice(&stored.record).unwrap();
                if let RecordBody::Cell { key, .. } = record.body {
                    list.push(key);
                }
            }
            damaged += usize::from(is_damaged);
            history.lists.insert(session, list);
        }
        Outcome {
            history,
            failed: self.failed.load(Ordering::Relaxed),
            damaged,
            adoptions: self.shared.adoptions.load(Ordering::Relaxed),
            replay_differences: self.shared.differences.load(Ordering::Relaxed),
            time: self.runtime.now(),
        }
    }
}

fn session_id(number: usize) -> SessionId {
    SessionId::new(format!("s{number}")).unwrap()
}

/// Starts interpreters that only keep a list of keys.
struct Lists {
    node: NodeId,
    shared: Shared,
    runtime: Arc<dyn Runtime>,
    dice: Mutex<Dice>,
}

impl Interpreters for Lists {
    fn open<'a>(
        &'a self,
        session: &'a SessionId,
        _about: &'a Value,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, String>> {
        self.shared.adoptions.fetch_add(1, Ordering::Relaxed);
        let number = self.dice.lock().unwrap().number();
        Box::pin(async move {
            let list = List {
                session: session.clone(),
                node: self.node.clone(),
                shared: self.shared.clone(),
                runtime: Arc::clone(&self.runtime),
                dice: Dice::new(number),
                keys: Vec::new(),
            };
            Ok(Box::new(list) as Box<dyn Interpreter>)
        })
    }
}

/// An interpreter whose cells append their key to a list and return its length.
struct List {
    session: SessionId,
    node: NodeId,
    shared: Shared,
    runtime: Arc<dyn Runtime>,
    dice: Dice,
    keys: Vec<RequestKey>,
}

impl Interpreter for List {
    fn run<'a>(&'a mut self, key: &'a RequestKey, _cell: &'a Value) -> BoxFuture<'a, Value> {
        Box::pin(async move {
            // Asked of the engine itself, not through the network.
            let members = self.shared.network.base.members.list().await.unwrap();
            self.shared.history.lock().unwrap().started.push(Started {
                session: self.session.clone(),
                key: key.clone(),
                node: self.node.clone(),
                had_lease: members.iter().any(|record| record.node == self.node),
            });
            // Some cells are longer than the time in which a node must reply.
            let longest = if self.dice.one_in(50) { 5_000 } else { 20 };
            let time = self.dice.pause(Duration::from_millis(longest));
            self.runtime.sleep(time).await;
            self.keys.push(key.clone());
            json!(self.keys.len())
        })
    }

    fn replay<'a>(
        &'a mut self,
        key: &'a RequestKey,
        _cell: &'a Value,
        recorded: &'a Value,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.keys.push(key.clone());
            if *recorded == json!(self.keys.len()) {
                return Ok(());
            }
            self.shared.differences.fetch_add(1, Ordering::Relaxed);
            Err(format!("{key} is at another place"))
        })
    }
}
