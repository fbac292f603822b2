//! A file that is moved aside when it is long enough.
//!
//! By hand, because several commands write to the same file at once, which rotation within one program does not allow for.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// When a file is moved aside, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The longest file.
    pub bytes: u64,
    /// How many there are beside the one that is written. `.1` is the newest.
    pub kept: u32,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            bytes: 10_000_000,
            kept: 5,
        }
    }
}

/// The file that is written now.
pub(crate) struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
}

impl RotatingFile {
    pub(crate) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
        }
        Ok(Self {
            path: path.to_owned(),
            rotation,
            file: append_to(path)?,
        })
    }

    /// Writes whole lines. Half of them never stands in one file and half in the next.
    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length > 0 && length + lines.len() as u64 > self.rotation.bytes {
            self.rotate()?;
        }
        self.file.write_all(lines)
    }

    fn rotate(&mut self) -> io::Result<()> {
        // The lock is on the file that is moved, so whoever gets it second sees that it is not there any more.
        flock(&self.file, FlockOperation::LockExclusive)?;
        let ours = self.file.metadata()?.ino();
        if fs::metadata(&self.path).is_ok_and(|current| current.ino() == ours) {
            for number in (1..self.rotation.kept).rev() {
                let _ = fs::rename(
                    numbered(&self.path, number),
                    numbered(&self.path, number + 1),
                );
            }
            if self.rotation.kept > 0 {
                fs::rename(&self.path, numbered(&self.path, 1))?;
            } else {
                fs::remove_file(&self.path)?;
            }
        }
        self.file = append_to(&self.path)?;
        Ok(())
    }
}

/// The files of a trace, the oldest first.
pub(crate) fn all(path: &Path) -> Vec<PathBuf> {
    let older = (1..100).rev().map(|number| numbered(path, number));
    let all = older.chain([path.to_owned()]);
    all.filter(|path| path.is_file()).collect()
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}
