//! A run that is being kept.

use crate::directory::id_of;
use crate::line::{Beginning, Ending, Entry, Line, VERSION, now};
use crate::{Life, Run, RunError, RunFile, sync};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The longest record.
const MOST_BYTES: u64 = 256_000_000;

/// Writes the record of a run. As long as it exists, the file is locked, and the run counts as going on.
#[derive(Debug)]
pub struct RunWriter {
    path: PathBuf,
    file: File,
    lines: u64,
    bytes: u64,
    given_up: Option<String>,
}

impl RunWriter {
    pub(crate) fn create(directory: &Path, id: &str, begun: Beginning) -> Result<Self, RunError> {
        let path = directory.join(format!("{id}.jsonl"));
        let unwritable = |source| RunError::Unwritable {
            path: path.clone(),
            source,
        };
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(directory);
        made.map_err(unwritable)?;
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(unwritable)?;
        // Where there are no locks (some network file systems), a run that goes on is taken for one that was cut off.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut writer = Self {
            path,
            file,
            lines: 0,
            bytes: 0,
            given_up: None,
        };
        let version = VERSION;
        writer.write(Entry::Run { version, begun })?;
        Ok(writer)
    }

    pub(crate) fn resume(run: &RunFile) -> Result<(Run, Self), RunError> {
        let path = run.path.clone();
        let unwritable = |source| RunError::Unwritable {
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(unwritable)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let id = id_of(&path);
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(RunError::Alive { id });
        }
        let run = Run::read_file(&path)?;
        if let Life::Ended(Ending { status, .. }) = run.life {
            return Err(RunError::Ended { id, status });
        }
        let (bytes, lines) = run.end;
        // Half a line, if there is one, would be in the way of the next.
        file.set_len(bytes).map_err(unwritable)?;
        let mut writer = Self {
            path,
            file,
            lines,
            bytes,
            given_up: None,
        };
        writer.write(Entry::Resumed {})?;
        Ok((run, writer))
    }

    /// The id of the run.
    pub fn id(&self) -> String {
        id_of(&self.path)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an event. The first time that this fails, it says why; from then on events are dropped, and
    /// the record says that it is not complete.
    pub fn event(&mut self, event: &impl Serialize) -> Result<(), RunError> {
        let event = serde_json::to_value(event).map_err(|error| RunError::Unwritable {
            path: self.path.clone(),
            source: error.into(),
        })?;
        self.write(Entry::Event(event))
    }

    /// A step is over: what was written so far shall survive also the end of the power. Does not wait for that.
    pub fn step(&self) {
        sync::soon(&self.file);
    }

    /// The run is over. Waits until all is on the disk.
    pub fn end(mut self, ending: Ending) -> Result<(), RunError> {
        if let Some(reason) = self.given_up.take() {
            // There may be room again, and often there is room for a few words where there is none for more.
            let _ = self.append(Entry::Stopped { reason });
        }
        self.append(Entry::Ended(ending))?;
        let synced = self.file.sync_data();
        synced.map_err(|source| self.unwritable(source))
    }

    fn write(&mut self, entry: Entry) -> Result<(), RunError> {
        if self.given_up.is_some() {
            return Ok(());
        }
        let written = if self.bytes < MOST_BYTES {
            self.append(entry)
        } else {
            let limit = MOST_BYTES / 1_000_000;
            Err(RunError::Full { limit })
        };
        written.inspect_err(|error| self.given_up = Some(error.to_string()))
    }

    /// One write for one line. Of a line that did not fit, nothing stays.
    fn append(&mut self, entry: Entry) -> Result<(), RunError> {
        let line = Line {
            n: self.lines,
            at: now(),
            entry,
        };
        let text = serde_json::to_vec(&line);
        let mut text = text.map_err(|error| self.unwritable(error.into()))?;
        text.push(b'\n');
        if let Err(source) = self.file.write_all(&text) {
            let _ = self.file.set_len(self.bytes);
            return Err(self.unwritable(source));
        }
        self.lines += 1;
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn unwritable(&self, source: io::Error) -> RunError {
        RunError::Unwritable {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
