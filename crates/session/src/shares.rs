//! Files that sessions of one family have in common: a fork gets a second name for a large file instead of a copy.
//!
//! Such a file is never written to. Before a session changes its own (`keeper.rs`), and before the host does, a copy takes the place of
//! the session's name (`Workspace::part`). Code makes second names as well; those are left alone, so it is written down here
//! which files are shared.

use crate::workspace::{Kind, Seen, Workspace};
use cellblock_sandbox::{Access, Identity};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files that a session, its forks and theirs have in common.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    files: Mutex<HashSet<Identity>>,
}

impl Shares {
    fn files(&self) -> MutexGuard<'_, HashSet<Identity>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace {
    /// Whether another session may have this file too.
    pub(crate) fn is_shared(&self, path: &Path, seen: &Seen) -> bool {
        seen.kind == Kind::File
            && !seen.has_one_name()
            && self
                .directory()
                .identity(path)
                .is_ok_and(|identity| self.shares().files().contains(&identity))
    }

    /// Gives `other`, of the same family, a file of this one as it is.
    pub(crate) fn share(&self, path: &Path, other: &Workspace) -> io::Result<()> {
        // First written down: whoever asks in between must hear of it.
        let identity = self.directory().identity(path)?;
        let is_new = self.shares().files().insert(identity);
        let shared = self.directory().share(path, other.directory());
        let shared = shared.and_then(|()| match other.directory().identity(path) {
            Ok(given) if given == identity => Ok(()),
            // A copy came in its place meanwhile, and that one is not written down.
            _ => {
                other.directory().remove(path)?;
                Err(io::ErrorKind::ResourceBusy.into())
            }
        });
        if shared.is_err() && is_new {
            self.shares().files().remove(&identity);
        }
        shared
    }

    /// Takes from `other`, in which nobody works yet, a file that [`share`](Workspace::share) gave it.
    pub(crate) fn unshare(&self, path: &Path, other: &Workspace) -> io::Result<()> {
        let identity = other.directory().identity(path)?;
        other.directory().remove(path)?;
        if self.look(path).is_some_and(|seen| seen.has_one_name()) {
            self.shares().files().remove(&identity);
        }
        Ok(())
    }

    /// The file at this path gets a second name, and is this session's own.
    pub(crate) fn forget_share(&self, path: &Path) {
        if let Ok(identity) = self.directory().identity(path) {
            self.shares().files().remove(&identity);
        }
    }

    /// Makes a file this session's own, if it is shared.
    pub(crate) fn part(&self, path: &Path) -> io::Result<()> {
        if !self
            .look(path)
            .is_some_and(|seen| self.is_shared(path, &seen))
        {
            return Ok(());
        }
        let identity = self.directory().identity(path)?;
        let names_left = self.directory().replace_by_copy(path)?;
        if names_left <= 1 {
            self.shares().files().remove(&identity);
        }
        Ok(())
    }

    /// The same for all files.
    pub(crate) fn part_all(&self) -> io::Result<()> {
        let found = self.walk(Path::new(""), &mut |_, _| {});
        found.entries.keys().try_for_each(|path| self.part(path))
    }

    /// The same for a path that may lead through links.
    pub(crate) fn part_where_it_leads(&self, path: &Path) -> io::Result<()> {
        match self.where_it_leads(path) {
            Some(real) => self.part(&real),
            None => Ok(()),
        }
    }

    /// Sets owner and permissions of what is at a path.
    pub(crate) fn set_access(&self, path: &Path, access: Access) -> io::Result<()> {
        if self.look(path).is_some_and(|seen| seen.access != access) {
            self.part(path)?;
        }
        self.directory().set_access(path, access)
    }

    fn where_it_leads(&self, path: &Path) -> Option<PathBuf> {
        use std::os::fd::AsRawFd as _;
        let file = self.directory().read(path).ok()?;
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let target = std::fs::read_link(link).ok()?;
        Some(target.strip_prefix(self.path()).ok()?.to_owned())
    }
}
