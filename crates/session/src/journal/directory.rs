//! The journals of a directory: listed with a summary of each, found by id, removed.

use crate::journal::reader::{MAX_READ_BYTES, SessionFate};
use cellblock_protocol::Status;
use cellblock_records::{
    LineReader, NextLine, RecordDirectory, RecordError, RecordFile, Retention,
};
use serde::{Deserialize, Serialize};
use std::io;
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
    /// The time of the last write to the file.
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

/// The line of a journal in `cellblock sessions list`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The id of the journal.
    pub id: String,
    /// The id of the session.
    pub session: String,
    /// The time when the session was opened, in seconds since 1970.
    pub opened_at: f64,
    /// The time of the last record, in seconds since 1970.
    pub last_at: f64,
    /// The number of cells that began.
    pub cells: u64,
    /// How the last cell ended; absent when none did, or when it did not end.
    pub last_status: Option<Status>,
    /// The name of the session's [`SessionFate`]: `alive`, `ended` or `died`.
    #[serde(rename = "life")]
    pub fate: &'static str,
    /// Whether the journal ends before the session did, or in the middle of a line.
    pub incomplete: bool,
    /// The workspace of the session.
    pub workspace: PathBuf,
    /// The length of the journal in bytes.
    pub bytes: u64,
}

impl JournalFile {
    /// Reads the summary of the journal.
    pub fn summary(&self) -> Result<Summary, JournalError> {
        let unreadable = |source| JournalError::Unreadable {
            path: self.path.clone(),
            source,
        };
        let is_alive = self.is_alive();
        let mut reader = LineReader::open(&self.path, MAX_READ_BYTES).map_err(unreadable)?;
        let mut summary: Option<Summary> = None;
        loop {
            match (reader.next_line().map_err(unreadable)?, &mut summary) {
                (NextLine::End, _) => break,
                (NextLine::Whole { value, .. }, None) => {
                    summary = self.begin(value, is_alive);
                    if summary.is_none() {
                        break;
                    }
                }
                (NextLine::Whole { value, .. }, Some(summary)) => summary.add(value, is_alive),
                (NextLine::Invalid(_) | NextLine::Unfinished, Some(summary)) => {
                    summary.incomplete = true;
                    break;
                }
                (NextLine::Invalid(_) | NextLine::Unfinished, None) => break,
            }
        }
        summary.ok_or_else(|| JournalError::NotAJournal {
            path: self.path.clone(),
            problem: "its first line does not open a session".to_owned(),
        })
    }

    fn begin(&self, first: LineFields, is_alive: bool) -> Option<Summary> {
        (first.record == "opened").then(|| Summary {
            id: self.id.clone(),
            session: first.session.unwrap_or_default(),
            opened_at: first.at,
            last_at: first.at,
            cells: 0,
            last_status: None,
            fate: if is_alive {
                SessionFate::Alive
            } else {
                SessionFate::Died
            }
            .name(),
            incomplete: false,
            workspace: first.workspace.unwrap_or_default(),
            bytes: self.bytes,
        })
    }
}

impl Summary {
    fn add(&mut self, line: LineFields, is_alive: bool) {
        self.last_at = line.at;
        match &line.record[..] {
            "begun" => {
                self.cells += 1;
                self.last_status = None;
            }
            "ended" => self.last_status = line.result.map(|result| result.status),
            "forked" => {
                self.session = line.session.unwrap_or_default();
                self.workspace = line.workspace.unwrap_or_default();
            }
            "stopped" => self.incomplete = true,
            "closed" if !is_alive => self.fate = SessionFate::Ended(String::new()).name(),
            _ => {}
        }
    }
}

/// The fields of a line that the summary needs. The others are skipped.
#[derive(Deserialize)]
struct LineFields {
    at: f64,
    record: String,
    session: Option<String>,
    workspace: Option<PathBuf>,
    result: Option<ResultFields>,
}

#[derive(Deserialize)]
struct ResultFields {
    status: Status,
}

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
        /// The fault of the file.
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
