//! An append-only file of JSON lines, read back at the start.

use crate::engine::EngineError;
use cellblock_records::{LinePosition, LineReader, LineWriter, NextLine, RecordError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};

/// The longest line of a log. A record of a journal is a string in its line, so its quotes take two bytes.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// A list of values that only grows, in memory or in a file.
#[derive(Debug)]
pub(super) enum Log<T> {
    Memory(Vec<T>),
    File(LineWriter),
}

impl<T: Serialize + DeserializeOwned + Clone> Log<T> {
    pub(super) fn in_memory() -> Log<T> {
        Log::Memory(Vec::new())
    }

    /// Opens a file, or makes it, and returns its values. A last line that was not finished is cut off: its append was not
    /// acknowledged.
    pub(super) fn open(path: &Path) -> Result<(Log<T>, Vec<T>), EngineError> {
        if !path.exists() {
            let created = LineWriter::create(path).map_err(|error| failed(path, &error));
            return Ok((Log::File(created?), Vec::new()));
        }
        let opened = LineWriter::open_existing(path);
        let mut writer = opened.map_err(|error: RecordError| failed(path, &error))?;
        let (values, end) = read(path)?;
        let cut = writer.cut_back_to(end);
        cut.map_err(|error| failed(path, &error))?;
        Ok((Log::File(writer), values))
    }

    /// Appends a value and returns once it is on the disk.
    pub(super) fn append(&mut self, value: T) -> Result<(), EngineError> {
        match self {
            Log::Memory(values) => values.push(value),
            Log::File(writer) => {
                let path = PathBuf::from(writer.path());
                let end = writer.end();
                let mut written = writer.append(&value);
                if written.is_ok() && writer.end().bytes - end.bytes > MAX_LINE_BYTES {
                    // Read back, a longer line would count as unfinished.
                    written = Err(io::ErrorKind::FileTooLarge.into());
                }
                if let Err(error) = written.and_then(|()| writer.sync()) {
                    // What is not known to be on the disk must not be read back later.
                    let _ = writer.cut_back_to(end);
                    return Err(failed(&path, &error));
                }
            }
        }
        Ok(())
    }

    /// All values.
    pub(super) fn values(&self) -> Result<Vec<T>, EngineError> {
        match self {
            Log::Memory(values) => Ok(values.clone()),
            Log::File(writer) => read(writer.path()).map(|(values, _)| values),
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<(Vec<T>, LinePosition), EngineError> {
    let opened = LineReader::open(path, MAX_LINE_BYTES);
    let mut reader = opened.map_err(|error| failed(path, &error))?;
    let mut values = Vec::new();
    let mut end = LinePosition::default();
    loop {
        match reader.next_line().map_err(|error| failed(path, &error))? {
            NextLine::Whole { value, bytes } => {
                values.push(value);
                end.lines += 1;
                end.bytes += bytes;
            }
            NextLine::Invalid(error) => return Err(failed(path, &error)),
            NextLine::Unfinished | NextLine::End => return Ok((values, end)),
        }
    }
}

/// The error of a file.
pub(super) fn failed(path: &Path, error: &dyn std::fmt::Display) -> EngineError {
    EngineError(format!("{}: {error}", path.display()))
}
