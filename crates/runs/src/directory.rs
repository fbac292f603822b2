//! The directory of runs.

use crate::line::Beginning;
use crate::{Run, RunError, RunWriter};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many runs are kept, and how many bytes of them. The oldest go when a new one begins.
const MOST_RUNS: usize = 1_000;
const MOST_BYTES: u64 = 2_000_000_000;

/// All runs that are kept in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    directory: PathBuf,
}

/// A run that is there, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// The name of its file.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
}

impl Runs {
    /// The runs in this directory. It need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// A new run, with an id of its own.
    pub fn begin(&self, begun: Beginning) -> Result<RunWriter, RunError> {
        self.make_room();
        RunWriter::create(&self.directory, &fresh_id(), begun)
    }

    /// All of them, the newest first.
    pub fn list(&self) -> Result<Vec<RunFile>, RunError> {
        match files(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found.map_err(|source| RunError::Unreadable {
                path: self.directory.clone(),
                source,
            }),
        }
    }

    /// The one whose id begins like this; `last` is the newest.
    pub fn find(&self, id: &str) -> Result<RunFile, RunError> {
        let mut found = self.list()?;
        if id == "last" {
            found.truncate(1);
        } else if let Some(exact) = found.iter().position(|run| run.id == id) {
            found = vec![found.swap_remove(exact)];
        } else {
            found.retain(|run| !id.is_empty() && run.id.starts_with(id));
        }
        if found.len() > 1 {
            return Err(RunError::Ambiguous {
                id: id.to_owned(),
                found: found.into_iter().map(|run| run.id).collect(),
            });
        }
        found.pop().ok_or_else(|| RunError::NotFound {
            id: id.to_owned(),
            directory: self.directory.clone(),
        })
    }

    /// Takes up a run that was cut off: what is known of it, and where to write on. Nobody else can from then on.
    pub fn resume(&self, id: &str) -> Result<(Run, RunWriter), RunError> {
        RunWriter::resume(&self.find(id)?)
    }

    fn make_room(&self) {
        let mut bytes = 0;
        for (at, run) in self.list().unwrap_or_default().iter().enumerate() {
            bytes += run.bytes;
            if at + 1 >= MOST_RUNS || bytes > MOST_BYTES {
                // One that cannot be removed, or still goes on, stays.
                let _ = run.remove();
            }
        }
    }
}

impl RunFile {
    /// Reads it.
    pub fn read(&self) -> Result<Run, RunError> {
        Run::read(&self.path)
    }

    /// Whether it still goes on: the program that writes it holds a lock on it.
    pub fn is_alive(&self) -> bool {
        is_locked(&self.path)
    }

    /// Removes it, unless it still goes on.
    pub fn remove(&self) -> Result<(), RunError> {
        if self.is_alive() {
            return Err(RunError::Alive {
                id: self.id.clone(),
            });
        }
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(RunError::Unwritable {
                path: self.path.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let outcome = flock(&file, FlockOperation::NonBlockingLockShared);
    outcome == Err(rustix::io::Errno::WOULDBLOCK)
}

pub(crate) fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn files(directory: &Path) -> io::Result<Vec<RunFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_record = path.extension().is_some_and(|it| it == "jsonl");
        // A link is not followed, and one that was removed meanwhile is not there.
        let metadata = fs::symlink_metadata(&path);
        let Some(metadata) = metadata.ok().filter(|it| is_record && it.is_file()) else {
            continue;
        };
        found.push(RunFile {
            id: id_of(&path),
            bytes: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            path,
        });
    }
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.id.cmp(&b.id)));
    Ok(found)
}

/// Eight letters and digits, random, without those that look alike.
fn fresh_id() -> String {
    let alphabet: Vec<char> = "abcdefghjkmnpqrstuvwxyz023456789".chars().collect();
    // The keys of a hasher are random, and differ each time.
    let random = RandomState::new().build_hasher().finish();
    let letter = |place: u32| alphabet[(random >> (5 * place)) as usize % alphabet.len()];
    (0..8).map(letter).collect()
}
