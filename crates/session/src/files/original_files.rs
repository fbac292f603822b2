//! The files that were in the workspace before the session came, and large files that the user puts there later.
//!
//! It is not copied beforehand: that would cost as much as there is. A file stays where it is until the session's code is about
//! to write to it or to remove it; then the system call waits until a copy is kept (see `preserve.rs`).

use crate::files::entry_state::{EntryState, Stamp, TrackedKind};
use crate::files::store::Attributes;
use crate::files::store::Stored;
use crate::files::workspace::Workspace;
use cellblock_sandbox::EntryHandle;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// In a larger directory, extended attributes are only known of files that were kept before they were changed.
const MAX_ENTRIES_WITH_ATTRIBUTES: usize = 256;

/// The files that were there before the session.
#[derive(Debug, Default)]
pub(crate) struct OriginalFiles {
    entries: BTreeMap<PathBuf, EntryState>,
    /// Files and links by what stays theirs when they are moved, and where they were.
    by_inode: HashMap<u64, (EntryState, OriginalPath)>,
    kept: HashMap<Stamp, (Preserved, OriginalPath)>,
    /// Extended attributes by inode, as far as they are known.
    attributes: HashMap<u64, Attributes>,
    /// Directories in which each file is kept when it is about to be removed, and not all of them with the first.
    one_by_one: HashSet<PathBuf>,
}

#[derive(Clone, Debug)]
enum OriginalPath {
    At(PathBuf),
    /// At several paths: it has several names.
    Several,
}

/// The contents of a file before it was first changed.
#[derive(Debug)]
pub(crate) enum Preserved {
    /// A copy.
    Copy(Stored),
    /// The file itself, which has lost its name.
    Itself(Stored),
    /// The target of a link.
    Link(PathBuf),
}

impl OriginalFiles {
    pub(crate) fn new(
        entries: BTreeMap<PathBuf, EntryState>,
        workspace: &Workspace,
    ) -> OriginalFiles {
        let mut by_inode = HashMap::new();
        for (path, seen) in &entries {
            if seen.kind != TrackedKind::Directory {
                by_inode
                    .entry(seen.inode)
                    .and_modify(|(_, original_path)| *original_path = OriginalPath::Several)
                    .or_insert_with(|| (*seen, OriginalPath::At(path.clone())));
            }
        }
        let mut given = OriginalFiles {
            entries: BTreeMap::new(),
            by_inode,
            kept: HashMap::new(),
            attributes: HashMap::new(),
            one_by_one: HashSet::new(),
        };
        if entries.len() <= MAX_ENTRIES_WITH_ATTRIBUTES {
            let files = entries
                .iter()
                .filter(|(_, seen)| seen.kind == TrackedKind::File);
            for (entry, _) in files.filter_map(|(path, _)| workspace.find(path)) {
                given.note_attributes(&entry);
            }
        }
        // Few directories have any, and of these it is known from the first look.
        let has_attributes = |seen: &EntryState| {
            seen.kind == TrackedKind::Directory && !seen.attributes.is_of_none()
        };
        for (path, seen) in entries.iter().filter(|(_, seen)| has_attributes(seen)) {
            if let Some((entry, _)) = workspace.find(path)
                && let Ok(attributes) = Attributes::of(&entry)
            {
                given.attributes.insert(seen.inode, attributes);
            }
        }
        given.entries = entries;
        given
    }

    /// The original entry at a path.
    pub(crate) fn at(&self, path: &Path) -> Option<EntryState> {
        self.entries.get(path).copied()
    }

    /// The files and links that were in the same directory as `path`; `None` where each is kept by itself. That a directory is too large is found
    /// out once: to count its files for each of them would take longer than to remove them.
    pub(crate) fn siblings(&mut self, path: &Path) -> Option<Vec<PathBuf>> {
        const MAX_SIBLINGS: usize = 2000;
        let directory = path.parent()?;
        if self.one_by_one.contains(directory) {
            return None;
        }
        let from = (Bound::Included(directory), Bound::Unbounded);
        let mut below = self
            .entries
            .range::<Path, _>(from)
            .take_while(|(path, _)| path.starts_with(directory));
        let found: Vec<PathBuf> = below
            .by_ref()
            .take(MAX_SIBLINGS)
            .filter(|(path, seen)| {
                path.parent() == Some(directory) && seen.kind != TrackedKind::Directory
            })
            .map(|(path, _)| path.clone())
            .collect();
        if below.next().is_none() {
            return Some(found);
        }
        self.keep_one_by_one(path);
        None
    }

    /// From now on the files beside `path` are kept one by one.
    pub(crate) fn keep_one_by_one(&mut self, path: &Path) {
        if let Some(directory) = path.parent() {
            self.one_by_one.insert(directory.to_owned());
        }
    }

    /// Whether an entry is an original that was not changed, maybe under another name.
    pub(crate) fn is_untouched(&self, seen: &EntryState) -> bool {
        let given = self.by_inode.get(&seen.inode);
        given.is_some_and(|(given, _)| given.has_same_content(seen))
    }

    /// Adds a file that the user put there later.
    pub(crate) fn adopt(&mut self, path: &Path, seen: &EntryState) {
        let original_path = OriginalPath::At(path.to_owned());
        self.by_inode.insert(seen.inode, (*seen, original_path));
    }

    /// The preserved contents of an original file, where it has been changed since.
    pub(crate) fn preserved(&self, seen: &EntryState) -> Option<&Preserved> {
        self.kept.get(&seen.stamp()).map(|(kept, _)| kept)
    }

    pub(crate) fn keep(&mut self, seen: &EntryState, kept: Preserved) {
        if let Some((_, original_path)) = self.by_inode.get(&seen.inode) {
            self.kept
                .insert(seen.stamp(), (kept, original_path.clone()));
        }
    }

    /// Records the extended attributes of a given file, if they are not known and cannot have been changed yet.
    pub(crate) fn note_attributes(&mut self, entry: &EntryHandle) {
        let now = entry
            .stat_now()
            .ok()
            .map(|stat| EntryState::from_stat(&stat));
        let Some(now) = now.filter(|now| !self.attributes.contains_key(&now.inode)) else {
            return;
        };
        let given = self.by_inode.get(&now.inode);
        if given.is_some_and(|(given, _)| given.is_untouched_in(&now))
            && let Ok(attributes) = Attributes::of(entry)
        {
            self.attributes.insert(now.inode, attributes);
        }
    }

    /// The extended attributes that a given file had; `None` where they are not known.
    pub(crate) fn attributes(&self, seen: &EntryState) -> Option<&Attributes> {
        static NONE: Attributes = Attributes::none();
        let is_known_to_have_none =
            seen.kind == TrackedKind::Directory && seen.attributes.is_of_none();
        let recorded = self.attributes.get(&seen.inode);
        recorded.or(is_known_to_have_none.then_some(&NONE))
    }

    /// The other paths of a file that had several names.
    pub(crate) fn other_names<'a>(
        &'a self,
        path: &'a Path,
        seen: &'a EntryState,
    ) -> impl Iterator<Item = &'a PathBuf> {
        let is_other = move |(other, of): &(&PathBuf, &EntryState)| {
            of.inode == seen.inode && of.kind == seen.kind && other.as_path() != path
        };
        self.entries.iter().filter(is_other).map(|(path, _)| path)
    }

    /// The bytes that preserved contents take on disk.
    pub(crate) fn bytes(&self) -> u64 {
        let size = |(kept, _): &(Preserved, OriginalPath)| match kept {
            Preserved::Copy(stored) => stored.bytes(),
            Preserved::Itself(_) | Preserved::Link(_) => 0,
        };
        self.kept.values().map(size).sum()
    }

    /// Drops copies of files that are no longer needed as they were: neither as they were at the start (at this path), nor later.
    pub(crate) fn forget(
        &mut self,
        is_needed_from_start: impl Fn(&Path) -> bool,
        is_needed_later: impl Fn(&Stamp) -> bool,
    ) {
        let entries = &self.entries;
        self.kept
            .retain(|stamp, (_, original_path)| match original_path {
                OriginalPath::Several => true,
                OriginalPath::At(path) => {
                    let is_from_start =
                        entries.get(path).is_some_and(|seen| seen.stamp() == *stamp);
                    is_from_start && is_needed_from_start(path) || is_needed_later(stamp)
                }
            });
    }

    /// Whether anything is kept.
    pub(crate) fn has_preserved(&self) -> bool {
        !self.kept.is_empty()
    }
}
