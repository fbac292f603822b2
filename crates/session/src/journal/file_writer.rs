//! Writing one journal: created with its first record, appended to, stopped at the first write that fails.

use super::bounds;
use super::directory::make_room;
use super::record::Record;
use cellblock_records::LineWriter;
use std::io;
use std::path::{Path, PathBuf};

/// Writes the file of one session's journal.
#[derive(Debug)]
pub(super) struct JournalWriter {
    path: PathBuf,
    /// Records that wait for the second one: a session in which nothing happened leaves no journal.
    pending: Vec<(f64, Record)>,
    lines: Option<LineWriter>,
    /// Why nothing more is written, once a write failed.
    stopped: Option<String>,
}

impl JournalWriter {
    /// A journal that begins with this record. Its file is created when a second record comes.
    pub(super) fn new(path: PathBuf, at: f64, opened: Record) -> JournalWriter {
        JournalWriter {
            path,
            pending: vec![(at, opened)],
            lines: None,
            stopped: None,
        }
    }

    /// A journal that begins with all records of this one.
    pub(super) fn fork(&self, path: PathBuf) -> io::Result<JournalWriter> {
        let lines = match &self.lines {
            Some(lines) => {
                make_room_beside(&path);
                Some(lines.copy_to(&path)?)
            }
            None => None,
        };
        Ok(JournalWriter {
            path,
            pending: self.pending.clone(),
            lines,
            stopped: self.stopped.clone(),
        })
    }

    /// Why nothing more is written, where that is so.
    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Writes a record. The first time that this fails, the error says why; later records are dropped silently.
    pub(super) fn write(&mut self, at: f64, record: Record) -> Result<(), String> {
        if self.stopped.is_some() {
            return Ok(());
        }
        self.append(at, record).inspect_err(|reason| {
            let reason = reason.clone();
            self.stopped = Some(reason.clone());
            // Often there is room for a short line where there was none for a long one.
            let _ = self.append(at, Record::Stopped { reason });
        })
    }

    /// Writes that the session has ended, and why the journal stopped before, if it did.
    pub(super) fn close(mut self, at: f64, closed: Record) {
        if self.lines.is_none() && self.stopped.is_none() {
            return;
        }
        if let Some(reason) = self.stopped.clone() {
            let _ = self.append(at, Record::Stopped { reason });
        }
        let _ = self.append(at, closed);
    }

    fn append(&mut self, at: f64, record: Record) -> Result<(), String> {
        let path = self.path.clone();
        let failed = |error: io::Error| format!("writing to {} failed: {error}", path.display());
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => {
                make_room_beside(&self.path);
                let created = LineWriter::create(&self.path).map_err(failed)?;
                self.lines.insert(created)
            }
        };
        for (at, record) in std::mem::take(&mut self.pending) {
            lines.append_record(at, record).map_err(failed)?;
        }
        let has_room = lines.end().bytes < bounds::MAX_JOURNAL_BYTES;
        let is_last = matches!(record, Record::Stopped { .. } | Record::Closed { .. });
        if !has_room && !is_last {
            return Err(format!(
                "it has reached {} MiB",
                bounds::MAX_JOURNAL_BYTES >> 20
            ));
        }
        lines.append_record(at, record).map_err(failed)
    }
}

fn make_room_beside(path: &Path) {
    if let Some(directory) = path.parent() {
        make_room(directory);
    }
}

#[cfg(test)]
#[path = "file_writer_tests.rs"]
mod tests;
