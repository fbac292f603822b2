//! A log file that is renamed when it is long enough, so that a new one begins.
//!
//! Written by hand, because several programs append to the same file at once. Crates for rotation allow for one program only.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// When a log file is renamed, and how many older ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The length in bytes above which a new file begins.
    pub max_bytes: u64,
    /// The number of older files: `NAME.1` is the newest, `NAME.{max_old_files}` the oldest.
    pub max_old_files: u32,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            max_bytes: 10_000_000,
            max_old_files: 5,
        }
    }
}

/// A log file that several programs may append to. Lines are never split between two files.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
}

impl RotatingFile {
    /// Opens or creates the file, with the directories above it, for its owner alone.
    pub fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
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

    /// Appends whole lines. All of them go to the same file: the current one, or a new one if they do not fit.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length > 0 && length + lines.len() as u64 > self.rotation.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(lines)
    }

    fn rotate(&mut self) -> io::Result<()> {
        // The lock is on the file that is renamed: a second program that waits for it then sees another file at the path.
        flock(&self.file, FlockOperation::LockExclusive)?;
        let ours = self.file.metadata()?.ino();
        if fs::metadata(&self.path).is_ok_and(|current| current.ino() == ours) {
            for number in (1..self.rotation.max_old_files).rev() {
                let _ = fs::rename(
                    numbered(&self.path, number),
                    numbered(&self.path, number + 1),
                );
            }
            if self.rotation.max_old_files > 0 {
                fs::rename(&self.path, numbered(&self.path, 1))?;
            } else {
                fs::remove_file(&self.path)?;
            }
        }
        self.file = append_to(&self.path)?;
        Ok(())
    }
}

/// The log file at this path and its older files, the oldest first. Only those that exist.
pub fn rotated_files(path: &Path) -> Vec<PathBuf> {
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
