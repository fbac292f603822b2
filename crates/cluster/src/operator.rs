//! What an operator asks of a node.

use crate::engine::{Engine, NodeState};
use crate::message::{Reply, Request};
use crate::names::NodeId;
use std::time::Duration;

/// How long a node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A node did not say that it did what it was told. It may have heard it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {problem}")]
pub struct OperatorError {
    /// The node.
    pub node: NodeId,
    /// What went wrong.
    pub problem: String,
}

/// Tells a node to take sessions, to take none, or to give all away. Returns when the node has heard it, not when it is done.
pub async fn set_node_state(
    engine: &Engine,
    node: &NodeId,
    state: NodeState,
) -> Result<(), OperatorError> {
    let failed = |problem: String| OperatorError {
        node: node.clone(),
        problem,
    };
    let request = serde_json::to_vec(&Request::SetState { state });
    let request = request.map_err(|error| failed(error.to_string()))?;
    let asked = engine.router.request(node, request.into(), ANSWER_TIMEOUT);
    let reply = asked.await.map_err(|error| failed(error.to_string()))?;
    match serde_json::from_slice(&reply) {
        Ok(Reply::Done) => Ok(()),
        _ => Err(failed("it did not do it".to_owned())),
    }
}
