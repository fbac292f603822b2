//! The directory that journals are kept in: their names, which of them live, and which have to go.

use super::error::JournalError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How the names of the files end.
pub(super) const EXTENSION: &str = "jsonl";
/// How many journals are kept, and how many bytes of them. The oldest go when a new one begins.
pub const MOST_JOURNALS: usize = 200;
/// The same in bytes.
pub const MOST_BYTES: u64 = 200_000_000;

/// The journals of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journals {
    directory: PathBuf,
}

/// A journal that is there, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFile {
    /// Its id: the name of its file.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
    /// When it was written to.
    pub modified: SystemTime,
}

impl Journals {
    /// The journals in this directory. It need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> Journals {
        Journals {
            directory: directory.into(),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All of them, the newest first.
    pub fn list(&self) -> Result<Vec<JournalFile>, JournalError> {
        match files(&self.directory) {
            Ok(files) => Ok(files),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(JournalError::Unreadable {
                path: self.directory.clone(),
                source,
            }),
        }
    }

    /// The one whose id begins like this; `last` is the newest.
    pub fn find(&self, id: &str) -> Result<JournalFile, JournalError> {
        let all = self.list()?;
        let missing = || JournalError::NotFound {
            id: id.to_owned(),
            directory: self.directory.clone(),
        };
        if id == "last" {
            return all.into_iter().next().ok_or_else(missing);
        }
        let mut found: Vec<JournalFile> = all
            .into_iter()
            .filter(|file| !id.is_empty() && file.id.starts_with(id))
            .collect();
        if let Some(at) = found.iter().position(|file| file.id == id) {
            return Ok(found.swap_remove(at));
        }
        match found.len() {
            0 | 1 => found.pop().ok_or_else(missing),
            _ => Err(JournalError::Ambiguous {
                id: id.to_owned(),
                found: found.into_iter().map(|file| file.id).collect(),
            }),
        }
    }
}

impl JournalFile {
    /// Whether its session still lives: the host that writes it holds a lock on it.
    pub fn is_alive(&self) -> bool {
        is_locked(&self.path)
    }

    /// Removes it, unless its session lives.
    pub fn remove(&self) -> Result<(), JournalError> {
        if self.is_alive() {
            return Err(JournalError::Alive {
                id: self.id.clone(),
            });
        }
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(JournalError::Unremovable {
                    path: self.path.clone(),
                    source,
                })
            }
            _ => Ok(()),
        }
    }
}

/// Removes old journals of the dead, so that one more has room. What cannot be removed stays.
pub(super) fn make_room(directory: &Path) {
    let mut bytes = 0;
    for (at, file) in files(directory).unwrap_or_default().iter().enumerate() {
        bytes += file.bytes;
        if at + 1 >= MOST_JOURNALS || bytes > MOST_BYTES {
            let _ = file.remove();
        }
    }
}

/// Eight letters and digits, none of which looks like another.
pub(super) fn fresh_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    // A hasher's keys are random, and differ each time.
    let mut random = RandomState::new().build_hasher();
    random.write_u32(std::process::id());
    let mut left = random.finish();
    let letters = (0..8).map(|_| {
        let letter = ALPHABET[(left % 32) as usize];
        left /= 32;
        char::from(letter)
    });
    letters.collect()
}

fn files(directory: &Path) -> io::Result<Vec<JournalFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()) else {
            continue;
        };
        if path
            .extension()
            .is_none_or(|extension| extension != EXTENSION)
        {
            continue;
        }
        // One that was removed meanwhile is not there.
        if let Ok(metadata) = fs::symlink_metadata(&path)
            && metadata.is_file()
        {
            files.push(JournalFile {
                id: id.to_owned(),
                bytes: metadata.len(),
                modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                path,
            });
        }
    }
    files.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.id.cmp(&b.id)));
    Ok(files)
}

pub(super) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let outcome = flock(&file, FlockOperation::NonBlockingLockShared);
    outcome == Err(rustix::io::Errno::WOULDBLOCK)
}
