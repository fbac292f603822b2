//! What was named and is not there: the causes of [`Error::NotFound`](crate::Error::NotFound).

use std::io;

/// Something that was named and is not there. Its text is a sentence for a person; a program matches the variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// No process has this name, or it ended a while ago.
    #[error("there is no process `{process}`")]
    Process {
        /// The name.
        process: String,
    },
    /// The session sees no such program.
    #[error("there is no program `{program}` in the session")]
    Program {
        /// The program.
        program: String,
    },
    /// A process cannot be started in this directory.
    #[error("the directory `{directory}` cannot be entered: {error}")]
    Directory {
        /// The directory, as code of the session knows it.
        directory: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// No output of this cell is kept.
    #[error("the output of cell {cell} is not there: no such cell ran, or it is too long ago")]
    Output {
        /// The number of the cell.
        cell: u64,
    },
    /// `undo` was asked to take back no cell.
    #[error("`undo` takes back at least one cell")]
    NoCellToUndo,
    /// `undo` was asked to take back more cells than were kept.
    #[error(
        "there are only {kept} cells to take back{}",
        since_when(.is_fork)
    )]
    TooFewCells {
        /// How many cells can be taken back.
        kept: usize,
        /// Whether the session is a fork, which cannot take back its parent's cells.
        is_fork: bool,
    },
    /// The checkpoint was there, and its process has ended.
    #[error(
        "the checkpoint after cell {cell} is not there any more: its process has ended, as it does where memory or processes are short (raise the limits `memory` and `processes`)"
    )]
    CheckpointEnded {
        /// The cell after which it was made.
        cell: u64,
    },
    /// No checkpoint was made after this cell.
    #[error("there is no checkpoint after cell {cell}: {reason}")]
    CheckpointNotMade {
        /// The cell.
        cell: u64,
        /// The obstacle.
        reason: String,
    },
    /// The checkpoint is older than all that are kept.
    #[error(
        "the history does not reach that far: the oldest checkpoint is the one after cell {oldest}"
    )]
    CheckpointTooOld {
        /// The cell after which the oldest checkpoint was made.
        oldest: u64,
    },
    /// The session has no checkpoint at all.
    #[error("there is no checkpoint to go back to: {reason}")]
    NoCheckpoint {
        /// The obstacle.
        reason: String,
    },
}

fn since_when(is_fork: &bool) -> &'static str {
    match is_fork {
        true => " since the session was forked from another",
        false => "",
    }
}
