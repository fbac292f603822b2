//! A server that is one of several: each is a node that has sessions, and a gateway to the sessions of all.
//!
//! A request for a session goes to the node that owns it ([`forwarding`]). What happens in a session is in the journal of the cluster
//! before its caller is answered ([`journaling`]). When a node is gone, another node rebuilds its sessions from there
//! ([`sessions`]).

mod deletion;
mod environments;
mod forwarding;
mod journaling;
mod keys;
mod metrics;
mod overview;
mod peers;
mod run_journal;
mod run_requests;
mod runs;
mod sessions;
mod slot;
mod workspace;

pub(crate) use forwarding::{KEY_HEADER, to_owner};
pub(crate) use keys::KeyState;
pub(crate) use peers::{Peer, peer_user};
pub(crate) use run_journal::{RecordedModel, RunJournal};
pub(crate) use run_requests::to_runner;
pub(crate) use slot::Slot;

use crate::auth::Secret;
use crate::error::{ApiError, ServerError};
use crate::state::AppState;
use cellblock_cluster::engine::{Engine, Moves, NodeRecord, NodeState, Placed};
use cellblock_cluster::retention::Retention;
use cellblock_cluster::{
    Gateway, Measure, Node, NodeId, NodeOptions, OwnerServices, RunQueue, Runtime, SessionId,
    TokioRuntime,
};
use cellblock_env::Environments;
use environments::{ClusterArchives, ToldEnvironments};
use metrics::ClusterMetrics;
use peers::Peers;
use runs::RunWork;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a server is one of several.
#[derive(Clone)]
pub struct ClusterOptions {
    /// What all nodes share.
    pub engine: Engine,
    /// The clock that the engine was opened with.
    pub runtime: Arc<dyn Runtime>,
    /// The id of this start of the node.
    pub node: NodeId,
    /// Where other nodes reach this one, such as `http://10.0.0.5:8742`.
    pub address: String,
    /// How many sessions the node takes.
    pub capacity: u32,
    /// How many runs of the queue the node works on at a time.
    pub run_slots: u32,
    /// The time between heartbeats.
    pub heartbeat: Duration,
    /// The rung of the walls, as heartbeats tell it.
    pub walls: String,
    /// Notes in each heartbeat how the machine is.
    pub measure: Option<Measure>,
    /// How long closed sessions are kept, and blobs that nothing names.
    pub retention: Retention,
}

impl ClusterOptions {
    /// A node of this name, with the usual options. Each start of a node has an id of its own.
    pub fn new(
        engine: Engine,
        runtime: TokioRuntime,
        name: &str,
        address: String,
    ) -> Result<ClusterOptions, ServerError> {
        let failed = |error: String| ServerError::Options(format!("--node-name: {error}"));
        let start = crate::auth::random_id("").map_err(|error| failed(error.message))?;
        let node = NodeId::new(format!("{name}_{}", &start[..6]));
        Ok(ClusterOptions {
            engine,
            runtime: Arc::new(runtime),
            node: node.map_err(|error| failed(error.to_string()))?,
            address,
            capacity: 200,
            run_slots: 8,
            heartbeat: Duration::from_secs(2),
            walls: String::new(),
            measure: None,
            retention: deletion::DEFAULT_RETENTION,
        })
    }

    /// The host in the address of the node.
    pub(crate) fn host(&self) -> Option<String> {
        let address: axum::http::Uri = self.address.parse().ok()?;
        address.host().map(str::to_owned)
    }
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClusterOptions")
            .field("node", &self.node)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// This server's part in its cluster.
pub(crate) struct Cluster {
    pub(crate) engine: Engine,
    pub(crate) node: Arc<Node>,
    gateway: Gateway,
    peers: Peers,
    queue: RunQueue,
    run_slots: u32,
    work: Arc<RunWork>,
    metrics: Arc<ClusterMetrics>,
    environments: Environments,
    retention: Retention,
    /// The sessions that this node owns.
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// The sessions that this node is opening: they have no records yet.
    opening: Mutex<HashSet<String>>,
}

impl Cluster {
    /// Joins. Requests of other nodes come from then on.
    pub(crate) async fn join(
        state: &AppState,
        options: &ClusterOptions,
    ) -> Result<Arc<Cluster>, ServerError> {
        let secret = Secret::random().map_err(|error| ServerError::Options(error.message))?;
        let record = NodeRecord {
            node: options.node.clone(),
            state: NodeState::Ready,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sessions: 0,
            capacity: options.capacity,
            free_memory: 0,
            environments: Vec::new(),
            walls: options.walls.clone(),
            address: options.address.clone(),
            secret: secret.0.clone(),
            load: 0.0,
            run_slots: options.run_slots,
            run_ms: 0,
            heartbeat_ms: 0,
            moves: Moves::default(),
            silent_ms: 0,
        };
        let services = OwnerServices {
            engine: options.engine.clone(),
            runtime: Arc::clone(&options.runtime),
            interpreters: Arc::new(sessions::ClusterSessions::new(state.clone())),
        };
        let work = Arc::new(RunWork::default());
        let metrics: Arc<ClusterMetrics> = Arc::default();
        let (measure, counted) = (options.measure.clone(), Arc::clone(&work));
        let moved = Arc::clone(&metrics);
        let environments = state.host().packages().environments();
        environments.exchange_with(Arc::new(ClusterArchives::new(options.engine.clone())?));
        let told = ToldEnvironments::new(environments.clone());
        let measure: Measure = Arc::new(move |record: &mut NodeRecord| {
            record.run_ms = counted.mean_ms();
            record.moves = moved.moves();
            record.environments = told.list();
            if let Some(measure) = &measure {
                measure(record);
            }
        });
        let node_options = NodeOptions {
            record,
            heartbeat: options.heartbeat,
            measure: Some(measure),
        };
        let cluster = Arc::new(Cluster {
            engine: options.engine.clone(),
            node: Node::new(services, node_options),
            gateway: Gateway::new(options.engine.clone(), Arc::clone(&options.runtime)),
            peers: Peers::new(options.engine.clone(), secret.0),
            queue: RunQueue::new(options.engine.clone(), Arc::clone(&options.runtime)),
            run_slots: options.run_slots,
            work,
            metrics,
            environments: environments.clone(),
            retention: options.retention,
            slots: Mutex::default(),
            opening: Mutex::default(),
        });
        Ok(cluster)
    }

    /// Serves requests of other nodes, and works on runs of the queue, until the server stops.
    pub(crate) fn start(self: &Arc<Self>, state: &AppState) {
        tokio::spawn(Arc::clone(self).work_on_runs(state.clone()));
        tokio::spawn(Arc::clone(self).sweep_for_ever(state.clone()));
        let node = Arc::clone(&self.node);
        tokio::spawn(async move {
            // The engine's client connects again by itself; an error here means that it gave up.
            while let Err(error) = node.serve().await {
                let _ = error;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// Leaves: gives all sessions away, then ends the lease, so that other nodes need not wait for it.
    pub(crate) async fn leave(&self) {
        self.node.drain().await;
        let _ = self.engine.members.leave(&self.node.id()).await;
    }

    /// What the directory says about a session.
    pub(crate) async fn placed(&self, id: &str) -> Result<Option<Placed>, ApiError> {
        let Ok(session) = SessionId::new(id) else {
            return Ok(None);
        };
        let placed = self.engine.directory.get(&session).await;
        placed.map_err(|error| unavailable(&error.to_string()))
    }

    /// All sessions of a user, by the user's name.
    pub(crate) async fn sessions_of(&self, user: &str) -> Result<Vec<(String, Placed)>, ApiError> {
        let listed = self.engine.directory.list().await;
        let listed = listed.map_err(|error| unavailable(&error.to_string()))?;
        let mut found: Vec<(String, Placed)> = listed
            .into_iter()
            .filter(|(_, placed)| placed.entry.about["user"] == user)
            .map(|(session, placed)| (session.to_string(), placed))
            .collect();
        found.sort_by_key(|(_, placed)| {
            std::cmp::Reverse(placed.entry.about["created_at"].as_i64().unwrap_or(0))
        });
        Ok(found)
    }

    /// The part of a session that this node owns, if it does.
    pub(crate) fn slot(&self, id: &str) -> Option<Arc<Slot>> {
        self.slots().get(id).cloned()
    }

    fn opening(&self) -> MutexGuard<'_, HashSet<String>> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine does not answer. Sessions that run go on.
pub(crate) fn unavailable(problem: &str) -> ApiError {
    ApiError::new(
        axum::http::StatusCode::SERVICE_UNAVAILABLE,
        "cluster_unavailable",
        format!("the cluster does not answer: {problem}"),
    )
    .retry_after(1)
    .hint("if this lasts, ask its operator to look with `cellblock doctor --cluster`; nothing that was answered is lost")
}
