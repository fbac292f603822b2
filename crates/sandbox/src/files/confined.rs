//! Files below a directory, reached without ever leaving it: the workspace belongs to hostile code, which may put links into it
//! while we look.
//!
//! Two rules keep that safe. A path that the host recorded leads through no link at all; only a path that a caller of the library wrote may
//! lead through links, and only to what is inside. And what is found is held by a descriptor ([`EntryHandle`]): whatever is decided about it is done to that
//! very file, never to its name again.

use crate::files::absolute_links;
use crate::files::entry::EntryHandle;
use crate::files::session_view::as_user;
use crate::files::temporary_file::TemporaryFile;
use crate::files::walk::LIST;
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Uid, chownat, fchown,
    fstat, fstatfs, lgetxattr, linkat, mkdirat, mkfifoat, openat, openat2, renameat, renameat_with,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// A directory that is not left.
#[derive(Debug)]
pub struct Confined {
    directory: OwnedFd,
    /// The absolute path that code of a session knows the directory by.
    name: OnceLock<PathBuf>,
}

/// The owner and the permissions of a file.
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

/// The treatment of symbolic links on the way to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// A path with a link in it leads nowhere. A link at its end is meant itself.
    AreNotFollowed,
    /// Links are followed as long as they lead to something inside.
    AreFollowedInside,
}

impl Links {
    fn rules(self) -> ResolveFlags {
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match self {
            Links::AreNotFollowed => inside | ResolveFlags::NO_SYMLINKS,
            Links::AreFollowedInside => inside,
        }
    }

    fn at_the_end(self) -> OFlags {
        match self {
            Links::AreNotFollowed => OFlags::NOFOLLOW,
            Links::AreFollowedInside => OFlags::empty(),
        }
    }
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Confined {
    /// Opens a directory of the host's own. Links on the way are followed: only the host's user may have made them.
    pub fn open(path: &Path) -> io::Result<Confined> {
        Confined::of(openat(CWD, path, DIRECTORY, Mode::empty())?)
    }

    /// Opens a directory by a path without links, as `canonicalize` returns it: a link that took the place of a part of it since is
    /// refused.
    pub fn open_real(path: &Path) -> io::Result<Confined> {
        let rules = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Confined::of(openat2(CWD, path, DIRECTORY, Mode::empty(), rules)?)
    }

    /// Opens a directory in this one. No link leads to it.
    pub fn below(&self, path: &Path) -> io::Result<Confined> {
        Confined::of(self.resolve(path, DIRECTORY, Mode::empty(), Links::AreNotFollowed)?)
    }

    pub(crate) fn of(directory: OwnedFd) -> io::Result<Confined> {
        Ok(Confined {
            directory,
            name: OnceLock::new(),
        })
    }

    /// Sets the absolute path that code of a session knows the directory by. From then on a link inside to an absolute path below it is
    /// followed where links are followed. The first name stays.
    pub fn set_name(&self, name: &Path) {
        self.name.get_or_init(|| name.to_owned());
    }

    /// The `stat` of the directory itself now.
    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.directory)?)
    }

    /// Gives the directory itself to a user and a group.
    pub fn give_to(&self, owner: u32, group: u32) -> io::Result<()> {
        let (owner, group) = (Uid::from_raw(owner), Gid::from_raw(group));
        let itself = AtFlags::EMPTY_PATH;
        Ok(chownat(
            &self.directory,
            "",
            Some(owner),
            Some(group),
            itself,
        )?)
    }

    /// Fails where nothing can be written: no permission, a read-only file system, a full disk. Nothing that is there is opened, and where the
    /// file system can do it, nothing gets a name.
    pub fn check_writable(&self) -> io::Result<()> {
        let temporary_file = TemporaryFile::new(self.directory())?;
        (&temporary_file.file).write_all(&[0; 512])
    }

    /// Finds what is at a path. A path that ends in a link finds the link or what it leads to, as `links` says.
    pub fn find(&self, path: &Path, links: Links) -> io::Result<EntryHandle> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | links.at_the_end();
        EntryHandle::of(self.resolve(path, flags, Mode::empty(), links)?)
    }

    /// The path below this directory at which something that was found is now.
    pub fn place_of(&self, entry: &EntryHandle) -> io::Result<PathBuf> {
        let own = std::fs::read_link(format!("/proc/self/fd/{}", self.directory.as_raw_fd()))?;
        let place = std::fs::read_link(entry.itself())?;
        let below = place.strip_prefix(&own).map(Path::to_owned);
        below.map_err(|_| io::ErrorKind::NotFound.into())
    }

    /// Opens a plain file for reading. Links inside are followed, links that lead out are refused, and so is everything that is
    /// no plain file.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        self.find(path, Links::AreFollowedInside)?.read()
    }

    /// Makes a plain file that was not there, for writing, with the directories above it. It belongs to the owner of the directory.
    pub fn create(&self, path: &Path, links: Links) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            self.make_directories(parent, links)?;
        }
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let (parent, name) = self.split(path, links)?;
        let file = openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
        if let Some((owner, group)) = self.owner_of_new_files()? {
            fchown(&file, Some(owner), Some(group))?;
        }
        Ok(File::from(file))
    }

    /// Makes a directory with those above it.
    pub fn make_directories(&self, path: &Path, links: Links) -> io::Result<()> {
        let mut made = PathBuf::new();
        for part in plain_parts(path) {
            let part = part?;
            let parent = self.parent_of(&made, links)?;
            made.push(part);
            match mkdirat(&parent, part, Mode::from_raw_mode(0o755)) {
                Ok(()) => self.give_to_owner(&parent, part)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The `stat` of a path, without following a link.
    pub fn stat(&self, path: &Path) -> io::Result<Stat> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        Ok(rustix::fs::statat(
            &parent,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Whether a program in the file at this path gets capabilities that its caller does not have. One call, for a whole workspace is asked about.
    pub fn has_capabilities(&self, path: &Path) -> bool {
        let top = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let mut value = [0; 64];
        let found = lgetxattr(
            Path::new(&top).join(path),
            "security.capability",
            &mut value[..],
        );
        matches!(found, Ok(1..) | Err(Errno::RANGE))
    }

    /// Removes a file, a link or an empty directory.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?),
            outcome => Ok(outcome?),
        }
    }

    /// Makes a link. Wherever it points, no function here follows it out of the directory.
    pub fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        Ok(symlinkat(target, &parent, name)?)
    }

    /// Makes a named pipe that only its owner may use. It is made as the owner of the directory: one that root makes would have to be given away by
    /// its name, under which code can have put another by then.
    pub fn make_pipe(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        let make = || Ok(mkfifoat(&parent, name, Mode::RUSR | Mode::WUSR)?);
        match self.owner_of_new_files()? {
            Some(owner) if !owner.0.is_root() => as_user(owner, make),
            _ => make(),
        }
    }

    /// The owner that files which root makes here are given to: that of the directory now, which changes when it is lent to a session.
    fn owner_of_new_files(&self) -> io::Result<Option<(Uid, Gid)>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let stat = self.own_stat()?;
        Ok(Some((
            Uid::from_raw(stat.st_uid),
            Gid::from_raw(stat.st_gid),
        )))
    }

    /// Gives a directory that root has just made to the owner. Code can put another one under its name meanwhile, and must not be given
    /// what is closed to it: so the directory is held, and must be root's and empty. One that is empty code could replace anyway.
    fn give_to_owner(&self, parent: &Parent<'_>, name: &OsStr) -> io::Result<()> {
        let Some((owner, group)) = self.owner_of_new_files()? else {
            return Ok(());
        };
        let made = openat(parent, name, LIST, Mode::empty())?;
        let is_own = fstat(&made)?.st_uid == geteuid().as_raw();
        let is_special = |name: &CStr| name == c"." || name == c"..";
        let mut entries = Dir::read_from(&made)?;
        let is_empty = entries.all(|entry| entry.is_ok_and(|it| is_special(it.file_name())));
        if !is_own || !is_empty {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(fchown(&made, Some(owner), Some(group))?)
    }

    /// Gives a file of the host's a second name here, on the same file system. Nothing may be there.
    pub fn link_in(&self, elsewhere: &Path, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        Ok(linkat(CWD, elsewhere, &parent, name, AtFlags::empty())?)
    }

    /// Gives a file that was found here a second name. Nothing may be at the new name.
    pub fn link(&self, entry: &EntryHandle, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(linkat(CWD, entry.itself(), &parent, name, flags)?)
    }

    /// Renames within the directory. Nothing may be at the new name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_parent, from_name) = self.split(from, Links::AreNotFollowed)?;
        let (to_parent, to_name) = self.split(to, Links::AreNotFollowed)?;
        let flags = RenameFlags::NOREPLACE;
        let renamed = renameat_with(&from_parent, from_name, &to_parent, to_name, flags);
        match renamed {
            // A file system that cannot promise it. The name was chosen at random, or was free a moment ago.
            Err(Errno::INVAL) => Ok(renameat(&from_parent, from_name, &to_parent, to_name)?),
            outcome => Ok(outcome?),
        }
    }

    /// Puts a new file in the place of what is at the path, as a whole. A link there is replaced, and not followed.
    pub fn replace(&self, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        let new_name = unguessable_name();
        let new = path.with_file_name(&new_name);
        let mut file = self.create(&new, Links::AreNotFollowed)?;
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        // The permissions first: what is written may be private.
        let replaced = file
            .set_permissions(Permissions::from_mode(mode))
            .and_then(|()| file.write_all(contents))
            .and_then(|()| Ok(renameat(&parent, &new_name, &parent, name)?));
        if replaced.is_err() {
            // It has a name that no other file has.
            let _ = self.remove(&new);
        }
        replaced
    }

    /// The directory itself.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn split<'a>(
        &self,
        path: &'a Path,
        links: Links,
    ) -> io::Result<(Parent<'_>, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        Ok((self.parent_of(parent, links)?, name))
    }

    fn parent_of(&self, path: &Path, links: Links) -> io::Result<Parent<'_>> {
        if path.as_os_str().is_empty() {
            return Ok(Parent::Top(self.directory.as_fd()));
        }
        self.resolve(path, DIRECTORY, Mode::empty(), links)
            .map(Parent::Below)
    }

    fn resolve(&self, path: &Path, flags: OFlags, mode: Mode, links: Links) -> io::Result<OwnedFd> {
        plain_parts(path).try_for_each(|part| part.map(drop))?;
        let open = |path: &Path, links: Links| {
            let path = if path.as_os_str().is_empty() {
                Path::new(".")
            } else {
                path
            };
            openat2(&self.directory, path, flags, mode, links.rules())
        };
        match (open(path, links), self.name.get()) {
            (Err(Errno::XDEV), Some(name)) if links == Links::AreFollowedInside => {
                let plain = absolute_links::resolve(self, name, path)?;
                Ok(open(&plain, Links::AreNotFollowed)?)
            }
            (opened, _) => Ok(opened?),
        }
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

/// A name that code cannot have made beforehand. It can see it as soon as it is used, so it is no secret afterwards.
pub fn unguessable_name() -> OsString {
    // The keys of a hasher are random, and differ each time.
    let [one, two] = [0, 1].map(|which: u32| RandomState::new().hash_one(which));
    format!(".cellblock-{one:016x}{two:016x}").into()
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

/// The properties of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    kind: u64,
    /// Bytes that are free.
    pub free: u64,
}

const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;

impl FileSystem {
    /// Whether the kernel counts for each process what it writes here. It does not for files in memory, and others are not known.
    pub fn counts_writes(self) -> bool {
        [EXT, XFS, BTRFS].contains(&self.kind)
    }

    /// Whether the file system reserves blocks by itself for files that grow: about as many again as they have.
    pub fn reserves_ahead(self) -> bool {
        self.kind == XFS
    }
}

impl Confined {
    /// The file system that it is on.
    pub fn file_system(&self) -> io::Result<FileSystem> {
        let found = fstatfs(self.directory())?;
        Ok(FileSystem {
            kind: u64::from(found.f_type as u32),
            free: found
                .f_bfree
                .saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0)),
        })
    }
}

#[cfg(test)]
#[path = "confined_tests.rs"]
mod tests;
