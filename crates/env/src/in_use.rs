//! Which environments are in use, and when each was used last.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::dirs;

/// Held by whoever runs sessions on a directory of packages: it is not removed meanwhile.
#[derive(Debug)]
pub struct InUse {
    _file: File,
}

impl InUse {
    /// Says that it is used now and for as long as this lives. None where it cannot be said, which is no reason not to use it.
    pub(crate) fn begin(directory: &Path) -> Option<Self> {
        let file = dirs::lock_file(&place(directory)).ok()?;
        let _ = file.set_modified(SystemTime::now());
        // Who removes it holds it alone for a moment; then it is gone, and to be made anew.
        file.try_lock_shared().ok()?;
        Some(Self { _file: file })
    }

    /// Keeps everybody from beginning to use it. None while somebody does.
    pub(crate) fn none(directory: &Path) -> Option<File> {
        let file = dirs::lock_file(&place(directory)).ok()?;
        file.try_lock().is_ok().then_some(file)
    }

    pub(crate) fn is_there(directory: &Path) -> bool {
        File::open(place(directory))
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// When it was used last, as far as anybody said.
    pub(crate) fn last(directory: &Path) -> Option<u64> {
        let time = place(directory).metadata().ok()?.modified().ok()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(since.as_secs())
    }
}

/// Beside it: an environment itself is never written to.
pub(crate) fn place(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".used");
    name.into()
}
