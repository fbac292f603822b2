//! A copy of a workspace for a fork, which works on its own files.

use crate::Error;
use crate::workspace::{Found, Kind, Seen, Workspace};
use cellblock_sandbox::Access;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// More of them only wait for the same disk.
const MOST_THREADS: usize = 4;

/// Copies everything of `from` into `to`, which is empty and which nobody works in yet; links stay links, and pipes, sockets and devices
/// are left out.
///
/// At most `most` bytes: the copy is new data on disk. Files that belong to someone else than the owner of the directory go on
/// doing so, for the code of a session may not read what it could not read before.
pub(crate) fn copy(from: &Workspace, to: &Workspace, most: u64) -> Result<(), Error> {
    let Found { entries, left } = from.walk(Path::new(""), &mut |_, _| {});
    if !left.is_empty() {
        return Err(Error::Refused(
            "a fork works on a copy of the files, and there are more than can be looked at"
                .to_owned(),
        ));
    }
    let bytes: u64 = entries.values().map(|seen| seen.bytes).sum();
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
    let (directories, files): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|(_, seen)| seen.kind == Kind::Directory);
    for (path, _) in &directories {
        fs::create_dir(to.path().join(path)).map_err(in_copy(path))?;
    }
    copies.copy_all(&files)?;
    // From the inside out: what is put into a directory changes its time.
    for (path, seen) in directories.iter().rev() {
        let _ = copies.finish_directory(path, seen);
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
        chown(to.path(), Some(owner.uid()), Some(owner.gid()))
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
    fn copy_all(&self, files: &[(PathBuf, Seen)]) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), Error> {
            while let Some((path, seen)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.copy(path, seen).map_err(in_copy(path))?;
            }
            Ok(())
        };
        let threads = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MOST_THREADS);
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

    /// Only the session's own copy of a head comes to the new directory, and only later: paths in it are safe.
    fn copy(&self, path: &Path, seen: &Seen) -> io::Result<()> {
        let target = self.to.path().join(path);
        if seen.kind == Kind::Link {
            let pointed = self.from.directory().read_link(path)?;
            symlink(pointed, &target)?;
            return self.give(&target, seen.access);
        }
        let source = match self.from.directory().read(path) {
            // Removed, or closed to us, since we looked.
            Err(error) if is_gone(&error) => return Ok(()),
            outcome => outcome?,
        };
        // It may grow while we copy it, and the limit was held against what we saw.
        let mut source = source.take(seen.bytes);
        let mut copy = File::create_new(&target)?;
        // The kernel shares the blocks where the file system can.
        io::copy(&mut source, &mut copy)?;
        self.give(&target, seen.access)?;
        finish(&copy, seen)
    }

    fn finish_directory(&self, path: &Path, seen: &Seen) -> io::Result<()> {
        let target = self.to.path().join(path);
        self.give(&target, seen.access)?;
        finish(&File::open(target)?, seen)
    }

    fn give(&self, target: &Path, access: Access) -> io::Result<()> {
        if self.privileged {
            lchown(target, Some(access.owner), Some(access.group))?;
        }
        Ok(())
    }
}

fn finish(copy: &File, seen: &Seen) -> io::Result<()> {
    let mode = seen.access.mode & 0o777;
    copy.set_permissions(fs::Permissions::from_mode(mode))?;
    let modified = u64::try_from(seen.modified).unwrap_or(0);
    copy.set_modified(UNIX_EPOCH + Duration::from_nanos(modified))
}

fn in_copy(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_string_lossy().into_owned();
    |source| Error::File { path, source }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let from = Workspace::given(&original).unwrap();
        let to = Workspace::fresh(host.path(), "fork").unwrap();
        copy(&from, &to, 100).unwrap();
        let look = |workspace: &Workspace| -> Vec<_> {
            let found = workspace.walk(Path::new(""), &mut |_, _| {}).entries;
            let entry = |(path, seen): (PathBuf, Seen)| (path, seen.modified, seen.access);
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
        let from = Workspace::given(&original).unwrap();
        let to = Workspace::fresh(host.path(), "fork").unwrap();
        assert!(matches!(copy(&from, &to, 100), Err(Error::Refused(_))));
        assert!(to.is_empty());
    }
}
