//! Copies of files, in a directory of the session's.

use crate::workspace::Workspace;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where they are.
#[derive(Debug)]
pub(crate) struct FileStore {
    directory: PathBuf,
    next: u64,
    bytes: Arc<AtomicU64>,
}

/// One of them. It is removed with its last user.
#[derive(Debug)]
pub(crate) struct Stored {
    path: PathBuf,
    /// What it takes on disk that nothing else does.
    bytes: u64,
    total: Arc<AtomicU64>,
}

impl FileStore {
    pub(crate) fn new(directory: PathBuf) -> FileStore {
        FileStore {
            directory,
            next: 0,
            bytes: Arc::default(),
        }
    }

    /// What all of them take on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are free where they are, if that can be told.
    pub(crate) fn room(&self) -> Option<u64> {
        let existing = self.directory.ancestors().find(|path| path.is_dir())?;
        let found = rustix::fs::statvfs(existing).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Copies a file of a workspace.
    pub(crate) fn copy(&mut self, workspace: &Workspace, path: &Path) -> io::Result<Stored> {
        let source = workspace.directory().read(path)?;
        // One that grows as fast as it is copied has no end.
        let mut source = (&source).take(source.metadata()?.len());
        let mut stored = self.place()?;
        // The kernel shares the blocks where the file system can.
        let bytes = io::copy(&mut source, &mut File::create(&stored.path)?)?;
        stored.count(bytes);
        Ok(stored)
    }

    /// Keeps a file that is about to lose its name, without a copy. The same file system must hold both.
    pub(crate) fn link(&mut self, workspace: &Workspace, path: &Path) -> io::Result<Stored> {
        let stored = self.place()?;
        workspace.directory().link_out(path, &stored.path)?;
        Ok(stored)
    }

    fn place(&mut self) -> io::Result<Stored> {
        fs::create_dir_all(&self.directory)?;
        self.next += 1;
        Ok(Stored {
            path: self.directory.join(self.next.to_string()),
            bytes: 0,
            total: Arc::clone(&self.bytes),
        })
    }
}

impl Stored {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn count(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
