//! Changes of the files by a cell, and what the files take on disk, at a cost that grows with what changed.

use crate::files::disk::Added;
use crate::files::entry_state::{EntryState, TrackedKind, WorkspaceListing};
use crate::files::watch::{ChangeListener, ChangedPaths, Watch, Watcher};
use crate::files::workspace::Workspace;
use cellblock_protocol::{FileChange, FileChanges, mime_of};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest list of changed files in one result.
const MAX_CHANGES: usize = 10_000;
/// Writes through a shared map raise no event; files that were written lately are looked at again.
const MAX_RECENT_FILES: usize = 32;
/// How long a file is looked at again after it was touched or grew, and how many files.
const GROWS_FOR: Duration = Duration::from_millis(300);
const MAX_GROWING: usize = 1000;
/// As many touched paths are looked at on the spot.
const MAX_QUICK_PATHS: usize = 32;

/// Knows what is in a workspace and tells what changed.
#[derive(Debug)]
pub(crate) struct Tracker {
    workspace: Arc<Workspace>,
    watch: Watch,
    known: BTreeMap<PathBuf, EntryState>,
    /// By inode: the paths of files that have several names. What is written under one of them raises no event for the others.
    names: HashMap<u64, BTreeSet<PathBuf>>,
    lately: VecDeque<PathBuf>,
    /// EntryState while a cell runs, to be told when it ends.
    pending: ChangedPaths,
    /// The part of it that came after the last look at sizes.
    unmeasured: ChangedPaths,
    measure: SizeIndex,
    /// Files that were touched or grew lately, and when: a call may write to them for long before it is over and heard of.
    growing: BTreeMap<PathBuf, Instant>,
    /// Bytes and entries that were there before the session.
    ground: (u64, usize),
    /// Something was touched since the last cell that is not there: it may be open, without a name.
    vanished: bool,
    /// Directories that hold more than is looked at.
    left: BTreeSet<PathBuf>,
    /// There were such before the session.
    began_beyond: bool,
}

/// The files that changed since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The plain files among it, for the result.
    pub(crate) files: FileChanges,
    /// Everything, with directories and links.
    pub(crate) paths: Vec<PathBuf>,
    /// Directories among it with more in them than was looked at.
    pub(crate) left: Vec<PathBuf>,
    /// Files with several names that lost one.
    unnamed: Vec<u64>,
}

impl Tracker {
    pub(crate) fn new(workspace: Arc<Workspace>, watcher: &Arc<Watcher>) -> Tracker {
        let watch = watcher.watch();
        let found = workspace.walk(Path::new(""), &mut |path, directory| {
            watch.add(path, directory)
        });
        let mut measure = SizeIndex::default();
        measure.replace(Path::new(""), sizes(&workspace, &found));
        let WorkspaceListing { entries, left, .. } = found;
        let mut names = HashMap::new();
        for (path, seen) in &entries {
            note_name(&mut names, path, seen);
        }
        Tracker {
            workspace,
            watch,
            known: entries,
            names,
            lately: VecDeque::new(),
            pending: ChangedPaths::default(),
            unmeasured: ChangedPaths::default(),
            growing: BTreeMap::new(),
            ground: measure.total(),
            measure,
            vanished: false,
            began_beyond: !left.is_empty(),
            left,
        }
    }

    /// Tells when something happens in the workspace.
    pub(crate) fn listener(&self) -> ChangeListener {
        self.watch.listener()
    }

    /// The watcher of all sessions of the runtime.
    pub(crate) fn watcher(&self) -> Arc<Watcher> {
        self.watch.watcher()
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// The known entries, as far as the tracker looked.
    pub(crate) fn known(&self) -> &BTreeMap<PathBuf, EntryState> {
        &self.known
    }

    /// Whether there is no file, and none can have come since the last look without being heard of.
    pub(crate) fn has_no_files(&mut self) -> bool {
        self.gather();
        self.pending == ChangedPaths::default()
            && self.left.is_empty()
            && self
                .known
                .values()
                .all(|seen| seen.kind != TrackedKind::File)
    }

    /// The paths of the files with these inodes.
    pub(crate) fn paths_of(&self, inodes: &HashSet<u64>) -> Vec<PathBuf> {
        if inodes.is_empty() {
            return Vec::new();
        }
        let is_wanted =
            |seen: &EntryState| seen.kind == TrackedKind::File && inodes.contains(&seen.inode);
        let found = self.known.iter().filter(|(_, seen)| is_wanted(seen));
        found.map(|(path, _)| path.clone()).collect()
    }

    /// Whether what happened since the last look is looked at in no time.
    pub(crate) fn has_little_to_do(&mut self) -> bool {
        self.gather();
        let ChangedPaths {
            paths,
            directories,
            everything,
            ..
        } = &self.pending;
        !everything && !directories && paths.len() <= MAX_QUICK_PATHS
    }

    /// The changes between two cells, which are not the next cell's doing.
    pub(crate) fn changes_between_cells(&mut self) -> Changes {
        self.gather();
        let touched = std::mem::take(&mut self.pending);
        self.differences(touched)
    }

    /// The changes of the cell that just ended.
    pub(crate) fn changes(&mut self) -> Changes {
        self.gather();
        let mut touched = std::mem::take(&mut self.pending);
        touched.paths.extend(self.lately.iter().cloned());
        self.differences(touched)
    }

    /// The bytes and files that this session added so far. Changes that are seen on the way still count as this cell's.
    pub(crate) fn added(&mut self) -> Added {
        self.gather();
        let touched = std::mem::take(&mut self.unmeasured);
        self.vanished |= touched.everything;
        let watch = &self.watch;
        for path in roots(&touched) {
            // Directories that are new are watched from here on, so that more in them is heard of.
            let found = self
                .workspace
                .walk(path, &mut |path, directory| watch.add(path, directory));
            for path in &found.set_id_files {
                self.workspace.disarm(path);
            }
            self.vanished |= found.entries.is_empty();
            self.left.retain(|left| !left.starts_with(path));
            self.left.extend(found.left.iter().cloned());
            self.measure.replace(path, sizes(&self.workspace, &found));
        }
        self.measure_directories(&touched);
        self.measure_growing(&touched);
        self.measured()
    }

    /// Looks again at files that were touched a moment ago.
    fn measure_growing(&mut self, touched: &ChangedPaths) {
        let now = Instant::now();
        self.growing
            .retain(|path, since| !touched.paths.contains(path) && *since + GROWS_FOR > now);
        for (path, since) in &mut self.growing {
            let seen = self.workspace.look(path);
            let size = seen.map(|seen| self.workspace.taken_by(&seen));
            if size.is_some_and(|size| self.measure.resize(path, size)) {
                *since = now;
            }
        }
        let room = MAX_GROWING.saturating_sub(self.growing.len());
        let files = touched.paths.iter().take(room);
        self.growing.extend(files.map(|path| (path.clone(), now)));
    }

    /// The bytes and files that this session had added at the last look.
    pub(crate) fn measured(&self) -> Added {
        let (bytes, files) = self.measure.total();
        Added {
            bytes: bytes.saturating_sub(self.ground.0),
            files: files.saturating_sub(self.ground.1),
            beyond: !self.left.is_empty() && !self.began_beyond,
            vanished: self.vanished,
            is_growing: !self.growing.is_empty(),
        }
    }

    /// Directories grow with what is put into them, and on some file systems they stay as large when it is removed again.
    fn measure_directories(&mut self, touched: &ChangedPaths) {
        let parents = touched.paths.iter().filter_map(|path| path.parent());
        let directories: BTreeSet<&Path> = parents
            .chain(touched.marked.iter().map(PathBuf::as_path))
            .collect();
        for directory in directories {
            if let Some(seen) = self.workspace.look(directory) {
                self.measure
                    .resize(directory, self.workspace.taken_by(&seen));
            }
        }
    }

    fn gather(&mut self) {
        let touched = self.watch.take();
        self.unmeasured.add(touched.clone());
        self.pending.add(touched);
    }

    fn differences(&mut self, touched: ChangedPaths) -> Changes {
        let mut changes = Changes::default();
        if touched.everything {
            self.watch.begin_anew();
        }
        for path in roots(&touched) {
            self.difference(path, &mut changes);
        }
        for path in &touched.marked {
            if let Some(seen) = self.workspace.look_at_directory(path) {
                self.compare(path, Some(seen), &mut changes);
            }
        }
        self.follow_names(&mut changes);
        self.measure_directories(&touched);
        self.unmeasured = ChangedPaths::default();
        self.vanished = false;
        changes
    }

    /// Looks at the other names of files that changed under one.
    fn follow_names(&mut self, changes: &mut Changes) {
        let inodes: BTreeSet<u64> = changes
            .paths
            .iter()
            .filter_map(|path| self.known.get(path))
            .map(|seen| seen.inode)
            .chain(std::mem::take(&mut changes.unnamed))
            .collect();
        for inode in inodes {
            for path in self.names.get(&inode).cloned().unwrap_or_default() {
                let seen = self.workspace.look(&path);
                self.compare(&path, seen, changes);
            }
        }
    }

    /// Compares a path with what is known of it, and all that is or was below it.
    fn difference(&mut self, path: &Path, changes: &mut Changes) {
        let watch = &self.watch;
        let mut found = self
            .workspace
            .walk(path, &mut |path, directory| watch.add(path, directory));
        for path in std::mem::take(&mut found.set_id_files) {
            if let Some(seen) = self.workspace.disarm(&path) {
                found.entries.insert(path, seen);
            }
        }
        self.left.retain(|left| !left.starts_with(path));
        self.measure.replace(path, sizes(&self.workspace, &found));
        changes.left.extend(found.left.iter().cloned());
        // Where not everything was looked at, what was not found may still be there.
        let is_gone = |old: &PathBuf| {
            !found.entries.contains_key(old)
                && (found.left.is_empty() || self.workspace.look(old).is_none())
        };
        let gone: Vec<PathBuf> = self
            .known_from(path)
            .map(|(old, _)| old)
            .filter(|old| is_gone(old))
            .cloned()
            .collect();
        self.left.extend(found.left);
        for (path, seen) in found.entries {
            self.compare(&path, Some(seen), changes);
        }
        for path in gone {
            self.compare(&path, None, changes);
        }
    }

    /// The known entries at a path and below it.
    fn known_from<'a>(
        &'a self,
        path: &'a Path,
    ) -> impl Iterator<Item = (&'a PathBuf, &'a EntryState)> {
        self.known
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .take_while(move |(below, _)| below.starts_with(path))
    }

    fn compare(&mut self, path: &Path, seen: Option<EntryState>, changes: &mut Changes) {
        let old = self.known.get(path).copied();
        if let Some(old) = old.filter(|old| seen.is_none_or(|new| new.inode != old.inode))
            && let Some(names) = self.names.get_mut(&old.inode)
        {
            names.remove(path);
            changes.unnamed.push(old.inode);
        }
        if let Some(new) = &seen {
            note_name(&mut self.names, path, new);
        }
        if old == seen {
            return;
        }
        let is_file = |seen: &EntryState| seen.kind == TrackedKind::File;
        match (old.filter(is_file), seen.filter(is_file)) {
            (None, Some(new)) => push(&mut changes.files.created, path, new.bytes),
            (Some(_), Some(new)) => push(&mut changes.files.changed, path, new.bytes),
            (Some(old), None) => push(&mut changes.files.deleted, path, old.bytes),
            (None, None) => {}
        }
        changes.paths.push(path.to_owned());
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
        if self.lately.len() > MAX_RECENT_FILES {
            self.lately.pop_front();
        }
    }
}

/// The touched paths without those below another: a look at that one sees them too.
fn roots(touched: &ChangedPaths) -> Vec<&Path> {
    if touched.everything {
        return vec![Path::new("")];
    }
    let mut roots: Vec<&Path> = Vec::new();
    for path in &touched.paths {
        // In this order a path comes right before those below it.
        if !roots.last().is_some_and(|last| path.starts_with(last)) {
            roots.push(path);
        }
    }
    roots
}

/// The bytes on disk of everything that a walk found.
fn sizes(workspace: &Workspace, found: &WorkspaceListing) -> Vec<(PathBuf, u64)> {
    let entries = found.entries.iter();
    entries
        .map(|(path, seen)| (path.clone(), workspace.taken_by(seen)))
        .collect()
}

fn note_name(names: &mut HashMap<u64, BTreeSet<PathBuf>>, path: &Path, seen: &EntryState) {
    if seen.kind == TrackedKind::File && !seen.has_one_name() {
        names.entry(seen.inode).or_default().insert(path.to_owned());
    }
}

fn push(list: &mut Vec<FileChange>, path: &Path, bytes: u64) {
    if list.len() < MAX_CHANGES {
        let path = path.to_string_lossy().into_owned();
        list.push(FileChange {
            mime: mime_of(&path).to_owned(),
            path,
            bytes,
        });
    }
}

/// The size of every entry of a directory tree as it was when last looked at, and their sum.
#[derive(Debug, Default)]
pub(crate) struct SizeIndex {
    sizes: BTreeMap<PathBuf, u64>,
    bytes: u64,
}

impl SizeIndex {
    /// Replaces the entries at `root` and below it by those that were found.
    pub(crate) fn replace(&mut self, root: &Path, found: impl IntoIterator<Item = (PathBuf, u64)>) {
        let below = (Bound::Included(root), Bound::Unbounded);
        let old: Vec<PathBuf> = self
            .sizes
            .range::<Path, _>(below)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(root))
            .cloned()
            .collect();
        for path in old {
            let size = self.sizes.remove(&path).unwrap_or(0);
            self.bytes = self.bytes.saturating_sub(size);
        }
        for (path, size) in found {
            self.bytes = self.bytes.saturating_add(size);
            self.sizes.insert(path, size);
        }
    }

    /// The entry itself has this size; what is below it stays. Tells whether it had another. One that is not known is left to
    /// [`replace`](SizeIndex::replace).
    pub(crate) fn resize(&mut self, path: &Path, size: u64) -> bool {
        let Some(old) = self.sizes.get_mut(path) else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(*old).saturating_add(size);
        std::mem::replace(old, size) != size
    }

    /// Bytes and entries in all.
    pub(crate) fn total(&self) -> (u64, usize) {
        (self.bytes, self.sizes.len())
    }
}

#[cfg(test)]
mod size_tests {
    use super::*;

    fn entries<const N: usize>(list: [(&str, u64); N]) -> Vec<(PathBuf, u64)> {
        list.map(|(path, size)| (path.into(), size)).to_vec()
    }

    #[test]
    fn what_is_below_a_path_is_replaced_and_nothing_else() {
        let mut measure = SizeIndex::default();
        let all = entries([
            ("a", 4),
            ("a/b", 10),
            ("a/b/c", 20),
            ("a.txt", 7),
            ("ab", 1),
        ]);
        measure.replace(Path::new(""), all);
        assert_eq!(measure.total(), (42, 5));
        measure.replace(Path::new("a"), entries([("a", 4), ("a/d", 5)]));
        assert_eq!(measure.total(), (17, 4));
        measure.replace(Path::new("a"), []);
        assert_eq!(measure.total(), (8, 2));
        measure.replace(Path::new("none"), []);
        assert_eq!(measure.total(), (8, 2));
    }

    #[test]
    fn an_entry_is_resized_without_what_is_below_it() {
        let mut measure = SizeIndex::default();
        measure.replace(Path::new(""), entries([("a", 4), ("a/b", 10)]));
        measure.resize(Path::new("a"), 40);
        measure.resize(Path::new("none"), 40);
        assert_eq!(measure.total(), (50, 2));
    }
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
