//! The files of a fork: small files are copied, large ones are shared with the parent until one side changes them.
//!
//! Where there is much, large files are not copied, and where there are many, no files are: the fork gets a second name for it (`shared_files.rs`). Files that a process of the
//! session has open are copied all the same: that process can write to them without a question of init.

use crate::files::entry_state::{EntryState, TrackedKind, WorkspaceListing};
use crate::files::found_processes::Processes;
use crate::files::history::ChangeNotice;
use crate::files::workspace::Workspace;
use crate::{Error, ForkRefusal};
use cellblock_sandbox::{Access, Confined, Links};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// More of them only wait for the same disk.
const MAX_THREADS: usize = 4;
/// With fewer files, starting threads takes longer than copying.
const WORTH_HELP: usize = 16;
/// Up to this much together is copied as it is, and so are as many files: that takes a tenth of a second.
const MAX_QUICK_COPY_BYTES: u64 = 64 << 20;
const MAX_QUICK_COPY_FILES: usize = 1000;
/// Where there is more, files of this size are shared; where there are more, all. But the user edits small files in his own directory:
/// a write that init is not asked about would show in the fork.
const LARGE: u64 = 64 << 10;

/// The files of a fork, as planned.
pub(crate) struct Copying {
    from: Arc<Workspace>,
    to: Arc<Workspace>,
    /// The most bytes that may be copied: the copy is new data on disk.
    most: u64,
    directories: Vec<(PathBuf, EntryState)>,
    copied: Vec<(PathBuf, EntryState)>,
    shared: Vec<(PathBuf, EntryState)>,
}

impl Copying {
    /// Looks at everything of `from`, for a copy in `to`, which is empty and in which no process works yet. Links stay links, and pipes,
    /// sockets and devices are left out. Nothing is shared by a session that is not asked before it changes files.
    pub(crate) fn plan(
        from: Arc<Workspace>,
        to: Arc<Workspace>,
        most: u64,
        change_notice: ChangeNotice,
    ) -> Result<Copying, Error> {
        let WorkspaceListing { entries, left, .. } = from.walk(Path::new(""), &mut |_, _| {});
        if !left.is_empty() {
            return Err(ForkRefusal::TooManyFiles.into());
        }
        let bytes: u64 = entries.values().map(|seen| seen.bytes).sum();
        let can_share = change_notice == ChangeNotice::BeforeChange && from.device() == to.device();
        let least = if entries.len() > MAX_QUICK_COPY_FILES && !from.is_user_directory() {
            0
        } else if bytes > MAX_QUICK_COPY_BYTES {
            LARGE
        } else {
            u64::MAX
        };
        let is_writable = |path: &Path| {
            let parent = path.parent().and_then(|parent| entries.get(parent));
            parent.is_none_or(|parent| parent.access.mode & 0o300 == 0o300)
        };
        let (directories, files): (Vec<_>, Vec<_>) = entries
            .iter()
            .map(|(path, seen)| (path.clone(), *seen))
            .partition(|(_, seen)| seen.kind == TrackedKind::Directory);
        let (shared, copied) = files.into_iter().partition(|(path, seen)| {
            can_share
                && seen.kind == TrackedKind::File
                && seen.bytes >= least
                // A session that changes the file later must be able to read it and to put a copy in its place.
                && seen.access.mode & 0o400 != 0
                && is_writable(path)
                // Names that code gave it must go on showing the same file.
                && (seen.has_one_name() || is_shared(&from, path))
        });
        let copying = Copying {
            from,
            to,
            most,
            directories,
            copied,
            shared,
        };
        copying.check_limit()?;
        Ok(copying)
    }

    /// Whether files will be shared. Then init must ask before each change, from before they are.
    pub(crate) fn has_shared_files(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Makes the copy. Files that one of these processes has open are not shared.
    ///
    /// Files with another owner than the directory keep that owner, for the code of a session may not read
    /// what it could not read before.
    pub(crate) fn carry_out(mut self, processes: &Processes) -> Result<(), Error> {
        for (path, _) in &self.directories {
            let made = self
                .to
                .directory()
                .make_directories(path, Links::AreNotFollowed);
            made.map_err(in_copy(path))?;
        }
        self.share_all(processes)?;
        self.check_limit()?;
        let copies = Copies {
            from: &self.from,
            to: self.to.directory(),
            privileged: rustix::process::geteuid().is_root(),
        };
        copies.copy_all(&self.copied)?;
        // From the inside out: what is put into a directory changes its time.
        for (path, seen) in self.directories.iter().rev() {
            let _ = copies.finish_directory(path, seen);
        }
        Ok(())
    }

    fn share_all(&mut self, processes: &Processes) -> Result<(), Error> {
        let (from, to) = (&self.from, &self.to);
        let mut shared = Vec::new();
        for (path, seen) in std::mem::take(&mut self.shared) {
            match from.share(&path, to) {
                Ok(()) => shared.push((path, seen)),
                // It has as many names as it can have, or one of the rules against links forbids it.
                Err(_) => self.copied.push((path, seen)),
            }
        }
        if shared.is_empty() {
            return Ok(());
        }
        // After that: who opens one from now on is asked.
        let held = processes.held_files(from.device());
        for (path, seen) in shared {
            if held.as_ref().is_none_or(|held| held.contains(&seen.inode)) {
                from.unshare(&path, to).map_err(in_copy(&path))?;
                self.copied.push((path, seen));
            }
        }
        Ok(())
    }

    fn check_limit(&self) -> Result<(), Error> {
        let bytes: u64 = self.copied.iter().map(|(_, seen)| seen.bytes).sum();
        let limit = self.most;
        if bytes <= limit {
            return Ok(());
        }
        Err(ForkRefusal::DiskLimit { bytes, limit }.into())
    }
}

/// Gives a directory that will hold a copy to the owner of what is copied.
pub(crate) fn copy_owner(from: &Workspace, to: &Workspace) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let copy = || {
        let owner = from.directory().own_stat()?;
        to.directory().give_to(owner.st_uid, owner.st_gid)
    };
    copy().map_err(|source| Error::Storage {
        what: "copying the workspace to",
        path: to.path().to_owned(),
        source,
    })
}

/// Copies single files from a workspace that code may be at work in to a directory in which no process works.
pub(crate) struct Copies<'a> {
    pub(crate) from: &'a Workspace,
    pub(crate) to: &'a Confined,
    /// Whether copies have the owners of the originals.
    pub(crate) privileged: bool,
}

impl Copies<'_> {
    fn copy_all(&self, files: &[(PathBuf, EntryState)]) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), Error> {
            while let Some((path, seen)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.copy(path, seen).map_err(in_copy(path))?;
            }
            Ok(())
        };
        if files.len() < WORTH_HELP {
            return work();
        }
        let threads = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MAX_THREADS);
        thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let others = helpers.into_iter().map(|helper| {
                let panicked = |_| Err(in_copy(Path::new(""))(io::ErrorKind::Other.into()));
                helper.join().unwrap_or_else(panicked)
            });
            others.fold(own, Result::and)
        })
    }

    /// Copies what is at the path now. Code may have put another file there since it was listed: the owner of the copy and who may
    /// read it is told by the file that is copied, or code would read what was closed to it.
    pub(crate) fn copy(&self, path: &Path, listed: &EntryState) -> io::Result<()> {
        let Some((entry, seen)) = self.from.find(path) else {
            return Ok(());
        };
        match seen.kind {
            TrackedKind::Link => {
                self.to.make_link(path, &entry.read_link()?)?;
                self.give(path, &seen)
            }
            // The other end of a pipe or a socket is not the fork's.
            TrackedKind::Directory | TrackedKind::Pipe | TrackedKind::SocketOrDevice => Ok(()),
            TrackedKind::File => {
                let source = match entry.read() {
                    // Closed to us.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
                    outcome => outcome?,
                };
                // It may grow while we copy it, and the limit was held against what we saw.
                let mut source = source.take(listed.bytes);
                let mut copy = self.to.create(path, Links::AreNotFollowed)?;
                // The kernel shares the blocks where the file system can.
                io::copy(&mut source, &mut copy)?;
                self.give(path, &seen)?;
                set_time(&copy, &seen)
            }
        }
    }

    fn finish_directory(&self, path: &Path, seen: &EntryState) -> io::Result<()> {
        // Before it may be closed.
        let opened = self
            .to
            .find(path, Links::AreNotFollowed)?
            .read_directory()?;
        self.give(path, seen)?;
        set_time(&opened, seen)
    }

    /// Gives the copy the owner of the original, where that can be, and its permissions.
    fn give(&self, path: &Path, seen: &EntryState) -> io::Result<()> {
        let entry = self.to.find(path, Links::AreNotFollowed)?;
        let own = Access::of(entry.stat());
        let mode = seen.access.mode & 0o777;
        entry.set_access(match self.privileged {
            true => Access {
                mode,
                ..seen.access
            },
            false => Access { mode, ..own },
        })
    }
}

fn set_time(copy: &File, seen: &EntryState) -> io::Result<()> {
    let modified = u64::try_from(seen.modified).unwrap_or(0);
    copy.set_modified(UNIX_EPOCH + Duration::from_nanos(modified))
}

fn is_shared(workspace: &Workspace, path: &Path) -> bool {
    let found = workspace.find(path);
    found.is_some_and(|(entry, _)| workspace.is_shared(&entry))
}

fn in_copy(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_string_lossy().into_owned();
    |source| Error::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn family(original: &Path, state: &Path) -> (Arc<Workspace>, Arc<Workspace>) {
        let from = Workspace::in_user_directory(original).unwrap();
        let to = from.for_copy(state, "fork").unwrap();
        (Arc::new(from), Arc::new(to))
    }

    fn copy(from: &Arc<Workspace>, to: &Arc<Workspace>, most: u64) -> Result<(), Error> {
        let itself = std::process::id();
        Copying::plan(
            Arc::clone(from),
            Arc::clone(to),
            most,
            ChangeNotice::BeforeChange,
        )?
        .carry_out(&Processes::of(
            std::os::unix::process::parent_id(),
            itself,
            Path::new("/workspace"),
        ))
    }

    #[test]
    fn a_copy_is_like_the_original_and_apart_from_it() {
        let host = tempfile::tempdir().unwrap();
        let original = host.path().join("original");
        fs::create_dir_all(original.join("d/e")).unwrap();
        fs::write(original.join("d/e/file"), "text").unwrap();
        fs::set_permissions(original.join("d"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink("/etc/passwd", original.join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            original.join("pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let (from, to) = family(&original, host.path());
        copy(&from, &to, 100).unwrap();
        let look = |workspace: &Workspace| -> Vec<_> {
            let found = workspace.walk(Path::new(""), &mut |_, _| {}).entries;
            let entry = |(path, seen): (PathBuf, EntryState)| (path, seen.modified, seen.access);
            found.into_iter().map(entry).collect()
        };
        let paths: Vec<_> = look(&to).into_iter().map(|(path, ..)| path).collect();
        assert_eq!(paths, ["d", "d/e", "d/e/file", "link"].map(PathBuf::from));
        let original_file = look(&from).remove(2);
        assert_eq!(look(&to)[2], original_file);
        fs::write(to.path().join("d/e/file"), "changed").unwrap();
        assert_eq!(
            fs::read_to_string(original.join("d/e/file")).unwrap(),
            "text"
        );
    }

    #[test]
    fn what_is_more_than_the_limit_is_not_copied() {
        let host = tempfile::tempdir().unwrap();
        let original = host.path().join("original");
        fs::create_dir(&original).unwrap();
        fs::write(original.join("file"), [0; 101]).unwrap();
        let (from, to) = family(&original, host.path());
        assert!(matches!(
            copy(&from, &to, 100),
            Err(Error::Refused(Refusal::Fork(ForkRefusal::DiskLimit {
                limit: 100,
                ..
            })))
        ));
        assert!(to.is_empty());
    }
    #[test]
    fn where_there_is_much_a_large_file_is_shared_unless_it_is_open_or_has_other_names() {
        let host = tempfile::tempdir().unwrap();
        let original = host.path().join("original");
        fs::create_dir(&original).unwrap();
        for name in ["large", "open", "linked", "small"] {
            let bytes = if name == "small" {
                100
            } else {
                MAX_QUICK_COPY_BYTES / 2
            };
            let file = File::create(original.join(name)).unwrap();
            file.set_len(bytes).unwrap();
        }
        fs::hard_link(original.join("linked"), original.join("also")).unwrap();
        let held = File::open(original.join("open")).unwrap();
        let (from, to) = family(&original, host.path());
        copy(&from, &to, 4 * MAX_QUICK_COPY_BYTES).unwrap();
        drop(held);
        let inode = |of: &Workspace, name: &str| of.look(Path::new(name)).unwrap().inode;
        let is_shared = |name: &&str| inode(&from, name) == inode(&to, name);
        let names = ["large", "open", "linked", "also", "small"];
        assert_eq!(names.iter().filter(|name| is_shared(name)).count(), 1);
        assert!(is_shared(&"large"));
        // The host's own writes part it first.
        to.put("large", b"new").unwrap();
        assert_eq!(
            from.look(Path::new("large")).unwrap().bytes,
            MAX_QUICK_COPY_BYTES / 2
        );
    }
}
