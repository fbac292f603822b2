//! The workspaces in the state directory: those of sessions that live, and those that ended sessions left behind.
//!
//! Each workspace `NAME` has a lock file `NAME.lock` beside it, outside the reach of the session's code. A session holds it as long as it
//! lives, so a workspace whose lock is free belongs to an ended session.

use crate::state_directory::reach_below;
use cellblock_sandbox::{Budget, Closed, Confined, WalkStep, private_directory, remove_directory};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most entries of one workspace that are measured, and the most bytes of their paths.
const MAX_ENTRIES: usize = 1_000_000;
const MAX_PATH_BYTES: usize = 128 << 20;

/// How long, and up to how much together, the workspaces of ended sessions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceRetention {
    /// The time since the last change in a workspace.
    pub max_age: Duration,
    /// The bytes of all of them together. The oldest go first.
    pub max_bytes: u64,
}

impl Default for WorkspaceRetention {
    /// Seven days, and 10 GB.
    fn default() -> WorkspaceRetention {
        WorkspaceRetention {
            max_age: Duration::from_secs(7 * 24 * 3600),
            max_bytes: 10_000_000_000,
        }
    }
}

/// The workspaces in a state directory.
#[derive(Clone, Debug)]
pub struct KeptWorkspaces {
    state: PathBuf,
    directory: PathBuf,
}

/// A workspace in the state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWorkspace {
    /// The directory.
    pub path: PathBuf,
    /// The room that its files take on disk.
    pub bytes: u64,
    /// When something in it was written last.
    pub last_change: SystemTime,
    /// Whether a session that lives works in it.
    pub is_in_use: bool,
}

impl KeptWorkspaces {
    /// The workspaces below this state directory.
    pub fn new(state: &Path) -> KeptWorkspaces {
        KeptWorkspaces {
            state: state.to_owned(),
            directory: state.join("workspaces"),
        }
    }

    /// Makes an empty workspace of this name. A session that is opened in it holds its lock.
    pub fn make(&self, name: &str) -> io::Result<PathBuf> {
        private_directory(&self.directory, reach_below(&self.state))?;
        let path = self.directory.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        match create_lock(&path) {
            Ok(_) => Ok(path),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// Removes a workspace that [`make`](Self::make) made, if nothing is in it.
    pub fn remove_if_empty(&self, path: &Path) {
        if path.parent() == Some(&self.directory) {
            remove_if_empty(path);
        }
    }

    /// Lists all workspaces with their sizes, those first that were changed longest ago.
    pub fn list(&self) -> io::Result<Vec<KeptWorkspace>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            // A workspace may go while the others are measured.
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Ok(measured) = measure(&entry.path())
            {
                found.push(measured);
            }
        }
        found.sort_by_key(|workspace| workspace.last_change);
        Ok(found)
    }

    /// Removes a workspace of this directory. Returns `false` for one that is in use or somewhere else.
    pub fn remove(&self, path: &Path) -> io::Result<bool> {
        let is_here = path.parent() == Some(&self.directory);
        if !is_here || !path.is_dir() {
            return Ok(false);
        }
        let lock = open_lock(path)?;
        if let Some(lock) = &lock {
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        remove_directory(path)?;
        if lock.is_some() {
            let _ = fs::remove_file(lock_path(path));
        }
        Ok(true)
    }

    /// Removes the workspaces of ended sessions that are older than they may be, and then the oldest until the rest is small enough.
    /// Returns those that were removed.
    pub fn remove_expired(&self, retention: WorkspaceRetention) -> io::Result<Vec<KeptWorkspace>> {
        let all = self.list()?;
        let mut ended: Vec<KeptWorkspace> = all.into_iter().filter(|one| !one.is_in_use).collect();
        let mut total: u64 = ended.iter().map(|one| one.bytes).sum();
        let now = SystemTime::now();
        ended.retain(|workspace| {
            let age = now.duration_since(workspace.last_change);
            let is_expired = age.unwrap_or_default() > retention.max_age;
            if !is_expired && total <= retention.max_bytes {
                return false;
            }
            let is_removed = self.remove(&workspace.path).unwrap_or(false);
            if is_removed {
                total = total.saturating_sub(workspace.bytes);
            }
            is_removed
        });
        Ok(ended)
    }
}

/// Takes the lock of a workspace in the state directory, for as long as the file is open. `None` for a directory of the user, which has no
/// lock file.
pub(super) fn hold_lock(workspace: &Path) -> Option<File> {
    let lock = open_lock(workspace).ok().flatten()?;
    // A second session in the same directory holds it too. Only a removal holds it alone, for as long as that takes.
    lock.lock_shared().ok()?;
    Some(lock)
}

/// Makes the lock file of a new workspace.
fn create_lock(workspace: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(lock_path(workspace))
}

/// Removes a directory of a session that did not come to life; of a workspace, its lock file too.
pub(crate) fn remove_unfinished(directory: &Path) {
    let _ = remove_directory(directory);
    if is_in_workspaces(directory) {
        let _ = fs::remove_file(lock_path(directory));
    }
}

/// Removes a workspace that was made for a session, with its lock file, if nothing is in it.
pub(crate) fn remove_if_empty(workspace: &Path) {
    if fs::remove_dir(workspace).is_ok() {
        let _ = fs::remove_file(lock_path(workspace));
    }
}

fn open_lock(workspace: &Path) -> io::Result<Option<File>> {
    if !is_in_workspaces(workspace) {
        return Ok(None);
    }
    match OpenOptions::new().write(true).open(lock_path(workspace)) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_in_workspaces(directory: &Path) -> bool {
    let parent = directory.parent().and_then(Path::file_name);
    parent.is_some_and(|name| name == "workspaces")
}

fn lock_path(workspace: &Path) -> PathBuf {
    let mut path = workspace.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn measure(path: &Path) -> io::Result<KeptWorkspace> {
    let directory = Confined::open_real(path)?;
    let own = directory.own_stat()?;
    let (mut bytes, mut last) = (0, own.st_mtime);
    let mut budget = Budget {
        entries: MAX_ENTRIES,
        text: MAX_PATH_BYTES,
        closed: Closed::Stays,
    };
    directory.walk(Path::new(""), &mut budget, &mut |step| {
        if let WalkStep::Finds(_, stat) = step {
            bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            last = last.max(stat.st_mtime);
        }
    });
    let since_1970 = Duration::from_secs(u64::try_from(last).unwrap_or(0));
    let is_in_use = match open_lock(path)? {
        Some(lock) => matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        None => false,
    };
    Ok(KeptWorkspace {
        path: path.to_owned(),
        bytes,
        last_change: UNIX_EPOCH + since_1970,
        is_in_use,
    })
}
