//! Directories of packages that were added to a session while it lives.

use cellblock_protocol::guest::ToHead;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The directories, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    directories: Mutex<Vec<PathBuf>>,
    mount: Option<PackageMount>,
}

/// A directory of the host that a session sees at another path.
#[derive(Clone, Debug)]
pub(crate) struct PackageMount {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

impl Packages {
    /// The packages of a session that sees a directory of the host elsewhere.
    pub(crate) fn mounted(mount: PackageMount) -> Packages {
        Packages {
            directories: Mutex::default(),
            mount: Some(mount),
        }
    }

    pub(crate) fn add(&self, directory: &Path) {
        let mut all = self
            .directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| known == directory) {
            all.push(directory.to_owned());
        }
    }

    /// The directories, as the host calls them.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let all = self.directories.lock();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The packages of a fork.
    pub(crate) fn copy(&self) -> Packages {
        Packages {
            directories: Mutex::new(self.all()),
            mount: self.mount.clone(),
        }
    }

    /// The frame that the head gets before a cell and before an answer. Each time: a standby that was woken meanwhile was made
    /// when there were fewer.
    pub(crate) fn message(&self) -> Option<ToHead> {
        let paths: Vec<String> = self
            .all()
            .into_iter()
            .map(|path| self.seen(path))
            .filter_map(|path| path.into_os_string().into_string().ok())
            .collect();
        (!paths.is_empty()).then_some(ToHead::Paths { paths })
    }

    /// A directory, as the session calls it.
    fn seen(&self, path: PathBuf) -> PathBuf {
        let below = self.mount.as_ref().and_then(|mount| {
            let below = path.strip_prefix(&mount.source).ok()?;
            Some(mount.target.join(below))
        });
        below.unwrap_or(path)
    }
}
