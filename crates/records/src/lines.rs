//! Lines of JSON in a file: appended whole, read back as far as they are whole.

use crate::directory::{RecordError, id_of};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a new file is tried to be locked. A reader that checks the lock just now is done within a millisecond.
const LOCK_ATTEMPTS: usize = 10;

/// How many files may wait for the thread that syncs them. When more do, one sync is left out; the next one comes soon.
const MAX_QUEUED_SYNCS: usize = 256;

/// A numbered line with its time: `{"n": 0, "at": 1700000000.0, …}`, followed by the fields of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordLine<T> {
    /// The number of the line, counted from 0 without gaps, so that a reader notices a line that was removed.
    pub n: u64,
    /// When it was written, in seconds since 1970.
    pub at: f64,
    /// What the line records.
    #[serde(flatten)]
    pub record: T,
}

/// A place between two lines of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinePosition {
    /// The bytes before it.
    pub bytes: u64,
    /// The lines before it.
    pub lines: u64,
}

/// Appends lines to a file.
///
/// Each line is one write. A line that cannot be written whole is cut off again, so the file always ends with a whole line
/// unless the program is killed in the middle of a write. The file stays locked until the writer is dropped.
#[derive(Debug)]
pub struct LineWriter {
    path: PathBuf,
    file: File,
    end: LinePosition,
}

impl LineWriter {
    /// Creates a file that only its owner can read, with the directories above it, and locks it.
    ///
    /// Fails if the file exists. On file systems without locks the file is written without one; readers then take it for a file
    /// whose writer has ended.
    pub fn create(path: &Path) -> io::Result<LineWriter> {
        if let Some(directory) = path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory)?;
        }
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        for _ in 0..LOCK_ATTEMPTS {
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(LineWriter::new(path, file))
    }

    /// Creates a file that only its owner can read, without a lock and without the directories above it. For files whose path
    /// the user chose.
    pub fn create_unlocked(path: &Path) -> io::Result<LineWriter> {
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Ok(LineWriter::new(path, file))
    }

    /// Opens an existing file and locks it. Refused while another writer holds the file.
    ///
    /// Call [`cut_back_to`](Self::cut_back_to) before the first append: until then the writer does not know where the last whole
    /// line ends.
    pub fn open_existing(path: &Path) -> Result<LineWriter, RecordError> {
        let opened = OpenOptions::new().append(true).open(path);
        let file = opened.map_err(|source| RecordError::Unwritable {
            path: path.to_owned(),
            source,
        })?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(RecordError::Locked { id: id_of(path) });
        }
        Ok(LineWriter::new(path, file))
    }

    fn new(path: &Path, file: File) -> LineWriter {
        LineWriter {
            path: path.to_owned(),
            file,
            end: LinePosition::default(),
        }
    }

    /// Cuts off everything behind `end`, such as a line that was not finished. Numbers go on from there.
    pub fn cut_back_to(&mut self, end: LinePosition) -> io::Result<()> {
        self.file.set_len(end.bytes)?;
        self.end = end;
        Ok(())
    }

    /// Creates another file that begins with all lines of this one.
    pub fn copy_to(&self, path: &Path) -> io::Result<LineWriter> {
        let mut copy = LineWriter::create(path)?;
        let copied = File::open(&self.path)
            .and_then(|file| io::copy(&mut file.take(self.end.bytes), &mut copy.file));
        let outcome = match copied {
            Ok(bytes) if bytes == self.end.bytes => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        copy.end = self.end;
        Ok(copy)
    }

    /// Appends a value as one line. If that fails, the file is as it was before.
    pub fn append(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            let _ = self.file.set_len(self.end.bytes);
            return Err(error);
        }
        self.end.lines += 1;
        self.end.bytes += text.len() as u64;
        Ok(())
    }

    /// Appends a record as a [`RecordLine`] with its number and a time.
    pub fn append_record(&mut self, at: f64, record: impl Serialize) -> io::Result<()> {
        let n = self.end.lines;
        self.append(&RecordLine { n, at, record })
    }

    /// Waits until everything is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Asks for everything to be brought to the disk, and does not wait for it.
    ///
    /// What was appended survives the end of the program at once; only a power failure needs more. That takes milliseconds, so one
    /// thread does it for all files of the program.
    pub fn sync_in_background(&self) {
        if let (Some(thread), Ok(file)) = (sync_thread(), self.file.try_clone()) {
            let _ = thread.try_send(file);
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The id of the file: see [`id_of`].
    pub fn id(&self) -> String {
        id_of(&self.path)
    }

    /// The end of the last line.
    pub fn end(&self) -> LinePosition {
        self.end
    }
}

fn sync_thread() -> Option<&'static SyncSender<File>> {
    static THREAD: OnceLock<Option<SyncSender<File>>> = OnceLock::new();
    let start = || {
        let (sender, files) = sync_channel::<File>(MAX_QUEUED_SYNCS);
        let sync_all = move || {
            for file in files {
                let _ = file.sync_data();
            }
        };
        let thread = std::thread::Builder::new().name("records-sync".into());
        thread.spawn(sync_all).ok().map(|_| sender)
    };
    THREAD.get_or_init(start).as_ref()
}

/// Reads lines of JSON. Memory is bounded by the longest line that is allowed.
#[derive(Debug)]
pub struct LineReader<R = BufReader<File>> {
    input: R,
    max_line_bytes: u64,
}

/// What comes next in a file of JSON lines.
#[derive(Debug)]
pub enum NextLine<T> {
    /// A whole line that could be read.
    Whole {
        /// Its value.
        value: T,
        /// Its length in bytes, with the line break.
        bytes: u64,
    },
    /// A whole line that could not be read as a value of this type.
    Invalid(serde_json::Error),
    /// A line without a line break: the file ends in the middle of it, or the line is too long.
    Unfinished,
    /// The end of the file.
    End,
}

impl LineReader {
    /// Opens a file. A line longer than `max_line_bytes` counts as unfinished.
    pub fn open(path: &Path, max_line_bytes: u64) -> io::Result<LineReader> {
        let file = BufReader::with_capacity(1 << 16, File::open(path)?);
        Ok(LineReader::new(file, max_line_bytes))
    }
}

impl<R: BufRead> LineReader<R> {
    /// Reads from anything that is buffered.
    pub fn new(input: R, max_line_bytes: u64) -> LineReader<R> {
        LineReader {
            input,
            max_line_bytes,
        }
    }

    /// Reads the next line.
    pub fn next_line<T: DeserializeOwned>(&mut self) -> io::Result<NextLine<T>> {
        let mut text = Vec::new();
        let mut bounded = (&mut self.input).take(self.max_line_bytes);
        let bytes = bounded.read_until(b'\n', &mut text)?;
        Ok(match text.last() {
            None => NextLine::End,
            Some(b'\n') => match serde_json::from_slice(&text) {
                Ok(value) => NextLine::Whole {
                    value,
                    bytes: bytes as u64,
                },
                Err(error) => NextLine::Invalid(error),
            },
            Some(_) => NextLine::Unfinished,
        })
    }
}

/// The time now, in seconds since 1970: the form in which records keep times.
pub fn seconds_since_1970() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |time| time.as_secs_f64())
}
