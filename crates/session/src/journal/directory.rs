//! The journals of a directory: listed, found by id, removed.

use super::error::JournalError;
use cellblock_records::{RecordDirectory, RecordError, RecordFile, Retention};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The number of journals that are kept. The oldest are removed when a new one begins.
pub const MAX_JOURNALS: usize = 200;
/// The bytes of all journals that are kept.
pub const MAX_JOURNALS_BYTES: u64 = 200_000_000;

/// The journals of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journals {
    records: RecordDirectory,
}

/// A journal as it is listed. Its content has not been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFile {
    /// The id of the journal: the name of its file.
    pub id: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// When the file was last written.
    pub modified: SystemTime,
}

impl Journals {
    /// The journals in this directory. It need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> Journals {
        Journals {
            records: RecordDirectory::new(directory),
        }
    }

    /// The path of the directory.
    pub fn directory(&self) -> &Path {
        self.records.path()
    }

    /// Lists the journals, the newest first.
    pub fn list(&self) -> Result<Vec<JournalFile>, JournalError> {
        let files = self.records.list()?.into_iter();
        Ok(files.map(JournalFile::from).collect())
    }

    /// Finds the journal whose id is `id` or begins with it. `last` is the newest journal.
    pub fn find(&self, id: &str) -> Result<JournalFile, JournalError> {
        Ok(self.records.find(id)?.into())
    }
}

impl JournalFile {
    /// Whether the session of the journal is alive: its host holds a lock on the file.
    pub fn is_alive(&self) -> bool {
        cellblock_records::is_locked(&self.path)
    }

    /// Removes the journal. Refused while its session is alive.
    pub fn remove(&self) -> Result<(), JournalError> {
        Ok(RecordFile::from(self.clone()).remove()?)
    }
}

/// Removes the oldest journals of ended sessions, so that a new one fits.
pub(super) fn make_room(directory: &Path) {
    RecordDirectory::new(directory).make_room(Retention {
        max_files: MAX_JOURNALS,
        max_bytes: MAX_JOURNALS_BYTES,
    });
}

impl From<RecordFile> for JournalFile {
    fn from(file: RecordFile) -> JournalFile {
        JournalFile {
            id: file.id,
            path: file.path,
            bytes: file.bytes,
            modified: file.modified,
        }
    }
}

impl From<JournalFile> for RecordFile {
    fn from(file: JournalFile) -> RecordFile {
        RecordFile {
            id: file.id,
            path: file.path,
            bytes: file.bytes,
            modified: file.modified,
        }
    }
}

impl From<RecordError> for JournalError {
    fn from(error: RecordError) -> JournalError {
        match error {
            RecordError::NotFound { id, directory } => JournalError::NotFound { id, directory },
            RecordError::Ambiguous { id, found } => JournalError::Ambiguous { id, found },
            RecordError::Locked { id } => JournalError::Alive { id },
            RecordError::Unreadable { path, source } => JournalError::Unreadable { path, source },
            RecordError::Unremovable { path, source } => JournalError::Unremovable { path, source },
            other => JournalError::Record(other),
        }
    }
}
