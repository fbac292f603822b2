//! The nodes of a cluster, each as long as its lease lasts.

use super::EngineError;
use crate::names::NodeId;
use crate::runtime::BoxFuture;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Whether a node takes sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It takes new sessions.
    Ready,
    /// It keeps its sessions and takes no new ones.
    Cordoned,
    /// It gives its sessions away, and then ends.
    Draining,
}

/// How many sessions moved since the start of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    /// Sessions that the node rebuilt from their journals.
    pub adopted: u64,
    /// Sessions that the node let go of.
    pub left: u64,
}

/// What a node says about itself with each heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: NodeId,
    /// Whether it takes sessions.
    pub state: NodeState,
    /// The program's version.
    pub version: String,
    /// How many sessions it runs.
    pub sessions: u32,
    /// How many it can run.
    pub capacity: u32,
    /// Its free memory, in bytes.
    pub free_memory: u64,
    /// The environments that need no download there, by the id of their lock.
    pub environments: Vec<String>,
    /// The rung of its walls.
    pub walls: String,
    /// Where other nodes reach it, such as `http://10.0.0.5:8742`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// What other nodes prove with that they are nodes of the cluster. Each start of a node draws a new one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
    /// The share of its processors that is busy: 1 if there is work for all of them.
    #[serde(default)]
    pub load: f64,
    /// How many runs of the queue it works on at a time.
    #[serde(default)]
    pub run_slots: u32,
    /// The average time of its last runs, in milliseconds. 0 if it had none.
    #[serde(default)]
    pub run_ms: u64,
    /// The time between its heartbeats, in milliseconds.
    #[serde(default)]
    pub heartbeat_ms: u64,
    /// The sessions that came to it and left it.
    #[serde(default)]
    pub moves: Moves,
    /// How much older its last heartbeat is than the newest one of all nodes, in milliseconds. The engine says so in its list.
    #[serde(skip)]
    pub silent_ms: u64,
}

impl NodeRecord {
    /// Whether two heartbeats in a row did not come. The node may be lost; its lease says when it is.
    pub fn is_silent(&self) -> bool {
        // Half a heartbeat is how late one may be.
        self.heartbeat_ms > 0 && self.silent_ms > self.heartbeat_ms * 5 / 2
    }
}

/// What an operator is told about a node: its record without its secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSummary {
    /// The node.
    pub node: NodeId,
    /// Whether it takes sessions.
    pub state: NodeState,
    /// How much older its last heartbeat is than the newest one of all nodes.
    pub silent_seconds: f64,
    /// Whether two heartbeats in a row did not come.
    pub is_silent: bool,
    /// The program's version.
    pub version: String,
    /// How many sessions it runs.
    pub sessions: u32,
    /// How many it can run.
    pub capacity: u32,
    /// The share of its processors that is busy.
    pub load: f64,
    /// How many runs of the queue it works on at a time.
    pub run_slots: u32,
    /// Its free memory, in bytes.
    pub free_memory: u64,
    /// The environments that need no download there.
    pub environments: Vec<String>,
    /// The rung of its walls.
    pub walls: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The sessions that came to it and left it.
    pub moves: Moves,
}

impl From<NodeRecord> for NodeSummary {
    fn from(record: NodeRecord) -> NodeSummary {
        NodeSummary {
            silent_seconds: record.silent_ms as f64 / 1000.0,
            is_silent: record.is_silent(),
            node: record.node,
            state: record.state,
            version: record.version,
            sessions: record.sessions,
            capacity: record.capacity,
            load: record.load,
            run_slots: record.run_slots,
            free_memory: record.free_memory,
            environments: record.environments,
            walls: record.walls,
            address: record.address,
            moves: record.moves,
        }
    }
}

/// Notes in records how old they are, from the time of each, in milliseconds.
pub(crate) fn note_silence(mut nodes: Vec<(NodeRecord, u64)>) -> Vec<NodeRecord> {
    let newest = nodes.iter().map(|(_, heard)| *heard).max().unwrap_or(0);
    for (record, heard) in &mut nodes {
        record.silent_ms = newest - *heard;
    }
    nodes.into_iter().map(|(record, _)| record).collect()
}

/// Which nodes live: each node renews a lease, and a node whose lease lapsed is not listed.
pub trait Members: Send + Sync {
    /// Renews the lease of a node and returns how long the lease is.
    ///
    /// The engine counts from the moment it gets the request. The node must count from the moment it *sent* the request: then its own
    /// lease always ends before the engine's.
    fn renew<'a>(&'a self, record: &'a NodeRecord) -> BoxFuture<'a, Result<Duration, EngineError>>;

    /// Ends the lease of a node at once.
    fn leave<'a>(&'a self, node: &'a NodeId) -> BoxFuture<'a, Result<(), EngineError>>;

    /// The nodes whose lease has not lapsed, sorted by id. The list may be behind by a moment.
    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, EngineError>>;
}
