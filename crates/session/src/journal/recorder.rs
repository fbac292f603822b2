//! The recorder of one session: it hands records to the writer thread and never waits, unless the session was given a second place for
//! its records.

use crate::events::SessionEvents;
use crate::journal::bounds;
use crate::journal::directory::JournalError;
use crate::journal::notes::CellNotes;
use crate::journal::reader::Journal;
use crate::journal::record::{EndedRecord, JournalRecord, OpenedRecord, PythonUsed, VERSION};
use crate::journal::writer::{Key, StopListener, WriterMessage, WriterThread};
use crate::live::LiveSession;
use crate::runtime::RuntimeState;
use cellblock_protocol::guest::{FromHead, ToHead};
use cellblock_protocol::{Cell, CellResult, Journaling, SessionOptions};
use cellblock_records::{RecordDirectory, new_id, seconds_since_1970};
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// The journal that a live session writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalStatus<'a> {
    /// The id of the journal.
    pub id: &'a str,
    /// The file. It is made when the first thing is recorded.
    pub path: &'a Path,
    /// Why the journal stopped, if it did. The session goes on without it.
    pub stopped: Option<&'a str>,
}

/// How long the end of a session waits for its last records to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Records what happens in one session. Does nothing where no journal is kept. Clones write the same journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    inner: Option<Arc<OpenJournal>>,
}

#[derive(Debug)]
struct OpenJournal {
    key: Key,
    id: String,
    path: PathBuf,
    writer: Arc<WriterThread>,
    listener: StopListener,
    opened: OpenedRecord,
    /// Where each record must be before the session goes on, if the session was given such a place.
    sink: OnceLock<Arc<dyn JournalSink>>,
}

/// A second place for the records of a session, which a session waits for: see [`Session::commit_to`](crate::Session::commit_to).
pub trait JournalSink: fmt::Debug + Send + Sync {
    /// Keeps a record for the next [`commit`](JournalSink::commit). The session does not wait for it.
    fn note(&self, record: JournalRecord);

    /// Stores a record, after all that were noted before. The session answers its caller once this returns.
    ///
    /// An error ends the session, for this reason: its memory holds what is not recorded.
    fn commit(
        &self,
        record: JournalRecord,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
}

impl Recorder {
    /// Begins a journal in this directory. There is a file once something happened.
    pub(crate) fn open(directory: &Path, opened: OpenedRecord, logs: &SessionEvents) -> Recorder {
        let writer = WriterThread::shared();
        let inner = OpenJournal::new(directory, opened.session.clone(), opened, writer, logs);
        let is_accepted = inner.writer.send(WriterMessage::Open {
            key: inner.key,
            path: inner.path.clone(),
            at: seconds_since_1970(),
            opened: JournalRecord::Opened(Box::new(inner.opened.clone())),
            listener: inner.listener.clone(),
        });
        inner.check(is_accepted);
        Recorder {
            inner: Some(Arc::new(inner)),
        }
    }

    /// Begins the journal of a fork of this session, with all that happened so far.
    ///
    /// `session` is the fork's id, `cell` the last one whose effects it has.
    pub(crate) fn fork(
        &self,
        session: &str,
        cell: u64,
        workspace: &Path,
        logs: &SessionEvents,
    ) -> Recorder {
        let Some(parent) = &self.inner else {
            return Recorder::default();
        };
        let directory = parent.path.parent().unwrap_or(Path::new("."));
        let (opened, writer) = (parent.opened.clone(), Arc::clone(&parent.writer));
        let inner = OpenJournal::new(directory, session.to_owned(), opened, writer, logs);
        let is_accepted = inner.writer.send(WriterMessage::Fork {
            key: inner.key,
            from: parent.key,
            path: inner.path.clone(),
            at: seconds_since_1970(),
            forked: JournalRecord::Forked {
                session: session.to_owned(),
                from: parent.listener.session.clone(),
                cell,
                workspace: workspace.to_owned(),
            },
            listener: inner.listener.clone(),
        });
        inner.check(is_accepted);
        Recorder {
            inner: Some(Arc::new(inner)),
        }
    }

    /// The journal that is written, if there is one.
    pub(crate) fn status(&self) -> Option<JournalStatus<'_>> {
        let inner = self.inner.as_ref()?;
        Some(JournalStatus {
            id: &inner.id,
            path: &inner.path,
            stopped: inner.listener.stopped.get().map(String::as_str),
        })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.inner.is_some()
    }

    /// Records something.
    pub(crate) fn note(&self, record: JournalRecord) {
        let Some(inner) = &self.inner else {
            return;
        };
        if let Some(sink) = inner.sink.get() {
            sink.note(record.clone());
        }
        inner.write(record);
    }

    /// Records something, and waits until the record is in the session's second place, if the session has one. An error says why the
    /// session must end.
    pub(crate) async fn commit(&self, record: JournalRecord) -> Result<(), String> {
        let Some(inner) = &self.inner else {
            return Ok(());
        };
        if let Some(sink) = inner.sink.get() {
            sink.commit(record.clone()).await?;
        }
        inner.write(record);
        Ok(())
    }

    /// The second place for records, if the session has one.
    fn sink(&self) -> Option<&Arc<dyn JournalSink>> {
        self.inner.as_ref()?.sink.get()
    }

    /// Records that the host wrote a file.
    pub(crate) async fn put_file(&self, path: &str, contents: Arc<Vec<u8>>) -> Result<(), String> {
        let bytes = contents.len() as u64;
        let record = JournalRecord::PutFile {
            path: path.to_owned(),
            bytes,
            contents: (bytes <= bounds::MAX_FILE_BYTES).then_some(contents),
        };
        self.commit(record).await
    }

    /// Sends all later records to this place too. Only the first call counts.
    pub(crate) fn commit_to(&self, sink: Arc<dyn JournalSink>) {
        if let Some(inner) = &self.inner {
            let _ = inner.sink.set(sink);
        }
    }

    /// All records so far. Without a journal there are none.
    pub(crate) async fn records(&self) -> Result<Vec<JournalRecord>, JournalError> {
        let Some(inner) = &self.inner else {
            return Ok(Vec::new());
        };
        let (done, written) = oneshot::channel();
        inner.writer.send(WriterMessage::Flush { done });
        let _ = written.await;
        let opened = JournalRecord::Opened(Box::new(inner.opened.clone()));
        let path = inner.path.clone();
        let read = tokio::task::spawn_blocking(move || match path.exists() {
            true => Journal::read(&path).map(|journal| journal.lines),
            // Nothing happened yet.
            false => Ok(Vec::new()),
        });
        let lines = read.await.unwrap_or_else(|error| {
            Err(JournalError::Unreadable {
                path: inner.path.clone(),
                source: std::io::Error::other(error),
            })
        })?;
        let later = lines.into_iter().map(|line| line.record);
        Ok([opened].into_iter().chain(later).collect())
    }

    /// Records that the session is over, and waits until that is written.
    pub(crate) async fn close(&self, reason: &str) {
        let Some(inner) = &self.inner else {
            return;
        };
        let (done, written) = oneshot::channel();
        inner.writer.send(inner.close_message(reason, Some(done)));
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, written).await;
    }
}

impl OpenJournal {
    fn new(
        directory: &Path,
        session: String,
        opened: OpenedRecord,
        writer: Arc<WriterThread>,
        logs: &SessionEvents,
    ) -> OpenJournal {
        let id = new_id();
        OpenJournal {
            key: WriterThread::new_key(),
            path: RecordDirectory::new(directory).file_path(&id),
            id,
            writer,
            listener: StopListener {
                session,
                stopped: Arc::new(OnceLock::new()),
                logs: logs.clone(),
            },
            opened,
            sink: OnceLock::new(),
        }
    }

    fn write(&self, record: JournalRecord) {
        if self.listener.stopped.get().is_none() {
            self.check(self.writer.write(self.key, seconds_since_1970(), record));
        }
    }

    fn check(&self, is_accepted: bool) {
        if !is_accepted {
            self.listener
                .stop("the disk is too slow: too much waits to be written");
        }
    }

    fn close_message(&self, reason: &str, done: Option<oneshot::Sender<()>>) -> WriterMessage {
        WriterMessage::Close {
            key: self.key,
            at: seconds_since_1970(),
            closed: JournalRecord::Closed {
                reason: reason.to_owned(),
            },
            done,
        }
    }
}

impl Drop for OpenJournal {
    fn drop(&mut self) {
        // After a proper close there is nothing left to close; before the first cell there is no file.
        self.writer
            .send(self.close_message("its host let go of it", None));
    }
}

/// A recorder and its notes on the cell that runs: what the session's task holds.
///
/// The notes are taken also where no journal is kept: a replay after a crash needs them.
#[derive(Debug, Default)]
pub(crate) struct SessionJournal {
    pub(crate) recorder: Recorder,
    notes: CellNotes,
}

/// The record of a cell that ended.
#[derive(Debug)]
pub(crate) struct CellRecord {
    pub(crate) ended: EndedRecord,
    /// Why the record does not hold every answer that the cell got, if that is so.
    pub(crate) gap: Option<String>,
}

impl SessionJournal {
    pub(crate) fn new(recorder: Recorder) -> SessionJournal {
        SessionJournal {
            recorder,
            notes: CellNotes::default(),
        }
    }

    /// Records what was sent to the head of a running cell: the cell itself, or an answer.
    pub(crate) fn sent(&mut self, message: &ToHead, of: &Cell) {
        match message {
            ToHead::Run { cell, .. } => {
                self.notes = CellNotes::default();
                if self.recorder.is_on() {
                    self.recorder.note(JournalRecord::Begun {
                        cell: *cell,
                        code: of.code.clone(),
                        timeout: of.timeout,
                        atomic: of.atomic,
                        env: of.env.clone(),
                        silent: of.silent,
                        keep_value: of.keep_value,
                        key: of.key.clone(),
                    });
                }
            }
            answer => self.notes.answered(answer),
        }
    }

    /// Records what the head of a running cell sent.
    pub(crate) fn note_frame(&mut self, frame: &FromHead) {
        self.notes.note_frame(frame);
    }

    /// The record of a cell that ran again, without the answers that it got.
    pub(crate) fn record_of(&self, result: &CellResult, stands: u64) -> CellRecord {
        CellRecord {
            ended: bounds::ended(result, stands),
            gap: None,
        }
    }

    /// The record of a cell that ended. Its caller has the result first; then it is noted, by [`cell`](Self::cell).
    pub(crate) fn ended(&mut self, result: &CellResult, stands: u64) -> CellRecord {
        let mut ended = bounds::ended(result, stands);
        let notes = std::mem::take(&mut self.notes);
        let gap = notes.gap();
        notes.complete(&mut ended);
        CellRecord { ended, gap }
    }

    /// Brings the record of a cell to the second place for records, if the session has one. An error says why the session must end.
    pub(crate) async fn commit_cell(&self, ended: &EndedRecord) -> Result<(), String> {
        match self.recorder.sink() {
            Some(sink) => {
                sink.commit(JournalRecord::Ended(Box::new(ended.clone())))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Writes the record of a cell down.
    pub(crate) fn cell(&self, ended: &EndedRecord) {
        if let Some(inner) = &self.recorder.inner {
            inner.write(JournalRecord::Ended(Box::new(ended.clone())));
        }
    }

    /// The record of an operation. The caller notes it when the operation is done.
    pub(crate) fn operation(&self, message: &ToHead) -> Option<JournalRecord> {
        if !self.recorder.is_on() {
            return None;
        }
        match message {
            ToHead::Seed { variables, .. } => Some(JournalRecord::Seeded {
                variables: variables.clone(),
            }),
            ToHead::Tools { tools, .. } => Some(JournalRecord::Tools {
                tools: tools.clone(),
            }),
            ToHead::Reset { .. } => Some(JournalRecord::Reset),
            _ => None,
        }
    }

    /// Writes down what [`operation`](Self::operation) gave, and brings it to the second place first.
    pub(crate) async fn commit(&self, record: Option<JournalRecord>) -> Result<(), String> {
        match record {
            Some(record) => self.recorder.commit(record).await,
            None => Ok(()),
        }
    }
}

impl RuntimeState {
    /// The journal that the options ask for. A session that then fails to open leaves none.
    pub(crate) fn begin_journal(&self, live: &LiveSession, options: &SessionOptions) -> Recorder {
        let python = self.python();
        let used = PythonUsed {
            executable: python.executable.clone(),
            version: live.placement.process_host.python(),
            packages: python.packages,
        };
        begin(&self.state, used, live, options)
    }
}

/// Begins the journal of any session: `state` is where journals are kept, unless the options say otherwise.
pub(crate) fn begin(
    state: &Path,
    python: PythonUsed,
    live: &LiveSession,
    options: &SessionOptions,
) -> Recorder {
    let directory = match &options.journal {
        Journaling::HostsChoice | Journaling::Off => return Recorder::default(),
        Journaling::On => state.join("journals"),
        Journaling::In(directory) => directory.clone(),
    };
    let opened = OpenedRecord {
        version: VERSION,
        cellblock: env!("CARGO_PKG_VERSION").to_owned(),
        session: options.session.clone().unwrap_or_default(),
        options: SessionOptions {
            journal: Journaling::HostsChoice,
            ..options.clone()
        },
        workspace: live.base.workspace.path().to_owned(),
        workspace_was_empty: live.files.disk.began_empty(),
        python,
        isolation: live.placement.isolation.clone(),
        pid: std::process::id(),
    };
    Recorder::open(&directory, opened, &live.base.logs)
}
