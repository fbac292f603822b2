//! The whole cluster in numbers, for its operators.

use super::{Cluster, unavailable};
use crate::error::ApiError;
use cellblock_cluster::engine::{NodeState, NodeSummary, SessionState};
use cellblock_cluster::{NodeId, set_node_state};
use serde::Serialize;

/// The nodes, the sessions in numbers, and the runs that have not ended.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    /// The node that answers.
    this_node: NodeId,
    nodes: Vec<NodeSummary>,
    sessions: SessionCounts,
    runs: Vec<QueuedRun>,
}

#[derive(Debug, Default, Serialize)]
struct SessionCounts {
    /// Sessions whose node lives.
    live: usize,
    /// Sessions that are only their journals, until they are used.
    asleep: usize,
    /// Sessions whose node is gone. The next request has another node rebuild them.
    lost: usize,
}

/// A run of the queue. What is asked in it is its user's.
#[derive(Debug, Serialize)]
struct QueuedRun {
    id: String,
    user: String,
    /// The node that works on it. `None`: it waits.
    node: Option<NodeId>,
    /// How often a node took it.
    deliveries: u32,
    /// When it was asked, in seconds since 1970.
    asked_at: f64,
}

impl Cluster {
    /// Asks the engine for everything.
    pub(crate) async fn overview(&self) -> Result<Overview, ApiError> {
        let engine = &self.engine;
        let failed = |error: cellblock_cluster::engine::EngineError| unavailable(&error.0);
        let nodes = engine.members.list().await.map_err(failed)?;
        let placed = engine.directory.list().await.map_err(failed)?;
        let mut sessions = SessionCounts::default();
        for (_, placed) in placed {
            match placed.entry.state {
                SessionState::Closed => {}
                SessionState::Asleep => sessions.asleep += 1,
                SessionState::Live => match nodes.iter().any(|node| node.node == placed.entry.node)
                {
                    true => sessions.live += 1,
                    false => sessions.lost += 1,
                },
            }
        }
        let mut runs = self.queue.open_runs().await.map_err(failed)?;
        runs.sort_by_key(|run| run.ticket.asked_ms);
        let runs = runs.into_iter().map(|run| QueuedRun {
            id: run.id.to_string(),
            user: run.ticket.user.clone(),
            node: run.node.clone(),
            deliveries: run.ticket.deliveries,
            asked_at: run.ticket.asked_ms as f64 / 1000.0,
        });
        Ok(Overview {
            this_node: self.node.id(),
            nodes: nodes.into_iter().map(NodeSummary::from).collect(),
            sessions,
            runs: runs.collect(),
        })
    }

    /// Tells a node what to do with sessions.
    pub(crate) async fn set_node_state(
        &self,
        node: &NodeId,
        state: NodeState,
    ) -> Result<(), ApiError> {
        let nodes = self.engine.members.list().await;
        let nodes = nodes.map_err(|error| unavailable(&error.0))?;
        if !nodes.iter().any(|other| other.node == *node) {
            return Err(ApiError::not_found("node"));
        }
        let told = set_node_state(&self.engine, node, state).await;
        told.map_err(|error| unavailable(&error.to_string()))
    }
}
