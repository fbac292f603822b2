//! Removing a whole tree of directories, also one that is deeper than paths can be long.

use crate::Confined;
use crate::Links;
use crate::files::confined::unguessable_name;
use crate::files::walk::{LIST, unlock};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Removes a directory of the host's with all that is in it, however deep it is, also if code has closed parts of it. One that is not there is
/// fine.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let removed = Confined::open(parent).and_then(|parent| parent.remove_tree(Path::new(name)));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

impl Confined {
    /// Removes a directory with all that is in it.
    pub fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        let mut left = self.empty(parent.as_fd(), name)?;
        unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
        while let Some(name) = left.pop() {
            left.extend(self.empty(self.directory(), &name)?);
            unlinkat(self.directory(), &name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }

    /// Removes all that is in a directory. Directories that are not empty are moved to the top, where they are reached without
    /// going down, and returned by their names there.
    fn empty(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Vec<OsString>> {
        let directory = open_to_empty(parent, name)?;
        let mut moved = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match unlinkat(&directory, name, AtFlags::empty()) {
                Err(Errno::ISDIR) => {}
                outcome => {
                    outcome?;
                    continue;
                }
            }
            match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY) => {
                    // A directory that its owner may not write cannot be moved: its own `..` changes with it.
                    drop(open_to_empty(
                        directory.as_fd(),
                        OsStr::from_bytes(name.to_bytes()),
                    )?);
                    let up = unguessable_name();
                    renameat(&directory, name, self.directory(), &up)?;
                    moved.push(up);
                }
                outcome => outcome?,
            }
        }
        Ok(moved)
    }
}

/// Opens a directory whose entries shall be removed, also one that is closed to its owner.
fn open_to_empty(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty())?;
    if fstat(&directory)?.st_mode & 0o700 != 0o700 {
        return unlock(directory.as_fd());
    }
    Ok(openat(&directory, ".", LIST, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_tree_is_removed_however_deep_it_is_and_whatever_is_closed_in_it() {
        let host = tempfile::tempdir().unwrap();
        let outside = host.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "precious").unwrap();
        let top = host.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut here = openat(rustix::fs::CWD, &top, LIST, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
            here = openat(&here, "d", LIST, Mode::empty()).unwrap();
        }
        for closed in ["closed", "closed/below", "closed/below/lowest"] {
            fs::create_dir(top.join(closed)).unwrap();
            symlink(&outside, top.join(closed).join("link")).unwrap();
            fs::write(top.join(closed).join("file"), "").unwrap();
        }
        for closed in ["closed/below/lowest", "closed/below", "closed"] {
            let nothing = fs::Permissions::from_mode(0o0);
            fs::set_permissions(top.join(closed), nothing).unwrap();
        }
        remove_directory(&top).unwrap();
        assert_eq!(fs::read_dir(host.path()).unwrap().count(), 1);
        assert_eq!(
            fs::read_to_string(outside.join("file")).unwrap(),
            "precious"
        );
        remove_directory(&top).unwrap();
    }
}
