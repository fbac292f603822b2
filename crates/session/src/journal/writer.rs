//! The thread that writes journals, so that no cell waits for a disk. A journal is created with its first record, appended to,
//! and stopped at the first write that fails.

use crate::events::SessionEvents;
use crate::journal::bounds;
use crate::journal::directory::make_room;
use crate::journal::record::{EndedRecord, JournalRecord};
use cellblock_protocol::{Event, MimeBundle};
use cellblock_records::LineWriter;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};
use std::{io, thread};
use tokio::sync::oneshot;

/// The bytes of records that may wait to be written. A disk that falls behind by more costs the journal, not the session.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// The queue to the thread that writes all journals of the process. The thread ends with the last recorder.
#[derive(Debug)]
pub(super) struct WriterThread {
    messages: mpsc::Sender<WriterMessage>,
    queued_bytes: Arc<AtomicUsize>,
}

/// The number of a journal within this process.
pub(super) type Key = u64;

/// The way to tell a session, once, that its journal stopped.
#[derive(Clone, Debug)]
pub(super) struct StopListener {
    pub(super) session: String,
    pub(super) stopped: Arc<OnceLock<String>>,
    pub(super) logs: SessionEvents,
}

pub(super) enum WriterMessage {
    Open {
        key: Key,
        path: PathBuf,
        at: f64,
        opened: JournalRecord,
        listener: StopListener,
    },
    Write {
        key: Key,
        at: f64,
        record: JournalRecord,
        bytes: usize,
    },
    Fork {
        key: Key,
        from: Key,
        path: PathBuf,
        at: f64,
        forked: JournalRecord,
        listener: StopListener,
    },
    /// Says when all messages before this one are done.
    Flush { done: oneshot::Sender<()> },
    Close {
        key: Key,
        at: f64,
        closed: JournalRecord,
        done: Option<oneshot::Sender<()>>,
    },
}

impl WriterThread {
    /// The writer thread of this process, which is started if there is none.
    pub(super) fn shared() -> Arc<WriterThread> {
        static SHARED: Mutex<Weak<WriterThread>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = shared.upgrade() {
            return writer;
        }
        let (messages, inbox) = mpsc::channel();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let writer = Arc::new(WriterThread {
            messages,
            queued_bytes: Arc::clone(&queued_bytes),
        });
        *shared = Arc::downgrade(&writer);
        // Where no thread can be started, sending fails, and the sessions are told.
        let _ = thread::Builder::new()
            .name("cellblock-journal".to_owned())
            .spawn(move || write_all(&inbox, &queued_bytes));
        writer
    }

    /// A number that no other journal of this process has.
    pub(super) fn new_key() -> Key {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a record. Returns `false` when too much is queued already, or no thread writes.
    pub(super) fn write(&self, key: Key, at: f64, record: JournalRecord) -> bool {
        let bytes = memory_bytes(&record);
        if self.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.send(WriterMessage::Write {
            key,
            at,
            record,
            bytes,
        })
    }

    /// Queues any other message. Returns `false` when no thread writes.
    pub(super) fn send(&self, message: WriterMessage) -> bool {
        self.messages.send(message).is_ok()
    }
}

fn write_all(inbox: &mpsc::Receiver<WriterMessage>, queued_bytes: &AtomicUsize) {
    let mut journals: HashMap<Key, (JournalWriter, StopListener)> = HashMap::new();
    while let Ok(message) = inbox.recv() {
        match message {
            WriterMessage::Open {
                key,
                path,
                at,
                opened,
                listener,
            } => {
                journals.insert(key, (JournalWriter::new(path, at, opened), listener));
            }
            WriterMessage::Write {
                key,
                at,
                record,
                bytes,
            } => {
                if let Some((journal, listener)) = journals.get_mut(&key) {
                    listener.report(journal.write(at, record));
                }
                queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            WriterMessage::Fork {
                key,
                from,
                path,
                at,
                forked,
                listener,
            } => {
                let Some((parent, _)) = journals.get(&from) else {
                    listener.stop("the journal of the session that it was forked from had ended");
                    continue;
                };
                match parent.fork(path) {
                    Ok(mut journal) => {
                        if let Some(reason) = journal.stopped() {
                            listener.stop(reason);
                        }
                        listener.report(journal.write(at, forked));
                        journals.insert(key, (journal, listener));
                    }
                    Err(error) => {
                        listener.stop(&format!("it could not be made for a fork: {error}"))
                    }
                }
            }
            WriterMessage::Flush { done } => {
                let _ = done.send(());
            }
            WriterMessage::Close {
                key,
                at,
                closed,
                done,
            } => {
                if let Some((journal, _)) = journals.remove(&key) {
                    journal.close(at, closed);
                }
                if let Some(done) = done {
                    let _ = done.send(());
                }
            }
        }
    }
}

impl StopListener {
    fn report(&self, outcome: Result<(), String>) {
        if let Err(reason) = outcome {
            self.stop(&reason);
        }
    }

    /// Sends a log event of the session that says why its journal stopped. Only the first reason is sent.
    pub(super) fn stop(&self, reason: &str) {
        if self.stopped.set(reason.to_owned()).is_ok() {
            let text = format!(
                "the journal of session `{}` stopped: {reason}; the session goes on, but what comes now is not in its journal\n",
                self.session
            );
            self.logs.send(Event::Log { text });
        }
    }
}

/// About how many bytes of memory a record takes while it is queued.
fn memory_bytes(record: &JournalRecord) -> usize {
    const MIN_RECORD_BYTES: usize = 1024;
    MIN_RECORD_BYTES
        + match record {
            JournalRecord::Begun { code, env, .. } => {
                let bytes = |(name, value): (&String, &String)| name.len() + value.len();
                code.len() + env.iter().map(bytes).sum::<usize>()
            }
            JournalRecord::PutFile { contents, .. } => {
                contents.as_ref().map_or(0, |contents| contents.len())
            }
            JournalRecord::Ended(ended) => weight_of(ended),
            JournalRecord::Seeded { variables } => {
                variables.values().map(super::bounds::weight).sum::<usize>()
            }
            _ => 0,
        }
}

/// About what the record of a cell takes in memory.
pub(crate) fn weight_of(ended: &EndedRecord) -> usize {
    let result = &ended.result;
    let bundles = result
        .displays
        .iter()
        .chain(result.value.iter().map(|it| &it.mime));
    result.stdout.len()
        + result.stderr.len()
        + result.output.len()
        + bundles.map(MimeBundle::bytes).sum::<usize>()
        + super::notes::weight(ended)
}

/// Writes the file of one session's journal.
#[derive(Debug)]
pub(super) struct JournalWriter {
    path: PathBuf,
    /// Records that wait for the second one: a session in which nothing happened leaves no journal.
    pending: Vec<(f64, JournalRecord)>,
    lines: Option<LineWriter>,
    /// Why nothing more is written, once a write failed.
    stopped: Option<String>,
}

impl JournalWriter {
    /// A journal that begins with this record. Its file is created when a second record comes.
    pub(super) fn new(path: PathBuf, at: f64, opened: JournalRecord) -> JournalWriter {
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
    pub(super) fn write(&mut self, at: f64, record: JournalRecord) -> Result<(), String> {
        if self.stopped.is_some() {
            return Ok(());
        }
        self.append(at, record).inspect_err(|reason| {
            let reason = reason.clone();
            self.stopped = Some(reason.clone());
            // Often there is room for a short line where there was none for a long one.
            let _ = self.append(at, JournalRecord::Stopped { reason });
        })
    }

    /// Writes that the session has ended, and why the journal stopped before, if it did.
    pub(super) fn close(mut self, at: f64, closed: JournalRecord) {
        if self.lines.is_none() && self.stopped.is_none() {
            return;
        }
        if let Some(reason) = self.stopped.clone() {
            let _ = self.append(at, JournalRecord::Stopped { reason });
        }
        let _ = self.append(at, closed);
    }

    fn append(&mut self, at: f64, record: JournalRecord) -> Result<(), String> {
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
        let is_last = matches!(
            record,
            JournalRecord::Stopped { .. } | JournalRecord::Closed { .. }
        );
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
