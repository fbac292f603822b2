//! What a watch of a tree has seen: the touched paths, or each change in order.

use rustix::fs::inotify::ReadFlags;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// ChangedPaths paths that wait to be looked at; past this, everything is looked at instead.
const MAX_TOUCHED: usize = 20_000;
/// Changes of a recording watch that wait to be taken; past this, they are lost, and that is told.
const MAX_RECORDED: usize = 10_000;

/// The changes in a tree since the last query, in order.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) changes: Vec<RecordedChange>,
    /// Changes are missing: there were too many, or a directory could not be watched.
    pub(crate) is_incomplete: bool,
    /// The root of the tree was removed or moved away: nothing more is told.
    pub(crate) is_root_gone: bool,
    /// Files that were written to since they had another change: many writes are one change.
    pub(super) written: HashSet<PathBuf>,
}

/// A change of one entry of a watched directory, as the kernel tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedChange {
    /// Relative to the root of the tree.
    pub(crate) path: PathBuf,
    pub(crate) kind: RecordedKind,
    pub(crate) is_directory: bool,
}

/// WatchSubject became of an entry. Both halves of a rename have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedKind {
    Created,
    Written,
    Attributes,
    Removed,
    MovedFrom(u32),
    MovedTo(u32),
}

/// The paths that were touched since the last query, relative to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedPaths {
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Directories that have other attributes now: what is in them is as it was.
    pub(crate) marked: BTreeSet<PathBuf>,
    /// Directories may be among them.
    pub(crate) directories: bool,
    /// Events were lost, or watches are not to be had: everything may have changed.
    pub(crate) everything: bool,
}

impl Recorded {
    /// Notes a change, unless it is one more write to the same file.
    pub(super) fn note(&mut self, change: RecordedChange) {
        // The directory is elsewhere by now.
        if self.is_root_gone {
            return;
        }
        match change.kind {
            RecordedKind::Written if !self.written.insert(change.path.clone()) => return,
            RecordedKind::Written => {}
            _ => _ = self.written.remove(&change.path),
        }
        if self.changes.len() < MAX_RECORDED {
            self.changes.push(change);
        } else {
            self.is_incomplete = true;
            self.written.clear();
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.changes.is_empty() && !self.is_incomplete && !self.is_root_gone
    }
}

/// The kind of an event of the kernel; `None` for one that is no change of an entry.
pub(super) fn recorded_kind(events: ReadFlags, cookie: u32) -> Option<RecordedKind> {
    [
        (ReadFlags::CREATE, RecordedKind::Created),
        (ReadFlags::MODIFY, RecordedKind::Written),
        (ReadFlags::ATTRIB, RecordedKind::Attributes),
        (ReadFlags::DELETE, RecordedKind::Removed),
        (ReadFlags::MOVED_FROM, RecordedKind::MovedFrom(cookie)),
        (ReadFlags::MOVED_TO, RecordedKind::MovedTo(cookie)),
    ]
    .into_iter()
    .find_map(|(flag, kind)| events.contains(flag).then_some(kind))
}

impl ChangedPaths {
    pub(super) fn note(&mut self, directory: &Path, name: &OsStr, what: WatchSubject) {
        if self.paths.len() + self.marked.len() >= MAX_TOUCHED {
            self.look_at_everything();
        }
        self.directories |= what == WatchSubject::Directory;
        if !self.everything {
            let paths = match what {
                WatchSubject::DirectoryItself => &mut self.marked,
                WatchSubject::Directory | WatchSubject::File => &mut self.paths,
            };
            paths.insert(directory.join(name));
        }
    }

    pub(super) fn look_at_everything(&mut self) {
        self.everything = true;
        self.paths.clear();
        self.marked.clear();
    }

    pub(super) fn is_nothing(&self) -> bool {
        !self.everything && self.paths.is_empty() && self.marked.is_empty()
    }

    /// Takes in what was touched later.
    pub(crate) fn add(&mut self, later: ChangedPaths) {
        self.everything |= later.everything || self.paths.len() + later.paths.len() > MAX_TOUCHED;
        self.directories |= later.directories;
        if self.everything {
            self.look_at_everything();
        } else {
            self.paths.extend(later.paths);
            self.marked.extend(later.marked);
        }
    }
}

/// The subject of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchSubject {
    File,
    /// A directory with all that is in it.
    Directory,
    /// A directory, but not what is in it.
    DirectoryItself,
}
