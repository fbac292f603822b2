//! What can go wrong with kept runs.

use std::io;
use std::path::PathBuf;

/// A run that cannot be kept or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// None has such an id.
    #[error("there is no run `{id}` in {}", directory.display())]
    NotFound {
        /// What was asked for.
        id: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Several have.
    #[error("`{id}` is the beginning of several runs: {}", found.join(", "))]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// The ids that begin like this.
        found: Vec<String>,
    },
    /// Another program is at it.
    #[error("the run `{id}` is still going on in another program")]
    Alive {
        /// The run.
        id: String,
    },
    /// It was ended, and there is nothing to resume.
    #[error("the run `{id}` has ended (`{status}`); there is nothing to resume")]
    Ended {
        /// The run.
        id: String,
        /// How it ended.
        status: String,
    },
    /// A file or directory that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or directory that cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is no run.
    #[error("{} is not the record of a run: {problem}", path.display())]
    NotARun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// More than is kept of one run.
    #[error("the record of the run has reached {limit} MB; nothing more of it is kept")]
    Full {
        /// How long a record may be.
        limit: u64,
    },
}
