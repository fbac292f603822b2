//! Removing a whole tree of directories, also one that is deeper than paths can be long.

use crate::Confined;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

impl Confined {
    /// Removes a directory with all that is in it.
    pub fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(parent, name, flags, Mode::empty())?;
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
                    let up = unused_name();
                    renameat(&directory, name, self.directory(), &up)?;
                    moved.push(up);
                }
                outcome => outcome?,
            }
        }
        Ok(moved)
    }
}

fn unused_name() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".cellblock-removed-{}-{number}", std::process::id()).into()
}
