//! The errors of finding, reading and removing journals.

use std::io;
use std::path::PathBuf;

/// A journal cannot be found, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// No journal has an id that begins like this.
    #[error("there is no journal `{id}` in {}", directory.display())]
    NotFound {
        /// The id that was looked for.
        id: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// The ids of several journals begin like this.
    #[error("`{id}` is the beginning of several journals: {}", found.join(", "))]
    Ambiguous {
        /// The id that was looked for.
        id: String,
        /// The ids that begin like it.
        found: Vec<String>,
    },
    /// The session of the journal is alive and writes it.
    #[error("the session of journal `{id}` is alive; close it first")]
    Alive {
        /// The id of the journal.
        id: String,
    },
    /// The file or the directory cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file cannot be removed.
    #[error("{} cannot be removed: {source}", path.display())]
    Unremovable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is not a journal.
    #[error("{} is not a journal: {problem}", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The journal was written by a newer version of Cellblock.
    #[error("{} has version {version} of the form of journals; this Cellblock knows {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the journal.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// Any other error of the directory of records.
    #[error(transparent)]
    Record(cellblock_records::RecordError),
}
