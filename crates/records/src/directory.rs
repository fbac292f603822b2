//! A directory of record files: their ids, which of them are in use, and which have to go.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The end of every record file's name.
const EXTENSION: &str = "jsonl";

/// A directory of record files, each named `ID.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordDirectory {
    path: PathBuf,
}

/// A record file as it is listed. Its content has not been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFile {
    /// The id: the file's name without its extension.
    pub id: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// When the file was last written.
    pub modified: SystemTime,
}

/// How much a directory keeps. [`RecordDirectory::make_room`] removes what is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of files, with the one that is about to be made.
    pub max_files: usize,
    /// The bytes of all files together.
    pub max_bytes: u64,
}

/// A record file cannot be found, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No file has an id that begins like this.
    #[error("there is no record `{id}` in {}", directory.display())]
    NotFound {
        /// The id that was looked for.
        id: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// Several ids begin like this.
    #[error("`{id}` is the beginning of several records: {}", found.join(", "))]
    Ambiguous {
        /// The id that was looked for.
        id: String,
        /// The ids that begin like it.
        found: Vec<String>,
    },
    /// A program writes the file now.
    #[error("the record `{id}` is being written by another program")]
    Locked {
        /// The id of the file.
        id: String,
    },
    /// The file or the directory cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be opened for writing.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be removed.
    #[error("{} cannot be removed: {source}", path.display())]
    Unremovable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl RecordDirectory {
    /// The directory at this path. It need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> RecordDirectory {
        RecordDirectory { path: path.into() }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file with this id, whether or not it exists.
    pub fn file_path(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.{EXTENSION}"))
    }

    /// Lists the record files, the newest first. A directory that does not exist has none.
    pub fn list(&self) -> Result<Vec<RecordFile>, RecordError> {
        match files(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found.map_err(|source| RecordError::Unreadable {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// Finds the file whose id is `id` or begins with it. `last` is the newest file.
    pub fn find(&self, id: &str) -> Result<RecordFile, RecordError> {
        let mut found = self.list()?;
        if id == "last" {
            found.truncate(1);
        } else if let Some(exact) = found.iter().position(|file| file.id == id) {
            found = vec![found.swap_remove(exact)];
        } else {
            found.retain(|file| !id.is_empty() && file.id.starts_with(id));
        }
        if found.len() > 1 {
            return Err(RecordError::Ambiguous {
                id: id.to_owned(),
                found: found.into_iter().map(|file| file.id).collect(),
            });
        }
        found.pop().ok_or_else(|| RecordError::NotFound {
            id: id.to_owned(),
            directory: self.path.clone(),
        })
    }

    /// Removes the oldest files until one more fits. Files that are locked or cannot be removed stay.
    pub fn make_room(&self, retention: Retention) {
        let mut bytes = 0;
        for (index, file) in self.list().unwrap_or_default().iter().enumerate() {
            bytes += file.bytes;
            if index + 1 >= retention.max_files || bytes > retention.max_bytes {
                let _ = file.remove();
            }
        }
    }
}

impl RecordFile {
    /// Whether a program writes the file now: its writer holds a lock as long as it exists.
    pub fn is_locked(&self) -> bool {
        is_locked(&self.path)
    }

    /// Removes the file, unless it is locked. A file that is gone already counts as removed.
    pub fn remove(&self) -> Result<(), RecordError> {
        if self.is_locked() {
            return Err(RecordError::Locked {
                id: self.id.clone(),
            });
        }
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(RecordError::Unremovable {
                    path: self.path.clone(),
                    source,
                })
            }
            _ => Ok(()),
        }
    }
}

/// Whether a [`LineWriter`](crate::LineWriter) of some program holds this file.
///
/// File systems without locks (some network file systems) always answer no.
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let outcome = flock(&file, FlockOperation::NonBlockingLockShared);
    outcome == Err(rustix::io::Errno::WOULDBLOCK)
}

/// The id of the record file at this path: its name without the extension.
pub fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// A new random id: eight letters and digits, without those that look alike.
pub fn new_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    // The keys of a hasher are random, and differ each time.
    let mut random = RandomState::new().build_hasher();
    random.write_u32(std::process::id());
    let bits = random.finish();
    let letter = |place: u32| char::from(ALPHABET[(bits >> (5 * place)) as usize % 32]);
    (0..8).map(letter).collect()
}

fn files(directory: &Path) -> io::Result<Vec<RecordFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_record = path.extension().is_some_and(|it| it == EXTENSION);
        // A link is not followed, and a file that was removed meanwhile is not listed.
        let metadata = fs::symlink_metadata(&path);
        let Some(metadata) = metadata.ok().filter(|it| is_record && it.is_file()) else {
            continue;
        };
        found.push(RecordFile {
            id: id_of(&path),
            bytes: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            path,
        });
    }
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.id.cmp(&b.id)));
    Ok(found)
}
