//! Writing a run while it goes on.

use super::requests::RequestLog;
use super::{
    FORMAT_VERSION, ResumedRun, RunEnd, RunFileLine, RunProgress, RunStart, RunStoreError,
    StoredRun,
};
use crate::run::RunEvent;
use cellblock_records::{LineWriter, RecordDirectory, new_id, seconds_since_1970};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// The longest file of a run.
const MAX_RUN_BYTES: u64 = 256_000_000;

/// Writes the file of one run. As long as the writer exists, the file is locked and the run counts as running.
///
/// Dropping it without [`finish`](Self::finish) leaves a run that was cut off and can be resumed.
#[derive(Debug)]
pub struct RunWriter {
    lines: LineWriter,
    requests: RequestLog,
    /// Why nothing more is written, once a write failed.
    stopped: Option<String>,
}

/// The ends after which the next request to the model can succeed: the server failed, or a person stopped the run.
const RESUMABLE_ENDS: [&str; 2] = ["model_error", "cancelled"];

impl RunWriter {
    pub(super) fn create(
        directory: &RecordDirectory,
        start: RunStart,
    ) -> Result<RunWriter, RunStoreError> {
        let path = directory.file_path(&new_id());
        let lines = LineWriter::create(&path).map_err(|source| unwritable(path, source))?;
        let mut writer = RunWriter {
            lines,
            requests: RequestLog::after(0),
            stopped: None,
        };
        let version = FORMAT_VERSION;
        writer.write(RunFileLine::Run { version, start })?;
        Ok(writer)
    }

    pub(super) fn resume(path: &Path) -> Result<ResumedRun, RunStoreError> {
        let mut lines = LineWriter::open_existing(path)?;
        let run = StoredRun::read_unlocked(path)?;
        if let RunProgress::Ended(RunEnd { status, .. }) = &run.progress
            && !RESUMABLE_ENDS.contains(&status.as_str())
        {
            let status = status.clone();
            return Err(RunStoreError::Ended { id: run.id, status });
        }
        // Half a line, if there is one, would spoil the next.
        let cut = lines.cut_back_to(run.end);
        cut.map_err(|source| unwritable(path.to_owned(), source))?;
        let mut writer = RunWriter {
            lines,
            requests: RequestLog::after(run.texts.count()),
            stopped: None,
        };
        writer.write(RunFileLine::Resumed {})?;
        Ok(ResumedRun { run, writer })
    }

    /// The id of the run.
    pub fn id(&self) -> String {
        self.lines.id()
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// Keeps an event of a run, with the request that it belongs to. Parts of replies and of output are not kept: the whole follows.
    /// Errors are those of [`append_event`](Self::append_event).
    pub fn keep_event(&mut self, event: &RunEvent) -> Result<(), RunStoreError> {
        let (template, innermost) = innermost(event);
        if innermost.is_part() {
            return Ok(());
        }
        if let RunEvent::Asked {
            step,
            tokens,
            request: Some(request),
        } = innermost
        {
            let line = self.requests.line(*step, *tokens, template, request);
            self.write(RunFileLine::Request(line))?;
        }
        self.append_event(event)?;
        if matches!(event, RunEvent::Done { .. }) {
            self.sync_in_background();
        }
        Ok(())
    }

    /// Appends an event. The first time that this fails, the error says why; later events are dropped silently, and the file says
    /// that it is not complete.
    pub fn append_event(&mut self, event: &impl Serialize) -> Result<(), RunStoreError> {
        let event = serde_json::to_value(event);
        let event = event.map_err(|error| unwritable(self.path().to_owned(), error.into()))?;
        self.write(RunFileLine::Event(event))
    }

    /// Asks for everything so far to be brought to the disk, so that it survives a power failure too. Does not wait for it.
    pub fn sync_in_background(&self) {
        self.lines.sync_in_background();
    }

    /// Writes how the run ended, and waits until everything is on the disk.
    pub fn finish(mut self, end: RunEnd) -> Result<(), RunStoreError> {
        if let Some(reason) = self.stopped.take() {
            // There may be room again, and often there is room for a short line where there was none for a long one.
            let _ = self.append(RunFileLine::Stopped { reason });
        }
        self.append(RunFileLine::Ended(end))?;
        let synced = self.lines.sync();
        synced.map_err(|source| unwritable(self.path().to_owned(), source))
    }

    fn write(&mut self, entry: RunFileLine) -> Result<(), RunStoreError> {
        if self.stopped.is_some() {
            return Ok(());
        }
        let written = if self.lines.end().bytes < MAX_RUN_BYTES {
            self.append(entry)
        } else {
            let max_megabytes = MAX_RUN_BYTES / 1_000_000;
            Err(RunStoreError::Full { max_megabytes })
        };
        written.inspect_err(|error| self.stopped = Some(error.to_string()))
    }

    fn append(&mut self, entry: RunFileLine) -> Result<(), RunStoreError> {
        let written = self.lines.append_record(seconds_since_1970(), entry);
        written.map_err(|source| unwritable(self.path().to_owned(), source))
    }
}

/// The event of the innermost nested run, and the name of that run's template.
fn innermost(event: &RunEvent) -> (Option<&str>, &RunEvent) {
    let mut found = (None, event);
    while let RunEvent::Nested { name, inner } = found.1 {
        found = (Some(name.as_str()), inner);
    }
    found
}

fn unwritable(path: PathBuf, source: io::Error) -> RunStoreError {
    RunStoreError::Unwritable { path, source }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
