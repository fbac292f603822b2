//! Something that was found in a directory, held by a descriptor: whatever becomes of its name, this is the file that was looked at.

use crate::files::confined::Access;
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatxFlags, Uid, chmod, chownat, fstat,
    linkat, openat, readlinkat, statx,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Bits of a file's mode with which it runs as its owner or its group, whichever user starts it.
pub const SET_ID_BITS: u32 = 0o6000;

/// A file, a directory, a link or anything else that has a name. The descriptor only stands for it: finding a pipe or a device opens
/// nothing, and never waits.
#[derive(Debug)]
pub struct EntryHandle {
    descriptor: OwnedFd,
    stat: Stat,
}

/// The identity that tells an inode from all others. The number alone does not: it is given out anew when the file is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
    created: (i64, u32),
}

impl Identity {
    /// Whether the file system says when files were made. Where it does not, a later file can have the same identity.
    pub fn is_certain(&self) -> bool {
        self.created != (0, 0)
    }
}

impl EntryHandle {
    pub(crate) fn of(descriptor: OwnedFd) -> io::Result<EntryHandle> {
        let stat = fstat(&descriptor)?;
        Ok(EntryHandle { descriptor, stat })
    }

    /// The `stat` of the entry when it was found.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// The `stat` of the entry now.
    pub fn stat_now(&self) -> io::Result<Stat> {
        Ok(fstat(&self.descriptor)?)
    }

    /// The identity of the entry's inode.
    pub fn identity(&self) -> io::Result<Identity> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(&self.descriptor, "", AtFlags::EMPTY_PATH, wanted)?;
        let is_told = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let created = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        Ok(Identity {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            created: if is_told { created } else { (0, 0) },
        })
    }

    /// Opens it for reading, if it is a plain file.
    pub fn read(&self) -> io::Result<File> {
        self.open(OFlags::RDONLY)
    }

    /// Opens it for writing, if it is a plain file. What is in it stays.
    pub fn write(&self) -> io::Result<File> {
        self.open(OFlags::WRONLY)
    }

    /// Opens it for reading, if it is a directory.
    pub fn read_directory(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(openat(
            CWD,
            self.itself(),
            flags,
            Mode::empty(),
        )?))
    }

    fn open(&self, way: OFlags) -> io::Result<File> {
        if FileType::from_raw_mode(self.stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a plain file",
            ));
        }
        // Opening does not wait for a process that has a lease on the file.
        let flags = way | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(File::from(openat(
            CWD,
            self.itself(),
            flags,
            Mode::empty(),
        )?))
    }

    /// The target of the entry, if it is a link.
    pub fn read_link(&self) -> io::Result<PathBuf> {
        let target = readlinkat(&self.descriptor, "", Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    /// Gives the file the owner and the permissions that it had. The bits that let a program run as its owner are never set:
    /// code may hold the file open, and write to it through a map without losing them.
    pub fn set_access(&self, access: Access) -> io::Result<()> {
        let now = self.stat_now()?;
        let is_directory = FileType::from_raw_mode(now.st_mode) == FileType::Directory;
        let wanted = match is_directory {
            // There the bits only choose the owner of new files.
            true => access,
            false => Access {
                mode: access.mode & !SET_ID_BITS,
                ..access
            },
        };
        if Access::of(&now) == wanted {
            return Ok(());
        }
        if (now.st_uid, now.st_gid) != (wanted.owner, wanted.group) {
            let (owner, group) = (Uid::from_raw(wanted.owner), Gid::from_raw(wanted.group));
            let itself = AtFlags::EMPTY_PATH;
            chownat(&self.descriptor, "", Some(owner), Some(group), itself)?;
        }
        if FileType::from_raw_mode(now.st_mode) != FileType::Symlink {
            chmod(self.itself(), Mode::from_raw_mode(wanted.mode))?;
        }
        Ok(())
    }

    /// Gives it a second name at a path of the host's, on the same file system.
    pub fn link_out(&self, elsewhere: &Path) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(linkat(CWD, self.itself(), CWD, elsewhere, flags)?)
    }

    /// A path that leads to the file itself, whatever its name leads to by now.
    pub(crate) fn itself(&self) -> PathBuf {
        let number = self.descriptor.as_fd().as_raw_fd();
        PathBuf::from(format!("/proc/self/fd/{number}"))
    }
}
