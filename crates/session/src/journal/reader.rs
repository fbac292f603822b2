//! Reading a journal: as far as it is whole, and saying where it is not.

use super::directory::{JournalFile, is_locked};
use super::error::JournalError;
use super::record::{CallOutcome, Ended, Line, Opened, Record, VERSION};
use cellblock_protocol::{ToolCall, ToolOutcome};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// No journal is longer: its writer stops at an eighth of this.
const LONGEST: u64 = 512 << 20;

/// A session's story, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// The id of the journal.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The id of the session.
    pub session: String,
    /// Its workspace, as the host calls it.
    pub workspace: PathBuf,
    /// How it began.
    pub opened: Opened,
    /// When, in seconds since 1970.
    pub opened_at: f64,
    /// Everything after that, in order.
    pub lines: Vec<Line>,
    /// Whether it goes on.
    pub life: Life,
    /// Why there is less in the journal than happened, if that is so.
    pub incomplete: Option<String>,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It lives: its host holds the journal.
    Alive,
    /// It ended in order, and why.
    Ended(String),
    /// Its host ended without a word.
    Died,
}

impl Life {
    /// One word.
    pub fn name(&self) -> &'static str {
        match self {
            Life::Alive => "alive",
            Life::Ended(_) => "ended",
            Life::Died => "died",
        }
    }
}

impl JournalFile {
    /// Reads it.
    pub fn read(&self) -> Result<Journal, JournalError> {
        Journal::read(&self.path)
    }
}

impl Journal {
    /// Reads the journal in this file, up to the first line that is broken or missing.
    pub fn read(path: &Path) -> Result<Journal, JournalError> {
        let unreadable = |source| JournalError::Unreadable {
            path: path.to_owned(),
            source,
        };
        // First, so that a session that ends meanwhile is not taken for one that died.
        let is_alive = is_locked(path);
        let file = File::open(path).map_err(unreadable)?;
        let (lines, broken) = read_lines(BufReader::with_capacity(1 << 16, file.take(LONGEST)))
            .map_err(unreadable)?;
        Journal::from_lines(path, lines, broken, is_alive)
    }

    fn from_lines(
        path: &Path,
        lines: Vec<Line>,
        broken: Option<String>,
        is_alive: bool,
    ) -> Result<Journal, JournalError> {
        let no_journal = |problem: String| JournalError::NotAJournal {
            path: path.to_owned(),
            problem,
        };
        let mut lines = lines.into_iter();
        let (opened_at, opened) = match lines.next() {
            Some(Line {
                at,
                record: Record::Opened(opened),
                ..
            }) => (at, *opened),
            Some(_) => return Err(no_journal("its first line does not open a session".into())),
            None => return Err(no_journal(broken.unwrap_or_else(|| "it is empty".into()))),
        };
        if opened.version > VERSION {
            return Err(JournalError::Newer {
                path: path.to_owned(),
                version: opened.version,
                known: VERSION,
            });
        }
        let mut journal = Journal {
            id: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            path: path.to_owned(),
            session: opened.session.clone(),
            workspace: opened.workspace.clone(),
            opened,
            opened_at,
            lines: lines.collect(),
            life: if is_alive { Life::Alive } else { Life::Died },
            incomplete: broken,
        };
        for line in &mut journal.lines {
            match &mut line.record {
                Record::Ended(ended) => put_calls_back(ended),
                Record::Closed { reason } if !is_alive => {
                    journal.life = Life::Ended(reason.clone());
                }
                // Of a session and its fork, the end is the fork's.
                Record::Forked {
                    session, workspace, ..
                } => {
                    journal.session.clone_from(session);
                    journal.workspace.clone_from(workspace);
                }
                Record::Stopped { reason } => {
                    journal
                        .incomplete
                        .get_or_insert_with(|| format!("it was not written to the end: {reason}"));
                }
                _ => {}
            }
        }
        Ok(journal)
    }
}

/// The lines that are whole, and what is wrong with the first that is not.
pub(super) fn read_lines(mut input: impl BufRead) -> io::Result<(Vec<Line>, Option<String>)> {
    let mut lines: Vec<Line> = Vec::new();
    let mut text = Vec::new();
    loop {
        text.clear();
        if input.read_until(b'\n', &mut text)? == 0 {
            return Ok((lines, None));
        }
        let number = lines.len() + 1;
        if text.last() != Some(&b'\n') {
            let problem = format!("it is cut off in the middle of line {number}");
            return Ok((lines, Some(problem)));
        }
        let line = match serde_json::from_slice::<Line>(&text) {
            Ok(line) if line.n == lines.len() as u64 => line,
            Ok(line) => {
                let problem = format!("line {number} is missing: number {} is there", line.n + 1);
                return Ok((lines, Some(problem)));
            }
            Err(error) => {
                let problem = format!("line {number} cannot be read: {error}");
                return Ok((lines, Some(problem)));
            }
        };
        lines.push(line);
    }
}

/// A journal has the calls once; a result has them too.
fn put_calls_back(ended: &mut Ended) {
    let call = |(at, call): (usize, &super::RecordedCall)| ToolCall {
        call: format!("c{}", at + 1),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        ms: call.ms,
        outcome: match call.outcome {
            CallOutcome::Result(_) | CallOutcome::NotKept(_) => ToolOutcome::Ok,
            CallOutcome::Error(_) => ToolOutcome::Error,
            CallOutcome::Unanswered => ToolOutcome::Unanswered,
        },
    };
    ended.result.tool_calls = ended.calls.iter().enumerate().map(call).collect();
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
