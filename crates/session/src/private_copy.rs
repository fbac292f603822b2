//! A copy of a workspace for a fork, which works on its own files.

use crate::Error;
use crate::workspace::{Found, Kind, Seen, Workspace};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Copies everything of `from` into `to`, which is empty; links stay links, and pipes, sockets and devices are left out.
///
/// At most `most` bytes: the copy is new data on disk. Files that belong to someone else than the owner of the directory go on
/// doing so, for the code of a session may not read what it could not read before.
pub(crate) fn copy(from: &Workspace, to: &Workspace, most: u64) -> Result<(), Error> {
    let Found {
        entries: found,
        left,
    } = from.walk(Path::new(""), &mut |_, _| {});
    if !left.is_empty() {
        return Err(Error::Refused(
            "a fork works on a copy of the files, and there are more than can be looked at"
                .to_owned(),
        ));
    }
    let bytes: u64 = found.values().map(|seen| seen.bytes).sum();
    if bytes > most {
        return Err(Error::Refused(format!(
            "a fork works on a copy of the files, and {bytes} bytes are more than the limit `disk` of {most} allows"
        )));
    }
    let copies = Copies {
        from,
        to,
        privileged: rustix::process::geteuid().is_root(),
    };
    for (path, seen) in &found {
        copies.copy(path, seen).map_err(|source| Error::File {
            path: path.to_string_lossy().into_owned(),
            source,
        })?;
    }
    // From the inside out: what is put into a directory changes its time.
    for (path, _) in found
        .iter()
        .rev()
        .filter(|(_, seen)| seen.kind == Kind::Directory)
    {
        let _ = copies.finish_directory(path);
    }
    Ok(())
}

/// Gives a directory that will hold a copy to the owner of what is copied.
pub(crate) fn copy_owner(from: &Workspace, to: &Workspace) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let copy = || {
        let owner = fs::metadata(from.path())?;
        std::os::unix::fs::chown(to.path(), Some(owner.uid()), Some(owner.gid()))
    };
    copy().map_err(|source| Error::Storage {
        what: "copying the workspace to",
        path: to.path().to_owned(),
        source,
    })
}

struct Copies<'a> {
    from: &'a Workspace,
    to: &'a Workspace,
    privileged: bool,
}

impl Copies<'_> {
    /// Only the session's own copy of a head comes to the new directory, and only later: paths in it are safe.
    fn copy(&self, path: &Path, seen: &Seen) -> io::Result<()> {
        let target = self.to.path().join(path);
        match seen.kind {
            Kind::Directory => fs::create_dir(&target)?,
            Kind::Link => {
                let pointed = self.from.directory().read_link(path)?;
                std::os::unix::fs::symlink(pointed, &target)?;
            }
            Kind::File => {
                let mut source = match self.from.directory().read(path) {
                    // Removed, or closed to us, since we looked.
                    Err(error) if is_gone(&error) => return Ok(()),
                    outcome => outcome?,
                };
                let mut copy = File::create_new(&target)?;
                // The kernel shares the blocks where the file system can.
                io::copy(&mut source, &mut copy)?;
                copy.set_permissions(fs::Permissions::from_mode(seen.access.mode & 0o777))?;
                let modified = u64::try_from(seen.modified).unwrap_or(0);
                copy.set_modified(UNIX_EPOCH + Duration::from_nanos(modified))?;
            }
        }
        self.copy_owner(path, &target)
    }

    fn copy_owner(&self, path: &Path, target: &Path) -> io::Result<()> {
        if !self.privileged {
            return Ok(());
        }
        match self.from.directory().stat(path) {
            Ok(owner) => std::os::unix::fs::lchown(target, Some(owner.st_uid), Some(owner.st_gid)),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn finish_directory(&self, path: &Path) -> io::Result<()> {
        let stat = self.from.directory().stat(path)?;
        let target = File::open(self.to.path().join(path))?;
        target.set_permissions(fs::Permissions::from_mode(stat.st_mode & 0o777))?;
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        target.set_modified(
            UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(stat.st_mtime_nsec),
        )
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}
