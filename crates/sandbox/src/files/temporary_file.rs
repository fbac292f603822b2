//! A file that is not finished: it has no name until it is whole, and then takes the place of another in one step.

use crate::files::confined::unguessable_name;
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;

/// A temporary file, which is removed when this value is dropped.
pub(crate) struct TemporaryFile<'a> {
    parent: BorrowedFd<'a>,
    pub(crate) file: File,
    /// The name, on file systems that have no files without a name.
    name: Option<OsString>,
}

impl<'a> TemporaryFile<'a> {
    /// Begins one in a directory, for its owner alone.
    pub(crate) fn new(parent: BorrowedFd<'a>) -> io::Result<TemporaryFile<'a>> {
        let mode = Mode::from_raw_mode(0o600);
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match openat(parent, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => Ok(TemporaryFile {
                parent,
                file: File::from(file),
                name: None,
            }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = unguessable_name();
                let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file = openat(parent, &name, new, mode)?;
                Ok(TemporaryFile {
                    parent,
                    file: File::from(file),
                    name: Some(name),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Puts it in the place of what has this name in the same directory. Returns the file: its name may lead to another one by then.
    pub(crate) fn move_to(mut self, name: &OsStr) -> io::Result<File> {
        let temporary_file = match self.name.take() {
            Some(temporary_file) => temporary_file,
            None => {
                let temporary_file = unguessable_name();
                let itself = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
                linkat(
                    CWD,
                    itself,
                    self.parent,
                    &temporary_file,
                    AtFlags::SYMLINK_FOLLOW,
                )?;
                temporary_file
            }
        };
        let renamed = renameat(self.parent, &temporary_file, self.parent, name);
        if renamed.is_err() {
            self.name = Some(temporary_file);
        }
        renamed?;
        // Code sees the name as soon as it is there, and can put something else under it before it is moved.
        let (made, found) = (
            fstat(&self.file)?,
            statat(self.parent, name, AtFlags::SYMLINK_NOFOLLOW)?,
        );
        if (made.st_dev, made.st_ino) == (found.st_dev, found.st_ino) {
            self.file.try_clone()
        } else {
            Err(io::ErrorKind::ResourceBusy.into())
        }
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(self.parent, name, AtFlags::empty());
        }
    }
}
