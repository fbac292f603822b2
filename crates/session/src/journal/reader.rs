//! Reading a journal as far as it is whole.

use crate::journal::directory::JournalError;
use crate::journal::directory::JournalFile;
use crate::journal::record::{
    CallOutcome, EndedRecord, JournalLine, JournalRecord, OpenedRecord, VERSION,
};
use cellblock_protocol::{ToolCall, ToolOutcome};
use cellblock_records::{LineReader, NextLine, id_of, is_locked};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// The longest journal that is read. Its writer stops at an eighth of this.
pub(super) const MAX_READ_BYTES: u64 = 512 << 20;

/// A journal that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// The id of the journal.
    pub id: String,
    /// The path of its file.
    pub path: PathBuf,
    /// The id of the session.
    pub session: String,
    /// The workspace of the session, as a path of the host.
    pub workspace: PathBuf,
    /// The first record: how the session was opened.
    pub opened: OpenedRecord,
    /// The time when the session was opened, in seconds since 1970.
    pub opened_at: f64,
    /// All lines after the first, in order.
    pub lines: Vec<JournalLine>,
    /// Whether the session is alive, was closed, or died with its host.
    pub fate: SessionFate,
    /// Why something is missing in the journal, if something is.
    pub incomplete: Option<String>,
}

/// Whether a session is alive, was closed, or died with its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionFate {
    /// The session is alive: its host holds a lock on the journal.
    Alive,
    /// The session was closed, for this reason.
    Ended(String),
    /// The host ended before it closed the session.
    Died,
}

impl SessionFate {
    /// The name of the state, in one word.
    pub fn name(&self) -> &'static str {
        match self {
            SessionFate::Alive => "alive",
            SessionFate::Ended(_) => "ended",
            SessionFate::Died => "died",
        }
    }
}

impl JournalFile {
    /// Reads the journal.
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
        let (lines, broken) =
            read_lines(BufReader::with_capacity(1 << 16, file.take(MAX_READ_BYTES)))
                .map_err(unreadable)?;
        Journal::from_lines(path, lines, broken, is_alive)
    }

    /// The journal that these records make, in order. It has no file: `id` stands for one in messages.
    pub fn from_records(
        id: &str,
        records: impl IntoIterator<Item = JournalRecord>,
    ) -> Result<Journal, JournalError> {
        let numbered = (0..).zip(records);
        let line = |(n, record)| JournalLine { n, at: 0.0, record };
        let lines = numbered.map(line).collect();
        Journal::from_lines(Path::new(id), lines, None, false)
    }

    fn from_lines(
        path: &Path,
        lines: Vec<JournalLine>,
        broken: Option<String>,
        is_alive: bool,
    ) -> Result<Journal, JournalError> {
        let no_journal = |problem: String| JournalError::NotAJournal {
            path: path.to_owned(),
            problem,
        };
        let mut lines = lines.into_iter();
        let (opened_at, opened) = match lines.next() {
            Some(JournalLine {
                at,
                record: JournalRecord::Opened(opened),
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
            id: id_of(path),
            path: path.to_owned(),
            session: opened.session.clone(),
            workspace: opened.workspace.clone(),
            opened,
            opened_at,
            lines: lines.collect(),
            fate: if is_alive {
                SessionFate::Alive
            } else {
                SessionFate::Died
            },
            incomplete: broken,
        };
        for line in &mut journal.lines {
            match &mut line.record {
                JournalRecord::Ended(ended) => put_calls_back(ended),
                JournalRecord::Closed { reason } if !is_alive => {
                    journal.fate = SessionFate::Ended(reason.clone());
                }
                // Of a session and its fork, the end is the fork's.
                JournalRecord::Forked {
                    session, workspace, ..
                } => {
                    journal.session.clone_from(session);
                    journal.workspace.clone_from(workspace);
                }
                JournalRecord::Stopped { reason } => {
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
pub(super) fn read_lines(input: impl BufRead) -> io::Result<(Vec<JournalLine>, Option<String>)> {
    let mut reader = LineReader::new(input, MAX_READ_BYTES);
    let mut lines: Vec<JournalLine> = Vec::new();
    loop {
        let number = lines.len() + 1;
        let problem = match reader.next_line::<JournalLine>()? {
            NextLine::End => return Ok((lines, None)),
            NextLine::Whole { value, .. } if value.n == lines.len() as u64 => {
                lines.push(value);
                continue;
            }
            NextLine::Whole { value, .. } => {
                format!("line {number} is missing: number {} is there", value.n + 1)
            }
            NextLine::Invalid(error) => format!("line {number} cannot be read: {error}"),
            NextLine::Unfinished => format!("it is cut off in the middle of line {number}"),
        };
        return Ok((lines, Some(problem)));
    }
}

/// A journal has the calls once; a result has them too.
fn put_calls_back(ended: &mut EndedRecord) {
    let call = |(at, call): (usize, &super::RecordedCall)| ToolCall {
        call: format!("c{}", at + 1),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        time: call.time,
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
