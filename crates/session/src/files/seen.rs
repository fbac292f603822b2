//! What the host sees of a workspace: one entry, and all entries that a walk found.

use cellblock_sandbox::{Access, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) entries: BTreeMap<PathBuf, Seen>,
    /// Pipes, sockets and devices.
    pub(crate) special: Vec<PathBuf>,
    /// Directories that hold more than is looked at.
    pub(crate) left: BTreeSet<PathBuf>,
    /// Files that run as their owner and that code could have written.
    pub(crate) armed: Vec<PathBuf>,
}

impl Found {
    pub(crate) fn add(&mut self, path: &Path, stat: &Stat) -> Option<Seen> {
        let seen = Seen::from_stat(stat);
        match seen {
            Some(seen) => drop(self.entries.insert(path.to_owned(), seen)),
            None => self.special.push(path.to_owned()),
        }
        seen
    }
}

/// What something in a workspace looked like. A directory only is or is not: two are equal, whatever else there is to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) modified: i128,
    pub(crate) access: Access,
    pub(crate) inode: u64,
    changed: i128,
    names: u64,
    /// What the file system has taken for it.
    pub(crate) allocated: u64,
}

impl Seen {
    pub(crate) fn from_stat(stat: &Stat) -> Option<Seen> {
        let nanoseconds =
            |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let kind = match stat.st_mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Link,
            _ => return None,
        };
        Some(Seen {
            kind,
            bytes: match kind {
                Kind::Directory => 0,
                Kind::File | Kind::Link => stat.st_size.unsigned_abs(),
            },
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            access: Access::of(stat),
            inode: stat.st_ino,
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            names: stat.st_nlink,
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        })
    }

    /// What tells its contents from all others.
    pub(crate) fn stamp(&self) -> Stamp {
        (self.inode, self.bytes, self.modified)
    }

    /// Whether it is the same file, and it was not written to in between.
    pub(crate) fn has_same_content(&self, other: &Seen) -> bool {
        self.kind == other.kind && self.stamp() == other.stamp()
    }

    /// Whether a later look found the same file with nothing changed, not even its owner, permissions or attributes.
    pub(crate) fn is_untouched_in(&self, later: &Seen) -> bool {
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

impl PartialEq for Seen {
    fn eq(&self, other: &Seen) -> bool {
        let has_one_name = self.has_one_name() && other.has_one_name();
        // What happens to another name, maybe in another session, changes this time as well.
        let is_unchanged = self.changed == other.changed || !has_one_name;
        match (self.kind, other.kind) {
            (Kind::Directory, Kind::Directory) => true,
            _ => self.has_same_content(other) && self.access == other.access && is_unchanged,
        }
    }
}

/// What of a workspace is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
}
