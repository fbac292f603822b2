//! The workspace of a session: its directory, and what is in it.

use crate::files::entry_state::{EntryState, TrackedKind, WorkspaceListing};
use crate::files::kept_workspaces::{KeptWorkspaces, hold_lock, remove_if_empty};
use crate::files::shared_files::SharedFiles;
use crate::files::store::{Attributes, Fingerprint};
use crate::{Error, WorkspaceProblem};
use cellblock_sandbox::{Budget, Closed, Confined, EntryHandle, FileSystem, Links, Stat, WalkStep};
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most entries of a workspace that are looked at, and the most bytes of their paths.
const MAX_ENTRIES: usize = 200_000;
const MAX_PATH_BYTES: usize = 32 << 20;

/// A workspace on disk.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(super) path: PathBuf,
    pub(super) directory: Confined,
    /// The file system that it is on, as `stat` numbers it.
    device: u64,
    /// The owner of the directory when it was opened: with its files, code can do what that user can.
    pub(super) owner: u32,
    origin: Origin,
    shared_files: Arc<SharedFiles>,
    file_system: Option<FileSystem>,
    /// Held as long as the workspace is in use.
    _lock: Option<File>,
}

/// The origin of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A directory of the user's.
    UserDirectory,
    /// An empty one, made for the session.
    Fresh,
    /// A copy of another session's.
    Copied,
}

impl Workspace {
    /// A directory of the user's.
    pub(crate) fn in_user_directory(path: &Path) -> Result<Workspace, Error> {
        let refuse = |problem| Error::workspace(path, problem);
        let path = fs::canonicalize(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refuse(WorkspaceProblem::Missing),
            _ => refuse(WorkspaceProblem::System(error)),
        })?;
        if path == Path::new("/") {
            return Err(refuse(WorkspaceProblem::RootDirectory));
        }
        // From here on it is this directory, whatever its path leads to later.
        let directory = Confined::open_real(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => refuse(WorkspaceProblem::NotADirectory),
            _ => refuse(WorkspaceProblem::System(error)),
        })?;
        directory
            .check_writable()
            .map_err(|error| match error.kind() {
                io::ErrorKind::ReadOnlyFilesystem => refuse(WorkspaceProblem::ReadOnly),
                io::ErrorKind::PermissionDenied => refuse(WorkspaceProblem::NotWritable),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    refuse(WorkspaceProblem::DiskFull)
                }
                _ => refuse(WorkspaceProblem::System(error)),
            })?;
        Workspace::of(path, directory, Origin::UserDirectory, Arc::default())
    }

    /// A fresh one, which survives the session unless it stays empty.
    pub(crate) fn fresh(state: &Path, session: &str) -> Result<Workspace, Error> {
        Workspace::make(state, session, Origin::Fresh, Arc::default())
    }

    /// A directory for temporary files of a session, which goes with the session's own directory.
    pub(crate) fn temporary(path: &Path) -> Result<Workspace, Error> {
        let directory = Confined::open_real(path)
            .map_err(|error| Error::workspace(path, WorkspaceProblem::System(error)))?;
        Workspace::of(path.to_owned(), directory, Origin::Fresh, Arc::default())
    }

    /// Makes an empty workspace for a copy of this one's files.
    pub(crate) fn for_copy(&self, state: &Path, session: &str) -> Result<Workspace, Error> {
        Workspace::make(
            state,
            session,
            Origin::Copied,
            Arc::clone(&self.shared_files),
        )
    }

    fn make(
        state: &Path,
        session: &str,
        origin: Origin,
        shared_files: Arc<SharedFiles>,
    ) -> Result<Workspace, Error> {
        let kept = KeptWorkspaces::new(state);
        let name = unique_name(session);
        let failed = |source| Error::Storage {
            what: "making the workspace",
            path: state.join("workspaces").join(&name),
            source,
        };
        let path = kept.make(&name).map_err(failed)?;
        let real = path.canonicalize().map_err(failed)?;
        let directory = Confined::open_real(&real).map_err(failed)?;
        Workspace::of(real, directory, origin, shared_files)
    }

    fn of(
        path: PathBuf,
        directory: Confined,
        origin: Origin,
        shared_files: Arc<SharedFiles>,
    ) -> Result<Workspace, Error> {
        let owner = directory
            .own_stat()
            .map_err(|error| Error::workspace(&path, WorkspaceProblem::System(error)))?;
        Ok(Workspace {
            _lock: hold_lock(&path),
            path,
            file_system: directory.file_system().ok(),
            device: owner.st_dev,
            owner: owner.st_uid,
            directory,
            origin,
            shared_files,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file system that it is on, as `stat` numbers it.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Whether nothing was in it when the session began.
    pub(crate) fn began_empty(&self) -> bool {
        self.origin == Origin::Fresh
    }

    /// Whether the workspace is a directory of the user's.
    pub(crate) fn is_user_directory(&self) -> bool {
        self.origin == Origin::UserDirectory
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        let mut is_empty = true;
        let mut budget = Budget {
            entries: 1,
            text: MAX_PATH_BYTES,
            closed: Closed::Stays,
        };
        self.directory
            .walk(Path::new(""), &mut budget, &mut |step| {
                is_empty &= matches!(step, WalkStep::Enters(..));
            });
        is_empty
    }

    /// The files that the workspace has in common with other sessions.
    pub(crate) fn shared_files(&self) -> &Arc<SharedFiles> {
        &self.shared_files
    }

    /// The directory, for the code that restores files.
    pub(crate) fn directory(&self) -> &Confined {
        &self.directory
    }

    /// Everything below `from`, and `from` itself unless it is the root.
    pub(crate) fn walk(
        &self,
        from: &Path,
        on_directory: &mut dyn FnMut(&Path, BorrowedFd<'_>),
    ) -> WorkspaceListing {
        let mut found = WorkspaceListing::default();
        // A directory of the user's may be closed for a reason of his.
        let closed = match self.origin {
            Origin::UserDirectory => Closed::Stays,
            Origin::Fresh | Origin::Copied => Closed::IsOpened,
        };
        if !from.as_os_str().is_empty() {
            let stat = match self.directory.stat(from) {
                Err(error) if is_closed(&error) && closed == Closed::IsOpened => {
                    self.directory.unlock_above(from);
                    self.directory.stat(from)
                }
                stat => stat,
            };
            let Ok(stat) = stat else {
                return found;
            };
            let seen = self.note(&mut found, from, &stat);
            if seen.kind != TrackedKind::Directory {
                return found;
            }
        }
        let mut budget = Budget {
            entries: MAX_ENTRIES,
            text: MAX_PATH_BYTES,
            closed,
        };
        self.directory
            .walk(from, &mut budget, &mut |step| match step {
                WalkStep::Enters(path, directory) => {
                    found.enter(path, directory);
                    on_directory(path, directory);
                }
                WalkStep::Finds(path, stat) => {
                    self.note(&mut found, path, stat);
                }
                WalkStep::Leaves(path) => {
                    found.left.insert(path.to_owned());
                }
            });
        found
    }

    /// The file system that the workspace is on.
    pub(crate) fn file_system(&self) -> Option<FileSystem> {
        self.directory.file_system().ok()
    }

    /// The bytes that an entry takes on disk: its size, or what is reserved for it, whichever is more.
    pub(crate) fn taken_by(&self, seen: &EntryState) -> u64 {
        /// XFS reserves at least this much for a file that grows.
        const MIN_RESERVED_BYTES: u64 = 64 << 10;
        let reserves_ahead = self.file_system.is_some_and(FileSystem::reserves_ahead);
        let ahead = if reserves_ahead && seen.kind == TrackedKind::File {
            seen.bytes + MIN_RESERVED_BYTES
        } else {
            0
        };
        seen.bytes.max(seen.allocated.saturating_sub(ahead))
    }

    fn note(&self, found: &mut WorkspaceListing, path: &Path, stat: &Stat) -> EntryState {
        let seen = found.add(path, stat);
        if self.runs_as_owner(&seen) {
            found.set_id_files.push(path.to_owned());
        }
        seen
    }

    /// Looks at the entry at a path.
    pub(crate) fn look(&self, path: &Path) -> Option<EntryState> {
        Some(EntryState::from_stat(&self.directory.stat(path).ok()?))
    }

    /// Looks at the directory at a path, with its extended attributes.
    pub(crate) fn look_at_directory(&self, path: &Path) -> Option<EntryState> {
        let (entry, mut seen) = self.find(path)?;
        seen.attributes = Attributes::of(&entry)
            .map_or(Fingerprint::Unknown, |attributes| attributes.fingerprint());
        Some(seen)
    }

    /// Finds the entry at a path, to be acted on: whatever is decided about it holds for this very file, and not for what its name leads to later.
    pub(crate) fn find(&self, path: &Path) -> Option<(EntryHandle, EntryState)> {
        let entry = self.directory.find(path, Links::AreNotFollowed).ok()?;
        let seen = EntryState::from_stat(entry.stat());
        Some((entry, seen))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.is_user_directory() {
            remove_if_empty(&self.path);
        }
    }
}

/// Whether a directory above could not be searched.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The session's id, when it began, and a number that cannot be guessed: two processes may both have a session `default`, and where sessions
/// see the host's files, none shall find the workspace of another by trying names.
fn unique_name(session: &str) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let number = RandomState::new().hash_one((now, std::process::id()));
    format!("{session}-{}-{number:016x}", now.as_secs())
}
