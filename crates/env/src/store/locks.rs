//! Locks and partial directories: how processes that use one store keep out of each other's way.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use crate::{Cancel, Error, dirs};

/// How often a waiting process tries to get a lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An exclusive lock on a file, held while the value lives. The kernel releases it when the process ends,
/// however it ends. The file stays: removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    /// The path of the lock file for a target.
    pub(crate) fn path_for(target: &Path) -> PathBuf {
        lock_path(target, ".lock")
    }

    /// Acquires the lock. `on_wait` is called once if another process has it.
    pub(crate) fn acquire(
        path: &Path,
        cancel: &Cancel,
        on_wait: &mut dyn FnMut(),
    ) -> Result<Self, Error> {
        let failed = |source| Error::io("lock", path, source);
        let file = dirs::lock_file(path).map_err(failed)?;
        let mut has_waited = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if cancel.is_cancelled() => {
                    return Err(Error::Cancelled);
                }
                Err(TryLockError::WouldBlock) => {
                    if !has_waited {
                        has_waited = true;
                        on_wait();
                    }
                    thread::sleep(LOCK_POLL_INTERVAL);
                }
            }
        }
    }

    /// Acquires the lock if it is free.
    pub(crate) fn try_acquire(path: &Path) -> Option<Self> {
        let file = dirs::lock_file(path).ok()?;
        file.try_lock().ok()?;
        Some(Self { _file: file })
    }

    /// Whether a process has the lock. The check takes a shared lock for a moment, which
    /// [`FileLock::acquire`] waits for.
    pub(crate) fn is_held(path: &Path) -> bool {
        File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// Keeps an environment or a layer from being removed while the value lives. Made by
/// [`crate::Environments::mark_in_use`].
#[derive(Debug)]
pub struct InUseLock {
    _file: File,
}

impl InUseLock {
    /// Marks a directory as used from now on. `None` where that is not possible; the directory can be used
    /// all the same.
    pub(crate) fn acquire(directory: &Path) -> Option<Self> {
        let file = dirs::lock_file(&Self::path_for(directory)).ok()?;
        let _ = file.set_modified(SystemTime::now());
        // A process that removes the directory has the lock for a moment; then the directory is gone.
        file.try_lock_shared().ok()?;
        Some(Self { _file: file })
    }

    /// Keeps every process from using a directory, for its removal. `None` while one uses it.
    pub(crate) fn acquire_for_removal(directory: &Path) -> Option<File> {
        let file = dirs::lock_file(&Self::path_for(directory)).ok()?;
        file.try_lock().is_ok().then_some(file)
    }

    /// Whether a process uses a directory.
    pub(crate) fn is_held(directory: &Path) -> bool {
        File::open(Self::path_for(directory))
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// When a directory was used last, in seconds since 1970; `None` where it was never marked.
    pub(crate) fn last_used(directory: &Path) -> Option<u64> {
        let metadata = Self::path_for(directory).metadata().ok()?;
        let time = metadata.modified().ok()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(since.as_secs())
    }

    /// The path of the lock file for a directory, which itself is never written to.
    pub(crate) fn path_for(directory: &Path) -> PathBuf {
        lock_path(directory, ".used")
    }
}

/// A directory beside its target, on the same file system, that is moved to the target when it is complete.
/// Dropped before [`PartialDirectory::finish`], it is removed with everything in it.
#[derive(Debug)]
pub(crate) struct PartialDirectory {
    path: PathBuf,
    target: PathBuf,
}

impl PartialDirectory {
    /// Names, and does not make, a directory beside the target.
    pub(crate) fn beside(target: &Path) -> Self {
        let prefix = partial_prefix(target).unwrap_or_default();
        Self {
            path: target.with_file_name(format!("{prefix}{}", std::process::id())),
            target: target.to_owned(),
        }
    }

    /// Names a directory to work in beside the target. It never replaces the target.
    pub(crate) fn scratch_for(target: &Path) -> Self {
        let mut scratch = Self::beside(target);
        scratch.path.as_mut_os_string().push("-scratch");
        scratch
    }

    /// Removes the partial directories that killed processes left beside the target. The caller must hold
    /// the target's [`FileLock`]: then no other process works there.
    pub(crate) fn remove_leftovers(target: &Path) {
        let (Some(parent), Some(prefix)) = (target.parent(), partial_prefix(target)) else {
            return;
        };
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = dirs::remove(&entry.path());
            }
        }
    }

    /// Removes, in a directory of targets, the partial directories of targets whose lock is free: the
    /// processes that made them are gone.
    pub(crate) fn remove_abandoned(directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some((target, _)) = name
                .to_str()
                .and_then(|name| name.strip_prefix('.')?.split_once(".partial-"))
            else {
                continue;
            };
            if !FileLock::is_held(&FileLock::path_for(&directory.join(target))) {
                let _ = dirs::remove(&entry.path());
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the directory to its target. A directory that is there already is moved away and removed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let old = appended(&self.path, "-old");
        match fs::rename(&self.target, &old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("move away", &self.target, error));
            }
            _ => {}
        }
        let moved = fs::rename(&self.path, &self.target)
            .map_err(|source| Error::io("move into place", &self.target, source));
        let _ = dirs::remove(&old);
        moved
    }
}

impl Drop for PartialDirectory {
    fn drop(&mut self) {
        // After `finish` nothing is there.
        let _ = dirs::remove(&self.path);
    }
}

fn partial_prefix(target: &Path) -> Option<String> {
    let name = target.file_name()?.to_string_lossy();
    Some(format!(".{name}.partial-"))
}

/// Where the lock file of a target lies: `locks/layers/NAME.lock` for `layers/NAME`. Not beside the target: sessions see the directory of
/// layers, and code that can open a lock file can hold the lock.
fn lock_path(target: &Path, suffix: &str) -> PathBuf {
    let place = || {
        let directory = target.parent()?;
        let kind = directory.file_name()?;
        let locks = directory.parent()?.join("locks").join(kind);
        Some(appended(&locks.join(target.file_name()?), suffix))
    };
    place().unwrap_or_else(|| appended(target, suffix))
}

/// A path with a suffix. It is appended, because names have dots in them.
fn appended(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
