//! Files that sessions of one family have in common: a fork gets a second name for a large file instead of a copy.
//!
//! Such a file is never written to. Before a session changes its own (`preserve.rs`), and before the host does, a copy takes the place of
//! the session's name (`Workspace::part`). Code makes second names as well; those are left alone, so it is written down here
//! which files are shared.
//!
//! Code can exchange names at any moment. So the host decides about a file that it has found ([`EntryHandle`]) and acts on that one; it does not look
//! its name up again.

use crate::files::entry_state::{EntryState, TrackedKind, time_of};
use crate::files::workspace::Workspace;
use cellblock_sandbox::{Access, EntryHandle, Identity, Links};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a name is looked up that leads to another file each time.
const MAX_ATTEMPTS: usize = 32;

/// The files that a session, its forks and theirs have in common.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles {
    files: Mutex<SharedSet>,
}

#[derive(Debug, Default)]
struct SharedSet {
    shared: HashSet<Identity>,
    /// The host writes to these now: they are not shared meanwhile.
    written: Vec<Identity>,
}

/// A file of a session that the host writes to.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) file: File,
    identity: Identity,
    shared_files: Arc<SharedFiles>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        let written = &mut self.shared_files.files().written;
        if let Some(at) = written.iter().position(|one| *one == self.identity) {
            written.swap_remove(at);
        }
    }
}

impl SharedFiles {
    fn files(&self) -> MutexGuard<'_, SharedSet> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedSet {
    fn is_shared(&self, entry: &EntryHandle, identity: &Identity) -> bool {
        self.shared.contains(identity) && entry.stat_now().is_ok_and(|now| now.st_nlink > 1)
    }

    /// The last name of a file that was shared is the session's own.
    fn forget_if_alone(&mut self, entry: &EntryHandle, identity: &Identity) {
        if entry.stat_now().is_ok_and(|now| now.st_nlink <= 1) {
            self.shared.remove(identity);
        }
    }
}

impl Workspace {
    /// Whether another session may have this file too.
    pub(crate) fn is_shared(&self, entry: &EntryHandle) -> bool {
        let seen = EntryState::from_stat(entry.stat());
        seen.kind == TrackedKind::File
            && !seen.has_one_name()
            && entry
                .identity()
                .is_ok_and(|identity| self.shared_files().files().is_shared(entry, &identity))
    }

    /// Gives `other`, of the same family, a file of this one as it is.
    pub(crate) fn share(&self, path: &Path, other: &Workspace) -> io::Result<()> {
        let entry = self.directory().find(path, Links::AreNotFollowed)?;
        let is_file = EntryState::from_stat(entry.stat()).kind == TrackedKind::File;
        let identity = entry.identity()?;
        let mut files = self.shared_files().files();
        if !is_file || files.written.contains(&identity) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // Recorded first: every later query finds it.
        let is_new = files.shared.insert(identity);
        let shared = other.directory().take_in(&entry, path);
        if shared.is_err() && is_new {
            files.shared.remove(&identity);
        }
        shared
    }

    /// Takes from `other`, in which no process works yet, a file that [`share`](Workspace::share) gave it.
    pub(crate) fn unshare(&self, path: &Path, other: &Workspace) -> io::Result<()> {
        let entry = other.directory().find(path, Links::AreNotFollowed)?;
        let identity = entry.identity()?;
        other.directory().remove(path)?;
        self.shared_files()
            .files()
            .forget_if_alone(&entry, &identity);
        Ok(())
    }

    /// The file gets a second name, and is this session's own.
    pub(crate) fn forget_share(&self, entry: &EntryHandle) {
        if let Ok(identity) = entry.identity() {
            self.shared_files().files().shared.remove(&identity);
        }
    }

    /// Makes the file at a path this session's own, if it is shared.
    pub(crate) fn make_own(&self, path: &Path) -> io::Result<()> {
        match self.find(path) {
            Some((entry, _)) if self.is_shared(&entry) => {
                self.directory().replace_by_copy(path, &entry)?;
                let identity = entry.identity()?;
                self.shared_files()
                    .files()
                    .forget_if_alone(&entry, &identity);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes all files this session's own.
    pub(crate) fn make_all_own(&self) -> io::Result<()> {
        let found = self.walk(Path::new(""), &mut |_, _| {});
        found
            .entries
            .keys()
            .try_for_each(|path| self.make_own(path))
    }

    /// Opens a file that was found, for the host to write to. `None` when others have it too.
    pub(crate) fn write_to(&self, entry: &EntryHandle) -> io::Result<Option<Writing>> {
        let file = entry.write()?;
        let identity = entry.identity()?;
        let mut files = self.shared_files().files();
        if files.is_shared(entry, &identity) {
            return Ok(None);
        }
        files.written.push(identity);
        drop(files);
        let shared_files = Arc::clone(self.shared_files());
        Ok(Some(Writing {
            file,
            identity,
            shared_files,
        }))
    }

    /// Opens the file at a path for writing, or makes it. Links are followed inside; what is in the file stays.
    pub(crate) fn open_to_write(&self, path: &Path) -> io::Result<Writing> {
        let links = Links::AreFollowedInside;
        for _ in 0..MAX_ATTEMPTS {
            let entry = match self.directory().find(path, links) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match self.directory().create(path, links) {
                        // A link that leads to nothing is there for good; anything else was made meanwhile.
                        Err(error) if self.directory().find(path, links).is_err() => {
                            return Err(error);
                        }
                        // The next round finds it, or whatever has its name by then.
                        _ => continue,
                    }
                }
                // The kernel asks to try again when names were changed on the way.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                found => found?,
            };
            match self.write_to(&entry)? {
                Some(writing) => return Ok(writing),
                // Links may have led to it.
                None => self.make_own(&self.directory().place_of(&entry)?)?,
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Refuses something that belongs neither to the session nor to this user, where the host is root: code put it under a name at which
    /// the session's own was expected, to have it opened or given to itself.
    pub(crate) fn refuse_foreign(&self, entry: &EntryHandle) -> io::Result<()> {
        let owner = self.directory().own_stat()?.st_uid;
        if !rustix::process::geteuid().is_root() || entry.stat_now()?.st_uid == owner {
            return Ok(());
        }
        Err(io::Error::other(
            "something of another user's is in its place, and was left alone",
        ))
    }

    /// Sets owner and permissions of something that the session, or the host for it, has made.
    pub(crate) fn set_own_access(&self, entry: &EntryHandle, access: Access) -> io::Result<()> {
        self.refuse_foreign(entry)?;
        entry.set_access(access)
    }

    /// Sets owner and permissions of the file that was seen at a path, if it is still there.
    pub(crate) fn set_access(&self, path: &Path, seen: &EntryState) -> io::Result<()> {
        let entry = self.directory().find(path, Links::AreNotFollowed)?;
        if entry.stat().st_ino != seen.inode {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        if Access::of(entry.stat()) == seen.access {
            return Ok(());
        }
        if !self.is_shared(&entry) {
            return entry.set_access(seen.access);
        }
        let (directory, mut contents) = (self.directory(), entry.read()?);
        directory.replace_by(path, &mut contents, seen.access, time_of(seen.modified))?;
        let identity = entry.identity()?;
        self.shared_files()
            .files()
            .forget_if_alone(&entry, &identity);
        Ok(())
    }
}
