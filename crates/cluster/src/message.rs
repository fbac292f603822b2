//! What gateways and nodes say to each other.

use crate::engine::{Epoch, NodeState};
use crate::names::{RequestKey, SessionId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Run a cell in a session that the node owns.
    Run {
        /// The session.
        session: SessionId,
        /// The epoch that the sender believes in.
        epoch: Epoch,
        /// The same key runs once.
        key: RequestKey,
        /// What to run.
        cell: Value,
    },
    /// Take a session, with the directory entry that the sender saw.
    Adopt {
        /// The session.
        session: SessionId,
        /// The epoch of the entry, or `None` if the session is new.
        seen: Option<Epoch>,
    },
    /// Put a session to sleep, so that another node can take it.
    Release {
        /// The session.
        session: SessionId,
        /// The epoch that the sender believes in.
        epoch: Epoch,
    },
    /// Take sessions, take none, or give all away.
    SetState {
        /// The state.
        state: NodeState,
    },
    /// Say that the node is there.
    Ping,
}

/// A node's reply. It comes within a second: silence means trouble, not work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The cell has happened.
    Result {
        /// Its result.
        result: Value,
        /// Given with the first new cell after a rebuild.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rebuilt: Option<Rebuilt>,
    },
    /// The work goes on. Send the same request again to wait for it.
    Running,
    /// The node owns the session.
    Adopted {
        /// The epoch.
        epoch: Epoch,
    },
    /// The node has done it, or is there.
    Done,
    /// The node did not do it.
    Refused {
        /// Why.
        why: Refusal,
    },
}

/// Why a node refused a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// The node does not own the session, or has just lost it.
    Moved,
    /// The node owns the session under another epoch.
    Epoch,
    /// The node's lease has lapsed, so it starts nothing.
    Lease,
    /// The node takes no more sessions.
    Full,
    /// Too many requests wait for the session.
    Busy,
    /// The session cannot go on: its journal is damaged, or its interpreter does not start.
    Failed {
        /// What happened.
        message: String,
    },
}

/// How a session came back on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// How many cells ran again.
    pub cells: u64,
    /// How many of them gave another result than the first time.
    pub different: u64,
    /// The first differences, in words.
    pub differences: Vec<String>,
}

/// The bytes of a message. These types always have a JSON form; an empty message stands for one that had none, and is not understood.
pub(crate) fn encode(message: &impl Serialize) -> Bytes {
    serde_json::to_vec(message).unwrap_or_default().into()
}
