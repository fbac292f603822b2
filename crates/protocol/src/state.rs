use serde::{Deserialize, Serialize};

/// What became of a session's state after a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Whether the cell's effects stayed.
    pub outcome: StateOutcome,
    /// The safety net that the cell had.
    pub checkpoint: CheckpointState,
    /// What of the time before the cell could not be put back: files without a copy, for example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
}

/// Whether a cell's effects stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateOutcome {
    /// What the cell did is there.
    Kept,
    /// The state is the one from before the cell.
    Restored,
    /// There was nothing to go back to: the session is over and its variables are lost.
    Ended,
}

/// The safety net of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Whether it is there.
    pub status: CheckpointStatus,
    /// How many cells would be lost with the one that runs next; 0 when armed, and when only files would not come back as they were.
    pub behind: u64,
    /// Why it is behind or unavailable.
    pub reason: Option<String>,
}

impl CheckpointState {
    /// A checkpoint of the newest state exists.
    pub fn armed() -> Self {
        Self {
            status: CheckpointStatus::Armed,
            behind: 0,
            reason: None,
        }
    }

    /// The newest checkpoint is `cells` cells old; or, for 0, some of its files could not be kept.
    pub fn behind(cells: u64, reason: impl Into<String>) -> Self {
        Self {
            status: CheckpointStatus::Behind,
            behind: cells,
            reason: Some(reason.into()),
        }
    }

    /// There is no checkpoint.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            status: CheckpointStatus::Unavailable,
            behind: 0,
            reason: Some(reason.into()),
        }
    }
}

/// Whether a checkpoint is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointStatus {
    /// Of the newest state.
    Armed,
    /// Of an older state, or without some of its files.
    Behind,
    /// None.
    Unavailable,
}
