//! Files below a directory, reached without ever leaving it: the workspace belongs to hostile code, which may put links into it
//! while we look.

use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, chmod, chownat, fchown,
    fstat, linkat, mkdirat, openat, openat2, readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// A directory that is not left.
#[derive(Debug)]
pub struct Confined {
    directory: OwnedFd,
    /// Whose it is, when that can be given away: what root makes here shall not be root's.
    owner: Option<(Uid, Gid)>,
}

/// Whose something is and who may do what with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The user it belongs to.
    pub owner: u32,
    /// The group it belongs to.
    pub group: u32,
    /// The permission bits.
    pub mode: u32,
}

impl Access {
    /// As `stat` tells it.
    pub fn of(stat: &Stat) -> Access {
        Access {
            owner: stat.st_uid,
            group: stat.st_gid,
            mode: stat.st_mode & 0o7777,
        }
    }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

impl Confined {
    /// Opens the directory itself, which the host trusts.
    pub fn open(path: &Path) -> io::Result<Confined> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty())?;
        let stat = fstat(&directory)?;
        let owner = geteuid()
            .is_root()
            .then_some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)));
        Ok(Confined { directory, owner })
    }

    /// The file system that it is on, as `stat` numbers it.
    pub fn device(&self) -> io::Result<u64> {
        Ok(fstat(&self.directory)?.st_dev)
    }

    /// Opens a plain file for reading. Links inside are followed, links that lead out are refused, and so is everything that is
    /// no plain file: opening a pipe would wait for its writer.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = File::from(self.resolve(path, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a plain file",
            ));
        }
        Ok(file)
    }

    /// Creates or empties a plain file for writing, with the directories above it. What is new belongs to the owner of the
    /// directory.
    pub fn write(&self, path: &Path) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            self.make_directories(parent)?;
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = match self.resolve(path, flags, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let new = flags | OFlags::CREATE | OFlags::EXCL;
                let file = self.resolve(path, new, Mode::from_raw_mode(0o644))?;
                if let Some((owner, group)) = self.owner {
                    fchown(&file, Some(owner), Some(group))?;
                }
                File::from(file)
            }
            opened => File::from(opened?),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a plain file",
            ));
        }
        file.set_len(0)?;
        Ok(file)
    }

    /// Makes a directory with those above it.
    pub fn make_directories(&self, path: &Path) -> io::Result<()> {
        let mut made = PathBuf::new();
        for part in plain_parts(path) {
            let part = part?;
            let parent = self.parent_of(&made)?;
            made.push(part);
            match mkdirat(&parent, part, Mode::from_raw_mode(0o755)) {
                Ok(()) => self.give_to_owner(&parent, part)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What is at a path, without following a link at its end.
    pub fn stat(&self, path: &Path) -> io::Result<Stat> {
        let (parent, name) = self.split(path)?;
        Ok(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Removes a file, a link or an empty directory.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?),
            outcome => Ok(outcome?),
        }
    }

    /// Where a link points, not followed.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.split(path)?;
        let target = readlinkat(&parent, name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    /// Makes a link. Wherever it points, nobody here follows it out.
    pub fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        Ok(symlinkat(target, &parent, name)?)
    }

    /// Makes something what it was: links are not followed.
    pub fn set_access(&self, path: &Path, access: Access) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        let found = openat(
            &parent,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let now = fstat(&found)?;
        if Access::of(&now) == access {
            return Ok(());
        }
        if (now.st_uid, now.st_gid) != (access.owner, access.group) {
            let (owner, group) = (Uid::from_raw(access.owner), Gid::from_raw(access.group));
            chownat(&found, "", Some(owner), Some(group), AtFlags::EMPTY_PATH)?;
        }
        if FileType::from_raw_mode(now.st_mode) != FileType::Symlink {
            // By its descriptor: by its name it could be a link by now.
            let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
            chmod(itself, Mode::from_raw_mode(access.mode))?;
        }
        Ok(())
    }

    fn give_to_owner(&self, parent: &Parent<'_>, name: &OsStr) -> io::Result<()> {
        match self.owner {
            Some((owner, group)) => Ok(chownat(
                parent,
                name,
                Some(owner),
                Some(group),
                AtFlags::SYMLINK_NOFOLLOW,
            )?),
            None => Ok(()),
        }
    }

    /// Gives a file a second name at `elsewhere`, a path of the host's on the same file system.
    pub fn link_out(&self, path: &Path, elsewhere: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        Ok(linkat(&parent, name, CWD, elsewhere, AtFlags::empty())?)
    }

    /// Gives a file of the host's a second name here, on the same file system.
    pub fn link_in(&self, elsewhere: &Path, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        Ok(linkat(CWD, elsewhere, &parent, name, AtFlags::empty())?)
    }

    /// Renames within the directory.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_parent, from_name) = self.split(from)?;
        let (to_parent, to_name) = self.split(to)?;
        Ok(renameat(&from_parent, from_name, &to_parent, to_name)?)
    }

    /// The directory itself.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn split<'a>(&self, path: &'a Path) -> io::Result<(Parent<'_>, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((
            self.parent_of(path.parent().unwrap_or(Path::new("")))?,
            name,
        ))
    }

    fn parent_of(&self, path: &Path) -> io::Result<Parent<'_>> {
        if path.as_os_str().is_empty() {
            return Ok(Parent::Top(self.directory.as_fd()));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.resolve(path, flags, Mode::empty()).map(Parent::Below)
    }

    pub(crate) fn resolve(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        plain_parts(path).try_for_each(|part| part.map(drop))?;
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        Ok(openat2(self.directory.as_fd(), path, flags, mode, BENEATH)?)
    }
}

/// The directory that something is in. Most is at the top, for which nothing has to be opened.
pub(crate) enum Parent<'a> {
    Top(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Top(directory) => *directory,
            Parent::Below(directory) => directory.as_fd(),
        }
    }
}

fn plain_parts(path: &Path) -> impl Iterator<Item = io::Result<&OsStr>> {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path must be relative and stay in the workspace",
            )),
        })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
