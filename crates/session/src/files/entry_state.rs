//! What the host saw of a workspace: one entry, and all entries that a walk found.

use crate::files::store::{Attributes, Fingerprint};
use cellblock_sandbox::{Access, Stat};
use rustix::fs::fstat;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// The entries that a walk found.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceListing {
    pub(crate) entries: BTreeMap<PathBuf, EntryState>,
    /// Directories that hold more than is looked at.
    pub(crate) left: BTreeSet<PathBuf>,
    /// Files that run as their owner and that code could have written.
    pub(crate) set_id_files: Vec<PathBuf>,
}

impl WorkspaceListing {
    pub(crate) fn add(&mut self, path: &Path, stat: &Stat) -> EntryState {
        let seen = EntryState::from_stat(stat);
        self.entries.insert(path.to_owned(), seen);
        seen
    }

    /// Completes what was found of a directory, once it is open: by then it may have been opened to its owner.
    pub(crate) fn enter(&mut self, path: &Path, directory: BorrowedFd<'_>) {
        if let Some(seen) = self.entries.get_mut(path) {
            if let Ok(stat) = fstat(directory) {
                seen.access = Access::of(&stat);
            }
            seen.attributes = Attributes::read(directory)
                .map_or(Fingerprint::Unknown, |attributes| attributes.fingerprint());
        }
    }
}

/// One entry of a workspace as it was seen. Two directories are equal when they have the same owner, permissions and attributes, whatever is
/// in them. Two pipes, sockets or devices are equal when they are the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryState {
    pub(crate) kind: TrackedKind,
    pub(crate) bytes: u64,
    pub(crate) modified: i128,
    pub(crate) access: Access,
    pub(crate) inode: u64,
    changed: i128,
    names: u64,
    /// The bytes that the file system has reserved for the entry.
    pub(crate) allocated: u64,
    /// The extended attributes of a directory that was opened; of everything else unknown.
    pub(crate) attributes: Fingerprint,
}

impl EntryState {
    pub(crate) fn from_stat(stat: &Stat) -> EntryState {
        let nanoseconds =
            |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let kind = match stat.st_mode & 0o170_000 {
            0o100_000 => TrackedKind::File,
            0o040_000 => TrackedKind::Directory,
            0o120_000 => TrackedKind::Link,
            0o010_000 => TrackedKind::Pipe,
            _ => TrackedKind::SocketOrDevice,
        };
        let (bytes, modified) = match kind {
            TrackedKind::File | TrackedKind::Link => (
                stat.st_size.unsigned_abs(),
                nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ),
            TrackedKind::Directory => (0, nanoseconds(stat.st_mtime, stat.st_mtime_nsec)),
            // What is written to a pipe changes its time, and nothing of what can be put back.
            TrackedKind::Pipe | TrackedKind::SocketOrDevice => (0, 0),
        };
        EntryState {
            kind,
            bytes,
            modified,
            access: Access::of(stat),
            inode: stat.st_ino,
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            names: wide(stat.st_nlink),
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
            attributes: Fingerprint::Unknown,
        }
    }

    /// The stamp that tells the contents of the entry from all others.
    pub(crate) fn stamp(&self) -> Stamp {
        (self.inode, self.bytes, self.modified)
    }

    /// Whether both are the same file, and it was not written to in between.
    pub(crate) fn has_same_content(&self, other: &EntryState) -> bool {
        self.kind == other.kind && self.stamp() == other.stamp()
    }

    /// Whether a later look found the same file with nothing changed, not even its owner, permissions or attributes.
    pub(crate) fn is_untouched_in(&self, later: &EntryState) -> bool {
        self.has_same_content(later) && self.changed == later.changed
    }

    /// Whether nothing leads to it but this one path.
    pub(crate) fn has_one_name(&self) -> bool {
        self.names == 1
    }
}

/// A time in seconds and nanoseconds.
pub(crate) fn time_of(nanoseconds: i128) -> (i64, i64) {
    const SECOND: i128 = 1_000_000_000;
    let part = |number: i128| i64::try_from(number).unwrap_or(0);
    (
        part(nanoseconds.div_euclid(SECOND)),
        part(nanoseconds.rem_euclid(SECOND)),
    )
}

/// Inode, size, and when it was last written.
pub(crate) type Stamp = (u64, u64, i128);

impl PartialEq for EntryState {
    fn eq(&self, other: &EntryState) -> bool {
        let has_one_name = self.has_one_name() && other.has_one_name();
        // What happens to another name, maybe in another session, changes this time as well.
        let is_unchanged = self.changed == other.changed || !has_one_name;
        match (self.kind, other.kind) {
            (TrackedKind::Directory, TrackedKind::Directory) => {
                self.access == other.access && self.attributes.may_be(other.attributes)
            }
            (TrackedKind::Pipe, TrackedKind::Pipe)
            | (TrackedKind::SocketOrDevice, TrackedKind::SocketOrDevice) => {
                self.inode == other.inode && self.access == other.access
            }
            _ => self.has_same_content(other) && self.access == other.access && is_unchanged,
        }
    }
}

/// The kinds of entries that are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackedKind {
    File,
    Directory,
    Link,
    Pipe,
    SocketOrDevice,
}

impl TrackedKind {
    /// Whether the entry has contents that can be copied.
    pub(crate) fn is_special(self) -> bool {
        matches!(self, TrackedKind::Pipe | TrackedKind::SocketOrDevice)
    }
}

/// A number of the kernel's that has 32 bits on some kinds of processors, and 64 on others.
fn wide(number: impl Into<u64>) -> u64 {
    number.into()
}
