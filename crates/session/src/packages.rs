//! Directories of packages that were added to a session while it lives.

use cellblock_protocol::guest::ToHead;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The directories, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Packages(Mutex<Vec<PathBuf>>);

impl Packages {
    pub(crate) fn add(&self, directory: &Path) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| known == directory) {
            all.push(directory.to_owned());
        }
    }

    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// The packages of a fork.
    pub(crate) fn copy(&self) -> Packages {
        Packages(Mutex::new(self.all()))
    }

    /// The frame that the head gets before a cell and before an answer. Each time: a standby that was woken meanwhile was made
    /// when there were fewer.
    pub(crate) fn message(&self) -> Option<ToHead> {
        let paths: Vec<String> = self
            .all()
            .into_iter()
            .filter_map(|path| path.into_os_string().into_string().ok())
            .collect();
        (!paths.is_empty()).then_some(ToHead::Paths { paths })
    }
}
