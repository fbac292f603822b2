//! Looking at a whole tree of directories, from descriptor to descriptor: a path from the top costs as much as it is deep, and hostile
//! code digs deep.

use crate::Confined;
use crate::Links;
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, chmod, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// No system call takes a longer path.
const MAX_PATH_BYTES: usize = 4095;
/// Directories that are open at a time: those with more than one directory in them, on the way down.
const MAX_OPEN_DIRECTORIES: usize = 128;

/// How much a walk may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Entries.
    pub entries: usize,
    /// Bytes of all their paths.
    pub text: usize,
    /// The treatment of directories that the host owns and may not read.
    pub closed: Closed,
}

/// A directory that is closed to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The directory stays closed, and is not looked into.
    Stays,
    /// The directory is opened for good: its entries must be counted, and may have to be removed.
    IsOpened,
}

/// One step of a walk.
#[derive(Debug)]
pub enum WalkStep<'a> {
    /// A directory, before it is listed.
    Enters(&'a Path, BorrowedFd<'a>),
    /// Anything in it, links not followed.
    Finds(&'a Path, &'a Stat),
    /// A directory with more in it than was looked at: the path would be too long, or the budget is spent.
    Leaves(&'a Path),
}

struct Level {
    path: PathBuf,
    directory: OwnedFd,
    /// The directories in it that are still to be entered.
    below: Vec<OsString>,
}

pub(crate) const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

impl Confined {
    /// Opens, for good, the directories above `path` that are closed to their owner.
    pub fn unlock_above(&self, path: &Path) {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above {
            let mut nothing = Budget {
                entries: 0,
                text: 0,
                closed: Closed::IsOpened,
            };
            self.walk(directory, &mut nothing, &mut |_| {});
        }
    }

    /// Everything below the directory `from`. Nothing if it is no directory.
    pub fn walk(&self, from: &Path, budget: &mut Budget, visit: &mut dyn FnMut(WalkStep<'_>)) {
        let opened = if from.as_os_str().is_empty() {
            match openat(self.directory(), ".", LIST, Mode::empty()) {
                Err(Errno::ACCESS) if budget.closed == Closed::IsOpened => unlock(self.directory()),
                opened => opened.map_err(io::Error::from),
            }
        } else {
            self.split(from, Links::AreNotFollowed)
                .and_then(|(parent, name)| open_directory(parent.as_fd(), name, budget.closed))
        };
        let Ok(directory) = opened else { return };
        let mut levels = Vec::new();
        enter(from.to_owned(), directory, budget, visit, &mut levels);
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.below.pop() else {
                levels.pop();
                continue;
            };
            let path = level.path.join(&name);
            let opened = open_directory(level.directory.as_fd(), &name, budget.closed);
            // With nothing left to enter it is not needed any more, so a shaft of directories keeps one open, not all.
            if level.below.is_empty() {
                levels.pop();
            }
            match opened {
                Ok(_) if levels.len() >= MAX_OPEN_DIRECTORIES => visit(WalkStep::Leaves(&path)),
                Ok(directory) => enter(path, directory, budget, visit, &mut levels),
                Err(_) => {}
            }
        }
    }
}

fn enter(
    path: PathBuf,
    directory: OwnedFd,
    budget: &mut Budget,
    visit: &mut dyn FnMut(WalkStep<'_>),
    levels: &mut Vec<Level>,
) {
    visit(WalkStep::Enters(&path, directory.as_fd()));
    let mut below = Vec::new();
    if list(&path, &directory, budget, visit, &mut below).is_break() {
        visit(WalkStep::Leaves(&path));
    }
    levels.push(Level {
        path,
        directory,
        below,
    });
}

/// Breaks off when there is more than may be looked at.
fn list(
    path: &Path,
    directory: &OwnedFd,
    budget: &mut Budget,
    visit: &mut dyn FnMut(WalkStep<'_>),
    below: &mut Vec<OsString>,
) -> ControlFlow<()> {
    let mut buffer = [MaybeUninit::uninit(); 8 << 10];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut found = path.to_owned();
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It was closed after it was opened here.
            Err(Errno::ACCESS) if budget.closed == Closed::IsOpened => {
                let _ = unlock(directory.as_fd());
                statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            }
            stat => stat,
        };
        let Ok(stat) = stat else {
            continue;
        };
        let name = OsStr::from_bytes(name.to_bytes());
        found.push(name);
        let length = found.as_os_str().len();
        if length > MAX_PATH_BYTES || budget.entries == 0 || budget.text < length {
            return ControlFlow::Break(());
        }
        budget.entries -= 1;
        budget.text -= length;
        visit(WalkStep::Finds(&found, &stat));
        found.pop();
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            below.push(name.to_owned());
        }
    }
    ControlFlow::Continue(())
}

fn open_directory(parent: BorrowedFd<'_>, name: &OsStr, closed: Closed) -> io::Result<OwnedFd> {
    match openat(parent, name, LIST, Mode::empty()) {
        Err(Errno::ACCESS) if closed == Closed::IsOpened => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            unlock(openat(parent, name, flags, Mode::empty())?.as_fd())
        }
        opened => Ok(opened?),
    }
}

/// By its descriptor: by its name it could be another one by now.
pub(crate) fn unlock(directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(fstat(directory)?.st_mode & 0o7777);
    let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
    chmod(itself, mode | Mode::RWXU)?;
    Ok(openat(directory, ".", LIST, Mode::empty())?)
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
