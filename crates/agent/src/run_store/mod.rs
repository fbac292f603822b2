//! Runs kept in files: the question, every event, and how the run ended.
//!
//! A run is one file of JSON lines, appended to while the run goes on. Events are kept as any JSON: a file of an older version with
//! other events can still be listed and shown. The requests to the model stand between the events.

mod requests;
mod writer;

use crate::run::RunEvent;
use cellblock_records::{
    LinePosition, LineReader, NextLine, RecordDirectory, RecordError, RecordFile, RecordLine,
    Retention, id_of, is_locked,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use requests::{KnownTexts, RequestLine};

pub use requests::StoredRequest;
pub use writer::RunWriter;

/// The version of the file format.
const FORMAT_VERSION: u32 = 1;

/// The longest line that is read. A longer one was not written by this program.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// How many runs are kept. The oldest ones are removed when a new run starts.
const RETENTION: Retention = Retention {
    max_files: 1_000,
    max_bytes: 2_000_000_000,
};

/// All runs that are kept in one directory.
///
/// ```
/// use cellblock_agent::{RunEnd, RunProgress, RunStart, RunStore};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let store = RunStore::new(place.path());
/// let mut writer = store.start_run(RunStart { question: "2 + 2?".into(), ..RunStart::default() })?;
/// writer.append_event(&"any JSON")?;
/// writer.finish(RunEnd { status: "answered".into(), answer: Some("4".into()), ..RunEnd::default() })?;
///
/// let run = store.read("last")?;
/// assert_eq!(run.start.question, "2 + 2?");
/// assert!(matches!(run.progress, RunProgress::Ended(end) if end.status == "answered"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStore {
    directory: RecordDirectory,
}

/// A run as far as its file tells.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// The id of the run: the name of its file.
    pub id: String,
    /// When the run started, in seconds since 1970.
    pub at: f64,
    /// What the run started with.
    pub start: RunStart,
    /// The events of the run, in order.
    pub events: Vec<StoredEvent>,
    /// The requests to the model, in order. Secrets and the bytes of pictures are left out.
    pub requests: Vec<StoredRequest>,
    /// Whether the run goes on, has ended or was cut off.
    pub progress: RunProgress,
    /// Why something is missing in the file, if something is.
    pub incomplete: Option<String>,
    /// The end of the last whole line.
    end: LinePosition,
    texts: KnownTexts,
}

/// What a run started with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// The question.
    pub question: String,
    /// The name of the model.
    pub model: String,
    /// Anything else that is needed to resume the run: format, limits, session, files.
    #[serde(default)]
    pub options: Value,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The name of the [`RunStatus`](crate::RunStatus), such as `answered`.
    pub status: String,
    /// The answer as a text, where there is one.
    #[serde(default)]
    pub answer: Option<String>,
    /// The rest of the [`Outcome`](crate::Outcome) as JSON.
    #[serde(default)]
    pub outcome: Value,
}

/// An event of a run with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// When it happened, in seconds since 1970.
    pub at: f64,
    /// The event as JSON.
    pub event: Value,
}

/// How far a run came.
#[derive(Clone, Debug, PartialEq)]
pub enum RunProgress {
    /// A program writes the run now.
    Running,
    /// The run ended.
    Ended(RunEnd),
    /// The program ended before the run did. The run can be resumed.
    CutOff,
}

/// A run that goes on after it was cut off: what is known of it, and where to write the rest.
#[derive(Debug)]
pub struct ResumedRun {
    /// What was recorded before.
    pub run: StoredRun,
    /// Appends to the same file. As long as it exists, no other program can resume the run.
    pub writer: RunWriter,
}

/// A run cannot be kept, found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunStoreError {
    /// No run has an id that begins like this.
    #[error("there is no run `{id}` in {}", directory.display())]
    NotFound {
        /// The id that was looked for.
        id: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// Several ids begin like this.
    #[error("`{id}` is the beginning of several runs: {}", found.join(", "))]
    Ambiguous {
        /// The id that was looked for.
        id: String,
        /// The ids that begin like it.
        found: Vec<String>,
    },
    /// The run goes on in another program.
    #[error("the run `{id}` is still going on in another program")]
    Running {
        /// The id of the run.
        id: String,
    },
    /// The run has ended, so there is nothing to resume.
    #[error("the run `{id}` has ended (`{status}`); there is nothing to resume")]
    Ended {
        /// The id of the run.
        id: String,
        /// How it ended.
        status: String,
    },
    /// A file or directory cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file or directory cannot be written or removed.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not the record of a run.
    #[error("{} is not the record of a run: {problem}", path.display())]
    NotARun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file of a run is as long as it may be.
    #[error("the record of the run has reached {max_megabytes} MB; nothing more of it is kept")]
    Full {
        /// The longest file, in megabytes.
        max_megabytes: u64,
    },
    /// Any other error of the directory of records.
    #[error(transparent)]
    Record(RecordError),
}

/// What a line of the file records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RunFileLine {
    /// The first line.
    Run {
        version: u32,
        #[serde(rename = "begun")]
        start: RunStart,
    },
    Event(Value),
    /// The model is asked.
    Request(RequestLine),
    /// The run was cut off, and another program resumed it.
    Resumed {},
    /// Events after this line could not be written.
    Stopped {
        reason: String,
    },
    Ended(RunEnd),
}

impl RunStore {
    /// The runs in this directory. It need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> RunStore {
        RunStore {
            directory: RecordDirectory::new(directory),
        }
    }

    /// Starts to keep a run, under a new id. Removes the oldest runs where there are too many.
    pub fn start_run(&self, start: RunStart) -> Result<RunWriter, RunStoreError> {
        self.directory.make_room(RETENTION);
        RunWriter::create(&self.directory, start)
    }

    /// Lists the files of all runs, the newest first.
    pub fn list(&self) -> Result<Vec<RecordFile>, RunStoreError> {
        Ok(self.directory.list()?)
    }

    /// Finds the run whose id is `id` or begins with it. `last` is the newest run.
    pub fn find(&self, id: &str) -> Result<RecordFile, RunStoreError> {
        Ok(self.directory.find(id)?)
    }

    /// Finds a run like [`find`](Self::find), and reads it.
    pub fn read(&self, id: &str) -> Result<StoredRun, RunStoreError> {
        StoredRun::read(&self.find(id)?.path)
    }

    /// Removes a run. Refused while a program writes it.
    pub fn remove(&self, id: &str) -> Result<(), RunStoreError> {
        Ok(self.find(id)?.remove()?)
    }

    /// Opens a run that was cut off, that a person stopped, or that ended because the model could not be asked, to go on with it. Refused
    /// for a run that has ended otherwise, or that another program writes.
    pub fn resume(&self, id: &str) -> Result<ResumedRun, RunStoreError> {
        RunWriter::resume(&self.find(id)?.path)
    }
}

impl StoredRun {
    /// Reads a run from its file. A last line that was not finished is left out, and so is everything behind a line that cannot
    /// be read: [`incomplete`](Self::incomplete) then says why.
    pub fn read(path: &Path) -> Result<StoredRun, RunStoreError> {
        let mut run = StoredRun::read_unlocked(path)?;
        if run.progress == RunProgress::CutOff && is_locked(path) {
            run.progress = RunProgress::Running;
        }
        Ok(run)
    }

    /// The thought before the first cell of each step, by the number of that cell.
    pub fn thoughts_by_cell(&self) -> BTreeMap<u64, String> {
        let mut of_step: HashMap<usize, String> = HashMap::new();
        let mut thoughts = BTreeMap::new();
        for stored in &self.events {
            match serde_json::from_value(stored.event.clone()) {
                Ok(RunEvent::Thought { step, text }) => {
                    of_step.insert(step, text);
                }
                Ok(RunEvent::Done { step, done, .. }) => {
                    // Before the first cell of a step, not before each.
                    if let Some(cell) = done.result.map(|result| result.cell)
                        && let Some(thought) = of_step.remove(&step)
                    {
                        thoughts.insert(cell, thought);
                    }
                }
                _ => {}
            }
        }
        thoughts
    }

    /// Reads a run without a look at the lock, which the caller may hold itself.
    fn read_unlocked(path: &Path) -> Result<StoredRun, RunStoreError> {
        let unreadable = |source| RunStoreError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let not_a_run = |problem: String| RunStoreError::NotARun {
            path: path.to_owned(),
            problem,
        };
        let mut reader = LineReader::open(path, MAX_LINE_BYTES).map_err(unreadable)?;
        let mut next = || {
            reader
                .next_line::<RecordLine<RunFileLine>>()
                .map_err(unreadable)
        };
        let (first, bytes) = match next()? {
            NextLine::Whole { value, bytes } => (value, bytes),
            NextLine::End => return Err(not_a_run("it is empty".into())),
            broken => return Err(not_a_run(problem_of(&broken))),
        };
        let RunFileLine::Run { version, start } = first.record else {
            return Err(not_a_run("it does not begin with a run".into()));
        };
        if version != FORMAT_VERSION {
            return Err(not_a_run(format!(
                "it has version {version}, and this program reads {FORMAT_VERSION}"
            )));
        }
        let mut run = StoredRun {
            id: id_of(path),
            at: first.at,
            start,
            events: Vec::new(),
            requests: Vec::new(),
            progress: RunProgress::CutOff,
            incomplete: None,
            end: LinePosition { bytes, lines: 1 },
            texts: KnownTexts::default(),
        };
        loop {
            match next()? {
                NextLine::End => return Ok(run),
                NextLine::Whole { value, .. } if value.n != run.end.lines => {
                    run.incomplete = Some(format!("line {} is missing", run.end.lines));
                    return Ok(run);
                }
                NextLine::Whole { value, bytes } => run.add(value, bytes),
                broken => {
                    run.incomplete = Some(problem_of(&broken));
                    return Ok(run);
                }
            }
        }
    }

    fn add(&mut self, line: RecordLine<RunFileLine>, bytes: u64) {
        self.end.bytes += bytes;
        self.end.lines += 1;
        match line.record {
            RunFileLine::Event(event) => self.events.push(StoredEvent { at: line.at, event }),
            RunFileLine::Request(request) => {
                let request = self.texts.read(line.at, request);
                self.requests.push(request);
            }
            RunFileLine::Stopped { reason } => {
                self.incomplete = Some(format!("it was not written to the end: {reason}"));
            }
            RunFileLine::Ended(end) => self.progress = RunProgress::Ended(end),
            // A run that ended with an error of the model can be resumed too.
            RunFileLine::Resumed {} => self.progress = RunProgress::CutOff,
            RunFileLine::Run { .. } => {}
        }
    }
}

fn problem_of(line: &NextLine<RecordLine<RunFileLine>>) -> String {
    match line {
        NextLine::Invalid(error) => format!("a line cannot be read: {error}"),
        _ => "its last line was not finished".into(),
    }
}

impl From<RecordError> for RunStoreError {
    fn from(error: RecordError) -> RunStoreError {
        match error {
            RecordError::NotFound { id, directory } => RunStoreError::NotFound { id, directory },
            RecordError::Ambiguous { id, found } => RunStoreError::Ambiguous { id, found },
            RecordError::Locked { id } => RunStoreError::Running { id },
            RecordError::Unreadable { path, source } => RunStoreError::Unreadable { path, source },
            RecordError::Unwritable { path, source }
            | RecordError::Unremovable { path, source } => {
                RunStoreError::Unwritable { path, source }
            }
            other => RunStoreError::Record(other),
        }
    }
}
