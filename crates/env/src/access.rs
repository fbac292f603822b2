//! Whether this user may use a path, and whose files are believed.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    io::Errno,
};

/// The outermost directory on the way to `path` that the effective user may not enter.
pub(crate) fn blocked_at(path: &Path) -> Option<PathBuf> {
    let ancestors: Vec<_> = path.ancestors().skip(1).collect();
    ancestors
        .into_iter()
        .rev()
        .filter(|ancestor| !ancestor.as_os_str().is_empty())
        .find(|ancestor| denied(ancestor, Access::EXEC_OK))
        .map(Path::to_owned)
}

/// Whether the effective user may not read the file, though it is there.
pub(crate) fn unreadable(path: &Path) -> bool {
    denied(path, Access::READ_OK)
}

/// Whether the effective user may not execute the file, though it is there.
pub(crate) fn not_executable(path: &Path) -> bool {
    denied(path, Access::EXEC_OK)
}

/// Whether what the file says may be acted on: it is this user's own, or root's. `sudo` with a kept
/// `HOME` must not run what the other user put into the cache.
pub(crate) fn is_trusted(metadata: &Metadata) -> bool {
    let owner = metadata.uid();
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// The effective user, for messages.
pub(crate) fn user() -> String {
    format!("uid {}", rustix::process::geteuid().as_raw())
}

fn denied(path: &Path, access: Access) -> bool {
    matches!(
        accessat(CWD, path, access, AtFlags::EACCESS),
        Err(Errno::ACCESS | Errno::PERM)
    )
}
