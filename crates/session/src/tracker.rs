//! What a cell did to the files, at a cost that grows with what it did.

use crate::disk::Added;
use crate::watch::{Touched, Watch, Watcher};
use crate::workspace::{Kind, Seen, Workspace};
use cellblock_protocol::{FileChange, FileChanges, mime_of};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest list of changed files in one result.
const MOST_CHANGES: usize = 10_000;
/// Writes through a shared map raise no event; files that were written lately are looked at again.
const LATELY: usize = 32;
/// As many touched paths are looked at on the spot.
const FEW: usize = 32;

/// Knows what is in a workspace and tells what changed.
#[derive(Debug)]
pub(crate) struct Tracker {
    workspace: Arc<Workspace>,
    watch: Watch,
    known: BTreeMap<PathBuf, Seen>,
    lately: VecDeque<PathBuf>,
    /// Seen while a cell runs, to be told when it ends.
    pending: Touched,
    /// Bytes and entries that are there, and that were before the session.
    total: (u64, usize),
    ground: (u64, usize),
}

/// What changed since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The plain files among it, for the result.
    pub(crate) files: FileChanges,
    /// Everything, with directories and links.
    pub(crate) paths: Vec<PathBuf>,
}

impl Tracker {
    pub(crate) fn new(workspace: Arc<Workspace>, watcher: &Arc<Watcher>) -> Tracker {
        let watch = watcher.watch(workspace.path());
        let mut known = BTreeMap::new();
        workspace.walk(Path::new(""), &mut known, &mut |directory| {
            watch.add(directory)
        });
        let ground = (known.values().map(|seen| seen.bytes).sum(), known.len());
        Tracker {
            workspace,
            watch,
            known,
            lately: VecDeque::new(),
            pending: Touched::default(),
            total: ground,
            ground,
        }
    }

    /// What is there, as far as was looked.
    pub(crate) fn known(&self) -> &BTreeMap<PathBuf, Seen> {
        &self.known
    }

    /// The file system that the workspace is on.
    pub(crate) fn device(&self) -> u64 {
        self.workspace.device()
    }

    /// Whether what happened since the last look is looked at in no time.
    pub(crate) fn has_little_to_do(&mut self) -> bool {
        self.gather();
        let is_directory = |path: &PathBuf| {
            let seen = self.workspace.look(path);
            seen.is_some_and(|seen| seen.kind == Kind::Directory)
        };
        let Touched { paths, everything } = &self.pending;
        !everything && paths.len() <= FEW && !paths.iter().any(is_directory)
    }

    /// What happened between two cells: it was not the next cell's doing.
    pub(crate) fn settle(&mut self) -> Changes {
        self.gather();
        let touched = std::mem::take(&mut self.pending);
        self.differences(touched)
    }

    /// What the cell that just ended changed.
    pub(crate) fn changes(&mut self) -> Changes {
        self.gather();
        let mut touched = std::mem::take(&mut self.pending);
        touched.paths.extend(self.lately.iter().cloned());
        self.differences(touched)
    }

    /// What this session added so far. What is seen on the way still counts as this cell's.
    pub(crate) fn added(&mut self) -> Added {
        self.gather();
        let (mut bytes, mut files) = self.total;
        let mut vanished = false;
        for path in &self.pending.paths {
            let known = self.known.get(path).map(|seen| seen.bytes);
            let mut found = BTreeMap::new();
            self.workspace.walk(path, &mut found, &mut |_| {});
            vanished |= found.is_empty();
            let more: u64 = found.values().map(|seen| seen.bytes).sum();
            bytes = (bytes + more).saturating_sub(known.unwrap_or(0));
            files = (files + found.len()).saturating_sub(usize::from(known.is_some()));
        }
        Added {
            bytes: bytes.saturating_sub(self.ground.0),
            files: files.saturating_sub(self.ground.1),
            vanished,
        }
    }

    fn gather(&mut self) {
        let touched = self.watch.take();
        self.pending.everything |= touched.everything;
        self.pending.paths.extend(touched.paths);
    }

    fn differences(&mut self, touched: Touched) -> Changes {
        let mut changes = Changes::default();
        if touched.everything {
            let mut now = BTreeMap::new();
            let watch = &self.watch;
            self.workspace
                .walk(Path::new(""), &mut now, &mut |directory| {
                    watch.add(directory)
                });
            let gone: Vec<PathBuf> = self
                .known
                .keys()
                .filter(|path| !now.contains_key(*path))
                .cloned()
                .collect();
            for (path, seen) in now {
                self.compare(&path, Some(seen), &mut changes);
            }
            for path in gone {
                self.compare(&path, None, &mut changes);
            }
            return changes;
        }
        for path in touched.paths {
            self.difference(&path, &mut changes);
        }
        changes
    }

    fn difference(&mut self, path: &Path, changes: &mut Changes) {
        let seen = self.workspace.look(path);
        if seen.is_some_and(|seen| seen.kind == Kind::Directory) {
            let mut found = BTreeMap::new();
            let watch = &self.watch;
            self.workspace
                .walk(path, &mut found, &mut |directory| watch.add(directory));
            for (path, seen) in found {
                self.compare(&path, Some(seen), changes);
            }
            return;
        }
        // It may have been a directory, moved away with all that was in it.
        let was_directory = self
            .known
            .get(path)
            .is_some_and(|old| old.kind == Kind::Directory);
        self.compare(path, seen, changes);
        if was_directory {
            let below = self
                .known
                .range(path.join("")..)
                .map(|(inner, _)| inner.clone());
            let inside: Vec<PathBuf> = below.take_while(|inner| inner.starts_with(path)).collect();
            for path in inside {
                self.compare(&path, None, changes);
            }
        }
    }

    fn compare(&mut self, path: &Path, seen: Option<Seen>, changes: &mut Changes) {
        let old = self.known.get(path).copied();
        if old == seen {
            return;
        }
        let is_file = |seen: &Seen| seen.kind == Kind::File;
        match (old.filter(is_file), seen.filter(is_file)) {
            (None, Some(new)) => push(&mut changes.files.created, path, new.bytes),
            (Some(_), Some(new)) => push(&mut changes.files.changed, path, new.bytes),
            (Some(old), None) => push(&mut changes.files.deleted, path, old.bytes),
            (None, None) => {}
        }
        changes.paths.push(path.to_owned());
        let (bytes, files) = &mut self.total;
        *bytes = (*bytes + seen.map_or(0, |new| new.bytes))
            .saturating_sub(old.map_or(0, |old| old.bytes));
        *files = (*files + usize::from(seen.is_some())).saturating_sub(usize::from(old.is_some()));
        match seen {
            Some(new) => {
                self.known.insert(path.to_owned(), new);
                if is_file(&new) {
                    self.remember(path);
                }
            }
            None => {
                self.known.remove(path);
            }
        }
    }

    fn remember(&mut self, path: &Path) {
        self.lately.retain(|other| other != path);
        self.lately.push_back(path.to_owned());
        if self.lately.len() > LATELY {
            self.lately.pop_front();
        }
    }
}

fn push(list: &mut Vec<FileChange>, path: &Path, bytes: u64) {
    if list.len() < MOST_CHANGES {
        let path = path.to_string_lossy().into_owned();
        list.push(FileChange {
            mime: mime_of(&path).to_owned(),
            path,
            bytes,
        });
    }
}
