//! Answers to operations other than cells, and the questions of editors.

pub(crate) mod questions;
pub(crate) mod variable;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::{CheckpointState, FileChanges, VariableChanges};

/// The answer to `compute`: exactly one of the two is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computed {
    /// `str(value)`.
    pub result: Option<String>,
    /// `PythonError: {type}: {message}`, or why it was refused.
    pub error: Option<String>,
}

impl Computed {
    /// The expression has a value.
    pub fn result(text: impl Into<String>) -> Self {
        Self {
            result: Some(text.into()),
            error: None,
        }
    }

    /// An answer that is an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            result: None,
            error: Some(message.into()),
        }
    }
}

/// The answer to `open` and to `fork`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpened {
    /// The id of the session that is now open.
    pub session: String,
    /// Parts of the state of its parent that a fork does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_copied: Vec<String>,
}

/// The answer to `undo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The cell after which the state now stands; 0 for the beginning.
    pub cell: u64,
    /// The variables that the way back changed.
    pub variables: VariableChanges,
    /// The files of the workspace that the way back changed.
    pub files: FileChanges,
    /// Parts of the earlier state that could not be put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
}

/// The checkpoints of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointList {
    /// Whether the next cell has a checkpoint under it.
    pub state: CheckpointState,
    /// The checkpoints that the session can go back to, newest first.
    pub entries: Vec<CheckpointEntry>,
}

/// One entry of the answer to `checkpoints`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointEntry {
    /// The cell after which it was made.
    pub cell: u64,
    /// The time when the checkpoint was made, in seconds since 1970.
    pub at: f64,
    /// The memory that it alone holds.
    pub bytes: u64,
}

/// The answer to `get_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContents {
    /// The contents.
    pub base64: String,
    /// How many bytes they are.
    pub size: u64,
}

impl From<&[u8]> for FileContents {
    fn from(contents: &[u8]) -> Self {
        Self {
            base64: STANDARD.encode(contents),
            size: contents.len() as u64,
        }
    }
}
