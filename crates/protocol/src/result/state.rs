//! The state of a session after a cell, and the checkpoint that the next cell has.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json::duration::optional_whole_milliseconds;

/// The state of a session after a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateAfterCell {
    /// Whether the cell's effects stayed.
    pub outcome: StateOutcome,
    /// The checkpoint that the cell had to go back to.
    pub checkpoint: CheckpointState,
    /// Parts of the state before the cell that could not be put back: files without a copy, for example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
    /// The cells before this one whose effects are gone, because the newest checkpoint was made before them and they were not run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u64>,
    /// The cells before this one that were run again, because the newest checkpoint was made before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replayed: Vec<u64>,
    /// In which way the cells that were run again did not do what they had done before; a few lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differed: Vec<String>,
    /// How long the replay took. None where no cell was run again. In JSON: `replay_ms`, whole milliseconds.
    #[serde(
        rename = "replay_ms",
        default,
        skip_serializing_if = "Option::is_none",
        with = "optional_whole_milliseconds"
    )]
    pub replay_time: Option<Duration>,
}

impl StateAfterCell {
    /// The state after a cell whose effects stay.
    pub fn kept(checkpoint: CheckpointState) -> Self {
        Self::new(StateOutcome::Kept, checkpoint)
    }

    /// A state about which nothing more is to be said.
    pub fn new(outcome: StateOutcome, checkpoint: CheckpointState) -> Self {
        Self {
            outcome,
            checkpoint,
            not_restored: Vec::new(),
            lost: Vec::new(),
            replayed: Vec::new(),
            differed: Vec::new(),
            replay_time: None,
        }
    }

    /// Whether the variables are as they were before the cell. A result that was written by an older version does not name the cells that were
    /// lost; then the checkpoint that was behind tells.
    pub fn has_variables_of_before(&self) -> bool {
        let was_behind =
            self.checkpoint.status == CheckpointStatus::Behind && self.checkpoint.behind > 0;
        self.outcome == StateOutcome::Restored
            && self.lost.is_empty()
            && self.differed.is_empty()
            && (!was_behind || !self.replayed.is_empty())
    }
}

/// Whether a cell's effects stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateOutcome {
    /// The effects of the cell stay.
    Kept,
    /// The state is the one from before the cell.
    Restored,
    /// There was nothing to go back to: the session is over and its variables are lost.
    Ended,
}

impl StateOutcome {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Restored => "restored",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for StateOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// Whether a cell has a checkpoint to go back to, and how far that is behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Whether the checkpoint is there.
    pub status: CheckpointStatus,
    /// How many cells would be lost with the one that runs next; 0 when armed, and when only files would not come back as they were.
    pub behind: u64,
    /// The reason why the checkpoint is behind or unavailable.
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
    /// There is no checkpoint.
    Unavailable,
}

impl CheckpointStatus {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Armed => "armed",
            Self::Behind => "behind",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for CheckpointStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}
