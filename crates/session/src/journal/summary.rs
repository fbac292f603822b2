//! A journal at a glance: enough for a list, at a fraction of the cost of reading it all.

use super::directory::{JournalFile, is_locked};
use super::error::JournalError;
use super::reader::Life;
use cellblock_protocol::Status;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

/// What a list tells of a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The id of the journal.
    pub id: String,
    /// The id of the session.
    pub session: String,
    /// When it began, in seconds since 1970.
    pub opened_at: f64,
    /// When something happened last.
    pub last_at: f64,
    /// How many cells began.
    pub cells: u64,
    /// How the last cell ended; absent when none did, or when it did not end.
    pub last_status: Option<Status>,
    /// `alive`, `ended` or `died`.
    pub life: &'static str,
    /// Whether the journal ends before the session did, or in the middle of a line.
    pub incomplete: bool,
    /// Where it worked.
    pub workspace: PathBuf,
    /// How long the journal is.
    pub bytes: u64,
}

impl JournalFile {
    /// Looks through it.
    pub fn summary(&self) -> Result<Summary, JournalError> {
        let unreadable = |source| JournalError::Unreadable {
            path: self.path.clone(),
            source,
        };
        let is_alive = is_locked(&self.path);
        let file = File::open(&self.path).map_err(unreadable)?;
        let mut input = BufReader::with_capacity(1 << 16, file);
        let mut text = Vec::new();
        let mut summary: Option<Summary> = None;
        loop {
            text.clear();
            if input.read_until(b'\n', &mut text).map_err(unreadable)? == 0 {
                break;
            }
            let glance = serde_json::from_slice::<Glance>(&text).ok();
            match (glance.filter(|_| text.ends_with(b"\n")), &mut summary) {
                (Some(glance), None) => summary = self.begin(glance, is_alive),
                (Some(glance), Some(summary)) => summary.add(glance, is_alive),
                (None, Some(summary)) => {
                    summary.incomplete = true;
                    break;
                }
                (None, None) => break,
            }
            if summary.is_none() {
                break;
            }
        }
        summary.ok_or_else(|| JournalError::NotAJournal {
            path: self.path.clone(),
            problem: "its first line does not open a session".to_owned(),
        })
    }

    fn begin(&self, first: Glance, is_alive: bool) -> Option<Summary> {
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
    fn add(&mut self, glance: Glance, is_alive: bool) {
        self.last_at = glance.at;
        match &glance.record[..] {
            "begun" => {
                self.cells += 1;
                self.last_status = None;
            }
            "ended" => self.last_status = glance.result.map(|result| result.status),
            "forked" => {
                self.session = glance.session.unwrap_or_default();
                self.workspace = glance.workspace.unwrap_or_default();
            }
            "stopped" => self.incomplete = true,
            "closed" if !is_alive => self.life = Life::Ended(String::new()).name(),
            _ => {}
        }
    }
}

/// The fields of a line that matter here; the others are passed over without being kept.
#[derive(Deserialize)]
struct Glance {
    at: f64,
    record: String,
    session: Option<String>,
    workspace: Option<PathBuf>,
    result: Option<ResultGlance>,
}

#[derive(Deserialize)]
struct ResultGlance {
    status: Status,
}
