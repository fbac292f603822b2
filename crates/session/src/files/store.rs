//! Copies of files, in a directory of the session's.

use cellblock_sandbox::{Entry, Identity, Reach, private_directory, private_file};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// The file that it is a copy of, or that was made from it when the session went back.
    original: Mutex<Option<Identity>>,
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

    /// Copies a file that was found in a workspace. The copy is for the host alone, also where other users may read the original.
    pub(crate) fn copy(&mut self, entry: &Entry) -> io::Result<Stored> {
        let source = entry.read()?;
        // One that grows as fast as it is copied has no end.
        let mut source = (&source).take(source.metadata()?.len());
        let mut stored = self.place()?;
        stored.set_original(entry);
        // The kernel shares the blocks where the file system can.
        let bytes = io::copy(&mut source, &mut private_file(&stored.path)?)?;
        stored.count(bytes);
        Ok(stored)
    }

    /// Keeps a file that is about to lose its name, without a copy. The same file system must hold both.
    pub(crate) fn link(&mut self, entry: &Entry) -> io::Result<Stored> {
        let stored = self.place()?;
        entry.link_out(&stored.path)?;
        Ok(stored)
    }

    fn place(&mut self) -> io::Result<Stored> {
        private_directory(&self.directory, Reach::OwnerOnly)?;
        self.next += 1;
        Ok(Stored {
            path: self.directory.join(self.next.to_string()),
            original: Mutex::default(),
            bytes: 0,
            total: Arc::clone(&self.bytes),
        })
    }
}

impl Stored {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the file that it was copied from, so that going back may write into it: a process that has it open then sees the old contents.
    pub(crate) fn is_copy_of(&self, entry: &Entry) -> bool {
        let is_certain = |identity: &Identity| identity.is_certain() || entry.stat().st_nlink == 1;
        self.noted_original()
            .filter(is_certain)
            .is_some_and(|original| entry.identity().is_ok_and(|found| found == original))
    }

    /// What tells the file that it is a copy of from all others; `None` where the file system cannot tell that for certain.
    pub(crate) fn original(&self) -> Option<Identity> {
        self.noted_original().filter(Identity::is_certain)
    }

    /// Notes which file has these contents: the one that was copied, or one that was made from the copy.
    pub(crate) fn set_original(&self, entry: &Entry) {
        let mut original = self.original.lock().unwrap_or_else(PoisonError::into_inner);
        *original = entry.identity().ok();
    }

    fn noted_original(&self) -> Option<Identity> {
        *self.original.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a file has the same contents.
    pub(crate) fn has_same_bytes(&self, file: &fs::File) -> io::Result<bool> {
        const BLOCK: u64 = 256 << 10;
        let (mut copy, mut file) = (fs::File::open(&self.path)?, file);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        loop {
            one.clear();
            other.clear();
            (&mut copy).take(BLOCK).read_to_end(&mut one)?;
            (&mut file).take(BLOCK).read_to_end(&mut other)?;
            if one != other {
                return Ok(false);
            }
            if one.is_empty() {
                return Ok(true);
            }
        }
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
