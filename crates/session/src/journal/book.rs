//! One journal on disk, as its writer sees it: made with its first record, appended to, given up when that fails.

use super::bounds;
use super::directory;
use super::record::{Line, Record};
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The file of one session.
#[derive(Debug)]
pub(super) struct Book {
    path: PathBuf,
    /// Waits for the first record: a session in which nothing happened leaves no journal.
    waiting: Vec<(f64, Record)>,
    file: Option<File>,
    lines: u64,
    bytes: u64,
    given_up: Option<String>,
}

impl Book {
    /// A journal that begins with this record, as soon as a second one comes.
    pub(super) fn new(path: PathBuf, at: f64, opened: Record) -> Book {
        Book {
            path,
            waiting: vec![(at, opened)],
            file: None,
            lines: 0,
            bytes: 0,
            given_up: None,
        }
    }

    /// A journal that begins with all that this one holds.
    pub(super) fn fork(&self, path: PathBuf) -> io::Result<Book> {
        let mut book = Book {
            path,
            waiting: self.waiting.clone(),
            file: None,
            lines: self.lines,
            bytes: self.bytes,
            given_up: self.given_up.clone(),
        };
        if self.file.is_some() {
            let mut file = create(&book.path)?;
            if let Err(error) = self.copy_to(&mut file) {
                let _ = std::fs::remove_file(&book.path);
                return Err(error);
            }
            book.file = Some(file);
        }
        Ok(book)
    }

    fn copy_to(&self, file: &mut File) -> io::Result<()> {
        let copied = io::copy(&mut File::open(&self.path)?.take(self.bytes), file)?;
        if copied == self.bytes {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Why nothing is written any more.
    pub(super) fn given_up(&self) -> Option<&str> {
        self.given_up.as_deref()
    }

    /// Writes a record. The first time that this fails, it says why; from then on nothing is written.
    pub(super) fn write(&mut self, at: f64, record: Record) -> Result<(), String> {
        if self.given_up.is_some() {
            return Ok(());
        }
        self.append(at, record).inspect_err(|reason| {
            let reason = reason.clone();
            self.given_up = Some(reason.clone());
            // Often there is room for a few words where there is none for a record.
            let _ = self.append(at, Record::Stopped { reason });
        })
    }

    /// The session is over. What could not be told when it happened is told now, if it can be.
    pub(super) fn close(mut self, at: f64, closed: Record) {
        if self.file.is_none() && self.given_up.is_none() {
            return;
        }
        if let Some(reason) = self.given_up.clone() {
            let _ = self.append(at, Record::Stopped { reason });
        }
        let _ = self.append(at, closed);
    }

    fn append(&mut self, at: f64, record: Record) -> Result<(), String> {
        let failed = |path: &Path, error: io::Error| {
            format!("writing to {} failed: {error}", path.display())
        };
        if self.file.is_none() {
            self.file = Some(create(&self.path).map_err(|error| failed(&self.path, error))?);
        }
        for (at, record) in std::mem::take(&mut self.waiting) {
            self.append_line(at, record)
                .map_err(|error| failed(&self.path, error))?;
        }
        let has_room = self.bytes < bounds::JOURNAL;
        let is_last_word = matches!(record, Record::Stopped { .. } | Record::Closed { .. });
        if !has_room && !is_last_word {
            return Err(format!("it has reached {} MiB", bounds::JOURNAL >> 20));
        }
        self.append_line(at, record)
            .map_err(|error| failed(&self.path, error))
    }

    /// One write for one line. Of a line that did not fit, nothing stays.
    fn append_line(&mut self, at: f64, record: Record) -> io::Result<()> {
        let line = Line {
            n: self.lines,
            at,
            record,
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if let Err(error) = file.write_all(&text) {
            let _ = file.set_len(self.bytes);
            return Err(error);
        }
        self.lines += 1;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

/// Makes the file, for its owner alone, and locks it: as long as the lock is held, the host lives.
fn create(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        directory::make_room(directory);
    }
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600);
    let file = options.open(path)?;
    // A reader that asks just now whether it is locked is done in a moment. Without a lock (some network file systems) a living
    // session is taken for a dead one; the journal is good all the same.
    for _ in 0..10 {
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(file)
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
