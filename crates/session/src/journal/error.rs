//! What can go wrong with the journals of the past.

use std::io;
use std::path::PathBuf;

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// None has such an id.
    #[error("there is no journal `{id}` in {}", directory.display())]
    NotFound {
        /// What was asked for.
        id: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Several have.
    #[error("`{id}` is the beginning of several journals: {}", found.join(", "))]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// What there is.
        found: Vec<String>,
    },
    /// The session still writes it.
    #[error("the session of journal `{id}` is alive; close it first")]
    Alive {
        /// Which.
        id: String,
    },
    /// The system does not let us read it.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system does not let us remove it.
    #[error("{} cannot be removed: {source}", path.display())]
    Unremovable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is not a journal: {problem}", path.display())]
    NotAJournal {
        /// Which file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// It was written by a newer Cellblock.
    #[error("{} has version {version} of the form of journals; this Cellblock knows {known}", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// Ours.
        known: u32,
    },
}
