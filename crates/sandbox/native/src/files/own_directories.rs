//! The directories in which init acts for code: the session's workspace, its temporary directories and its pseudo-terminals.
//!
//! Whatever a call names, by a path or by a descriptor, init acts on it only if it lies in one of these directories, and that is looked at when
//! the file was found and stands as a descriptor of init's: then code cannot change any more which file it is. A path that is not in one of
//! these directories yet is followed as a text; no other directory is ever opened.

use crate::files::lookup::{LastLink, Pathname, look_up};
use crate::init::memory;
use crate::sys::text::Text;
use crate::sys::{
    self, Errno, Fd, Location, PIPE_FILE_SYSTEM, Result, close, duplicate_above, file_system_of,
    location, open, open_beneath, open_flags, open_on_one_file_system, read_link_at,
};
use crate::walls::mounts::MAX_PATH_BYTES;
use core::ffi::CStr;

/// A session has at most this many own directories.
pub const MAX_OWN_DIRECTORIES: usize = 4;

/// The devices that init opens for code, with their numbers: all that a view has.
const DEVICES: [(&CStr, (u32, u32)); 5] = [
    (c"/dev/null", (1, 3)),
    (c"/dev/zero", (1, 5)),
    (c"/dev/full", (1, 7)),
    (c"/dev/random", (1, 8)),
    (c"/dev/urandom", (1, 9)),
];

/// The name by which code opens a new pseudo-terminal: a link to the file of the session's own instance.
const NEW_TERMINAL: (&CStr, &CStr) = (c"/dev/ptmx", c"/dev/pts/ptmx");

/// What tells a file of the session's own from any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// It is on one of the mounts that init made for the session.
    Mounts,
    /// It has a name below one of the session's directories: where the session sees the host's files, nothing is mounted for it.
    Directories,
}

/// What init is about to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Open it for the caller. Devices and pipes without a name can be opened too.
    Opening,
    /// Anything else.
    Changing,
}

/// The directories of one session in which init acts for code.
pub struct OwnDirectories {
    roots: [OwnDirectory; MAX_OWN_DIRECTORIES],
    count: usize,
    bounds: Bounds,
    /// `/proc`, for our own descriptors.
    proc_directory: Fd,
}

/// One of them.
#[derive(Clone, Copy)]
pub struct OwnDirectory {
    directory: Fd,
    mount: u64,
    /// Device and inode.
    identity: (u64, u64),
    /// As code knows it.
    path: Pathname,
    /// As the kernel knows it: without links.
    canonical: Pathname,
}

impl OwnDirectory {
    /// What stands above it, as a text.
    pub fn above(&self) -> Pathname {
        let mut above = self.path;
        above.leave();
        above
    }
}

impl OwnDirectories {
    /// The directories with these paths, the workspace first. They are there as long as this process lives.
    pub fn new<'a>(
        paths: impl Iterator<Item = &'a CStr>,
        bounds: Bounds,
        proc_directory: Fd,
    ) -> Result<&'static OwnDirectories> {
        let own_directories = memory::allocate::<OwnDirectories>()?.write(OwnDirectories {
            roots: [OwnDirectory {
                directory: -1,
                mount: 0,
                identity: (0, 0),
                path: Pathname::ROOT,
                canonical: Pathname::ROOT,
            }; MAX_OWN_DIRECTORIES],
            count: 0,
            bounds,
            proc_directory,
        });
        for path in paths.take(MAX_OWN_DIRECTORIES) {
            own_directories.add(path)?;
        }
        match own_directories.count {
            0 => Err(Errno::NOENT),
            _ => Ok(own_directories),
        }
    }

    fn add(&mut self, path: &CStr) -> Result<()> {
        let directory = open(path, open_flags::PATH | open_flags::DIRECTORY, 0)?;
        let mut canonical = [0; MAX_PATH_BYTES];
        let length = self.path_of(directory, &mut canonical)?;
        let status = sys::status(directory)?;
        self.roots[self.count] = OwnDirectory {
            directory,
            mount: location(directory)?.mount,
            identity: (status.device, status.inode),
            path: Pathname::new(path.to_bytes())?,
            canonical: Pathname::new(&canonical[..length])?,
        };
        self.count += 1;
        Ok(())
    }

    fn roots(&self) -> &[OwnDirectory] {
        &self.roots[..self.count]
    }

    /// The descriptors that init must keep open, at most [`MAX_OWN_DIRECTORIES`].
    pub fn descriptors(&self) -> impl Iterator<Item = Fd> {
        self.roots().iter().map(|root| root.directory)
    }

    /// Lets go of them when the session is over.
    pub fn close(&self) {
        self.descriptors().for_each(close);
    }

    /// The workspace.
    pub fn workspace(&self) -> Fd {
        self.roots[0].directory
    }

    /// What tells files of the session's own from others.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Opens what a path leads to, as a descriptor that only stands for it. `start` is where a relative path begins.
    pub fn open(&self, start: Fd, path: &CStr, last_link: LastLink) -> Result<Fd> {
        let flags = match last_link {
            LastLink::IsFollowed => open_flags::PATH,
            LastLink::IsMeant => open_flags::PATH | open_flags::NOFOLLOW,
        };
        let nearby = match self.shortcut(start, path) {
            Some((directory, rest)) => self.open_within(directory, rest, flags),
            None => Err(Errno::XDEV),
        };
        match nearby {
            // A link leads to another place, or names are changed at the same time: then step by step.
            Err(Errno::XDEV | Errno::AGAIN) => look_up(self, start, path.to_bytes(), last_link),
            outcome => outcome,
        }
    }

    /// From where the kernel can follow a path in one step without leaving the place, and what is left of the path.
    fn shortcut<'a>(&self, start: Fd, path: &'a CStr) -> Option<(Fd, &'a CStr)> {
        if path.to_bytes().first() != Some(&b'/') {
            return self.is_start(start).then_some((start, path));
        }
        self.roots().iter().find_map(|root| {
            let rest = path.to_bytes_with_nul();
            let rest = rest.strip_prefix(root.path.as_bytes())?;
            let first = rest.iter().position(|byte| *byte != b'/')?;
            match (first, &rest[first..]) {
                // Another name that begins alike.
                (0, _) => None,
                (_, [0]) => Some((root.directory, c".")),
                (_, rest) => Some((root.directory, CStr::from_bytes_with_nul(rest).ok()?)),
            }
        })
    }

    /// Opens a path that begins in one of the own directories; `XDEV` when it does not stay there.
    pub(crate) fn open_within(&self, directory: Fd, path: &CStr, flags: usize) -> Result<Fd> {
        match self.bounds {
            Bounds::Mounts => open_on_one_file_system(directory, path, flags),
            Bounds::Directories => open_beneath(directory, path, flags),
        }
    }

    /// Whether a lookup can begin with this very descriptor. Where directories are the bounds, it begins with the directory's path.
    pub(crate) fn is_start(&self, directory: Fd) -> bool {
        self.bounds == Bounds::Mounts && location(directory).is_ok_and(|found| self.has(found))
    }

    /// A descriptor of what has this path, if that is the top of a place, or a device.
    pub(crate) fn enter(&self, path: &Pathname) -> Result<Option<Fd>> {
        let is_root = |root: &&OwnDirectory| root.path == *path || root.canonical == *path;
        if let Some(root) = self.roots().iter().find(is_root) {
            return duplicate_above(root.directory, 0).map(Some);
        }
        if self.bounds == Bounds::Directories {
            return Ok(None);
        }
        let devices = DEVICES.iter().map(|(name, _)| (*name, *name));
        let mut names = devices.chain([NEW_TERMINAL]);
        match names.find(|(name, _)| name.to_bytes() == path.as_bytes()) {
            Some((_, file)) => open(file, open_flags::PATH | open_flags::NOFOLLOW, 0).map(Some),
            None => Ok(None),
        }
    }

    /// The place that this directory is the top of.
    pub(crate) fn with_top(&self, directory: Fd) -> Option<&OwnDirectory> {
        let status = sys::status(directory).ok()?;
        let mount = location(directory).ok()?.mount;
        let identity = (status.device, status.inode);
        self.roots()
            .iter()
            .find(|root| root.identity == identity && root.mount == mount)
    }

    /// Refuses a file that is not the session's own. Everything that init does for code comes after this.
    pub fn check(&self, file: Fd, purpose: Purpose) -> Result<()> {
        let found = location(file)?;
        let is_own = match self.bounds {
            Bounds::Mounts => self.has(found),
            Bounds::Directories => self.has_name_of(file, found),
        };
        if is_own || purpose == Purpose::Opening && self.is_for_everyone(file, found) {
            Ok(())
        } else {
            Err(Errno::ACCES)
        }
    }

    fn has(&self, found: Location) -> bool {
        self.roots().iter().any(|root| root.mount == found.mount)
    }

    /// The devices of the view, which keep nothing, and pipes without a name, which only their holders can name.
    fn is_for_everyone(&self, file: Fd, found: Location) -> bool {
        if self.bounds == Bounds::Directories {
            return false;
        }
        match found.character_device() {
            Some(numbers) => DEVICES.iter().any(|(_, device)| *device == numbers),
            None => found.is_pipe() && file_system_of(file) == Ok(PIPE_FILE_SYSTEM),
        }
    }

    /// Whether a name below one of the directories leads to this file. A file that has no name any more cannot be reached by other sessions.
    fn has_name_of(&self, file: Fd, found: Location) -> bool {
        let Ok(status) = sys::status(file) else {
            return false;
        };
        let mut path = [0; MAX_PATH_BYTES];
        let Ok(length) = self.path_of(file, &mut path) else {
            return false;
        };
        if status.names == 0 {
            return status.is_file() && path[..length].ends_with(b" (deleted)") && self.has(found);
        }
        self.roots().iter().any(|root| {
            let rest = match path[..length].strip_prefix(root.canonical.as_bytes()) {
                Some([]) => c".",
                Some([b'/', ..]) => {
                    let begin = root.canonical.as_bytes().len() + 1;
                    CStr::from_bytes_until_nul(&path[begin..]).unwrap_or(c"")
                }
                _ => return false,
            };
            let flags = open_flags::PATH | open_flags::NOFOLLOW;
            open_beneath(root.directory, rest, flags).is_ok_and(|found| {
                let is_same = sys::status(found).is_ok_and(|found| {
                    (found.device, found.inode) == (status.device, status.inode)
                });
                close(found);
                is_same
            })
        })
    }

    /// The path of a file of ours.
    pub fn path_of(&self, file: Fd, path: &mut [u8]) -> Result<usize> {
        let link = Text::<32>::new(format_args!("self/fd/{file}"))?;
        read_link_at(self.proc_directory, link.as_c_str(), path)
    }
}

#[cfg(test)]
#[path = "own_directories_tests.rs"]
mod tests;
