//! The summary of a journal: enough for a list, at a fraction of the cost of reading all of it.

use super::directory::JournalFile;
use super::error::JournalError;
use super::reader::{Life, MAX_READ_BYTES};
use cellblock_protocol::Status;
use cellblock_records::{LineReader, NextLine};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What `cellblock sessions list` shows of a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The id of the journal.
    pub id: String,
    /// The id of the session.
    pub session: String,
    /// When the session was opened, in seconds since 1970.
    pub opened_at: f64,
    /// When something was last recorded, in seconds since 1970.
    pub last_at: f64,
    /// The number of cells that began.
    pub cells: u64,
    /// How the last cell ended; absent when none did, or when it did not end.
    pub last_status: Option<Status>,
    /// The name of the session's [`Life`]: `alive`, `ended` or `died`.
    pub life: &'static str,
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
            life: if is_alive { Life::Alive } else { Life::Died }.name(),
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
            "closed" if !is_alive => self.life = Life::Ended(String::new()).name(),
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
