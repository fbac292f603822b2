//! The lock file that keeps a second server away from a store.

use super::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A lock on a data directory. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
}

impl StoreLock {
    pub(super) fn take(directory: &Path) -> Result<StoreLock, StoreError> {
        let path = directory.join("server.lock");
        let unusable = |source| StoreError::Unusable {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(&path).map_err(unusable)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut process = String::new();
            let _ = Read::by_ref(&mut file)
                .take(20)
                .read_to_string(&mut process);
            return Err(StoreError::InUse {
                path: directory.to_owned(),
                process: process.trim().to_owned(),
            });
        }
        let written = file
            .set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()));
        written.map_err(unusable)?;
        Ok(StoreLock { _file: file })
    }
}
