//! One process at a time makes an environment.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{Cancel, Error, dirs};

/// How often a waiting process looks.
const BEAT: Duration = Duration::from_millis(50);

/// Held while it lives. The kernel lets go of it when the process ends, however it ends. The file stays:
/// removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// The lock's place for a directory: beside it. The name is appended to, as names have dots in them.
    pub(crate) fn of(target: &Path) -> PathBuf {
        let mut name = target.as_os_str().to_owned();
        name.push(".lock");
        name.into()
    }

    /// Takes the lock; `waiting` is called once if another process has it.
    pub(crate) fn take(
        path: &Path,
        cancel: &Cancel,
        waiting: &mut dyn FnMut(),
    ) -> Result<Self, Error> {
        let failed = |source| Error::io("lock", path, source);
        let file = dirs::lock_file(path).map_err(failed)?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if cancel.is_cancelled() => {
                    return Err(Error::Cancelled);
                }
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        told = true;
                        waiting();
                    }
                    thread::sleep(BEAT);
                }
            }
        }
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn take_now(path: &Path) -> Option<Self> {
        let file = dirs::lock_file(path).ok()?;
        file.try_lock().ok()?;
        Some(Self { _file: file })
    }

    /// Whether some process has it now. Looking takes a shared lock for a moment, which a builder sits out.
    pub(crate) fn is_taken(path: &Path) -> bool {
        File::open(path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}
