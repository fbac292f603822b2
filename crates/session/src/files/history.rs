//! The files of each checkpoint, so that going back restores them too.
//!
//! After each cell, what it changed is copied to a store of the session's; going back writes the copies into the same files, so
//! that open handles stay good (`restore.rs`). What was there before the session came is kept when it is first changed
//! (`original_files.rs`). Where init does not ask before that, it is copied at the start if it is small; beyond that, a first change cannot be
//! taken back, and the result says so.

use crate::files::entry_state::{EntryState, Stamp, TrackedKind};
use crate::files::held_files::HeldFiles;
use crate::files::original_files::{OriginalFiles, Preserved};
use crate::files::preserve::PreserveSocket;
use crate::files::store::Attributes;
use crate::files::store::{FileStore, Stored};
use crate::files::workspace::Workspace;
use cellblock_sandbox::Access;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is copied of a directory of the user's when a session begins, where changes to it are not asked about.
const MAX_BYTES_AT_START: u64 = 64 << 20;
const MAX_FILES_AT_START: usize = 2000;

const DAMAGE: &str = "the files of the workspace: the host failed while it worked on their history, so some may not be as they were";

/// Every version of every file that this session changed.
#[derive(Debug)]
pub(crate) struct FileHistory {
    pub(crate) workspace: Arc<Workspace>,
    pub(super) store: FileStore,
    /// The most bytes of copies of the user's files; and the bytes of copies of files that were shared, since the last fork.
    pub(super) limit: u64,
    pub(super) own_copy_bytes: u64,
    pub(crate) originals: OriginalFiles,
    change_notice: ChangeNotice,
    /// The socket on which init is told which files to ask about.
    preserve_socket: Option<PreserveSocket>,
    /// By path: what it was after which cell, oldest first.
    pub(crate) versions: BTreeMap<PathBuf, Vec<Version>>,
    /// Changed, and not copied yet.
    uncopied: Vec<Uncopied>,
    /// Of which the newest version has no copy, why, and what that looked like.
    missing: BTreeMap<PathBuf, (String, Option<EntryState>)>,
    /// Files of the user's that were changed and could not be kept before, and why; since the last query.
    pub(super) unpreserved: BTreeMap<PathBuf, String>,
    /// Files that the session's processes could write to without being noticed when they were last looked at. `None` since they went back.
    pub(crate) held: Option<BTreeSet<PathBuf>>,
    /// Of these, mapped ones that cannot be compared with a copy, why, and the last cell after which that was so.
    pub(crate) uncompared: BTreeMap<PathBuf, (u64, &'static str)>,
    /// The last cell after which a process could not be looked into.
    pub(crate) unseen_after: Option<u64>,
    /// Whether work on the history was broken off in the middle.
    is_damaged: bool,
}

/// Whether init asks before a file of the user's is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeNotice {
    /// The keeper, so that a copy can wait until then.
    BeforeChange,
    Never,
}

#[derive(Debug)]
struct Uncopied {
    cell: u64,
    by: Author,
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) cell: u64,
    pub(crate) by: Author,
    pub(crate) content: Content,
}

/// The author of a change. Going back takes back what cells did, and leaves the work of others alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Cell,
    /// The user, or the host.
    Outside,
    /// The user, or something that a cell left running.
    Unclear,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Absent,
    Directory {
        access: Access,
        /// Unknown where the directory was closed to the host.
        attributes: Option<Attributes>,
    },
    Pipe {
        access: Access,
    },
    /// It can only be where it still is.
    SocketOrDevice(EntryState),
    Link {
        target: PathBuf,
        access: Access,
    },
    File {
        copy: Arc<Stored>,
        modified: i128,
        access: Access,
        attributes: Attributes,
    },
    /// A file from before the session, maybe moved: it is still there, or it is preserved.
    Original(EntryState),
    Unknown,
}

impl FileHistory {
    pub(crate) fn new(
        workspace: Arc<Workspace>,
        store: PathBuf,
        limit: u64,
        known: &BTreeMap<PathBuf, EntryState>,
        change_notice: ChangeNotice,
    ) -> FileHistory {
        let originals = if workspace.began_empty() {
            OriginalFiles::default()
        } else {
            OriginalFiles::new(known.clone(), &workspace)
        };
        let mut history = FileHistory {
            workspace,
            store: FileStore::new(store),
            limit,
            own_copy_bytes: 0,
            originals,
            change_notice,
            preserve_socket: None,
            versions: BTreeMap::new(),
            uncopied: Vec::new(),
            missing: BTreeMap::new(),
            unpreserved: BTreeMap::new(),
            held: Some(BTreeSet::new()),
            uncompared: BTreeMap::new(),
            unseen_after: None,
            is_damaged: false,
        };
        let bytes: u64 = known.values().map(|seen| seen.bytes).sum();
        let small = bytes <= MAX_BYTES_AT_START && known.len() <= MAX_FILES_AT_START;
        if change_notice == ChangeNotice::Never && !history.workspace.began_empty() && small {
            history.copy(0, Author::Outside, known.keys().cloned().collect());
        }
        history
    }

    /// Whether init asks before files are changed.
    pub(crate) fn change_notice(&self) -> ChangeNotice {
        self.change_notice
    }

    /// From here on it can be told what to ask about.
    pub(crate) fn set_preserve_socket(&mut self, preserve_socket: PreserveSocket) {
        self.preserve_socket = Some(preserve_socket);
    }

    /// A cell that was kept changed these. They are copied when there is time, see [`FileHistory::catch_up`].
    pub(crate) fn note(&mut self, cell: u64, paths: Vec<PathBuf>) {
        self.uncopied.push(Uncopied {
            cell,
            by: Author::Cell,
            paths,
        });
    }

    /// Takes note of paths that were changed after `cell`, while no cell ran.
    pub(crate) fn note_between(&mut self, cell: u64, by: Author, paths: Vec<PathBuf>) {
        self.uncopied.push(Uncopied { cell, by, paths });
    }

    /// Whether there is none that can be changed without being noticed, as far as that was looked at.
    pub(crate) fn holds_none(&self) -> bool {
        self.held.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// After `cell`, the session's processes hold these files. What was written to mapped ones since they were last copied is noted.
    pub(crate) fn note_held(&mut self, cell: u64, held: HeldFiles) {
        if !held.unknown.is_empty() {
            self.unseen_after = Some(cell);
        }
        for path in &held.mapped {
            let newest = self.at(path, u64::MAX);
            match self.compare(path, &newest) {
                Ok(true) => {}
                Ok(false) => self.copy(cell, Author::Cell, vec![path.clone()]),
                Err(reason) => _ = self.uncompared.insert(path.clone(), (cell, reason)),
            }
        }
        self.held = Some(held.mapped.into_iter().chain(held.open).collect());
    }

    /// Whether a file has these contents, byte by byte; or why that cannot be told.
    pub(crate) fn compare(&self, path: &Path, content: &Content) -> Result<bool, &'static str> {
        /// Comparing more after each cell would take too long.
        const MAX_BYTES: u64 = 32 << 20;
        let copy = match content {
            Content::File { copy, .. } => copy.as_ref(),
            Content::Original(seen) => match self.originals.preserved(seen) {
                Some(Preserved::Copy(copy)) => copy,
                _ => return Err("there is no copy to compare it with"),
            },
            Content::Unknown => return Err("there is no copy to compare it with"),
            Content::Absent
            | Content::Directory { .. }
            | Content::Pipe { .. }
            | Content::SocketOrDevice(_)
            | Content::Link { .. } => {
                return Ok(self.workspace.look(path).is_none());
            }
        };
        let Some((entry, seen)) = self.workspace.find(path) else {
            return Ok(false);
        };
        if seen.kind != TrackedKind::File || seen.bytes != copy.bytes() {
            return Ok(false);
        }
        if seen.bytes > MAX_BYTES {
            return Err("it is too large to be compared with its copy");
        }
        let file = entry.read().map_err(|_| "it cannot be read")?;
        copy.has_same_bytes(&file).map_err(|_| "it cannot be read")
    }

    /// Whether something was noted and not copied.
    pub(crate) fn is_behind(&self) -> bool {
        !self.uncopied.is_empty() || !self.missing.is_empty()
    }

    /// Copies what was noted. Before a checkpoint counts as made.
    pub(crate) fn catch_up(&mut self) {
        let missing: Vec<PathBuf> = self.missing.keys().cloned().collect();
        for Uncopied { cell, by, paths } in std::mem::take(&mut self.uncopied) {
            self.copy(cell, by, paths);
        }
        // What has no copy and was not changed since: there may be room for it now.
        for path in missing {
            self.copy_again(&path);
        }
    }

    /// Why going back to the newest state would not bring every file back, if that is so.
    pub(crate) fn unrestorable_reason(&self) -> Option<String> {
        if self.is_damaged {
            return Some(DAMAGE.to_owned());
        }
        let missing = self.missing.iter();
        list(
            "no copy could be made of every file",
            missing.map(|(path, (problem, _))| (path, problem)),
        )
    }

    /// Why going back would not bring every file of the user's back that was changed since the last call.
    pub(crate) fn take_unpreserved(&mut self) -> Option<String> {
        let unpreserved = std::mem::take(&mut self.unpreserved);
        list(
            "not every file could be kept as it was before the cell",
            unpreserved.iter(),
        )
    }

    /// Work on it was broken off in the middle: from here on it is not known what is missing.
    pub(crate) fn note_damage(&mut self) {
        self.is_damaged = true;
    }

    /// The line about a damaged history, for everything that is put back.
    pub(crate) fn damage(&self) -> Option<String> {
        self.is_damaged.then(|| DAMAGE.to_owned())
    }

    /// Bytes that the copies of earlier versions take on disk: all but the newest of each file.
    pub(crate) fn earlier_bytes(&self) -> u64 {
        let size = |version: &Version| match &version.content {
            Content::File { copy, .. } => copy.bytes(),
            _ => 0,
        };
        let versions = self
            .versions
            .values()
            .flat_map(|versions| versions.iter().rev().skip(1));
        versions.map(size).sum::<u64>() + self.originals.bytes()
    }

    /// The session never goes back before `cell` any more.
    pub(crate) fn forget_before(&mut self, cell: u64) {
        let needed_from =
            |versions: &[Version]| versions.iter().rposition(|version| version.cell <= cell);
        for versions in self.versions.values_mut() {
            let needed = needed_from(versions).unwrap_or(0);
            versions.drain(..needed);
        }
        if !self.originals.has_preserved() {
            return;
        }
        let versions = &self.versions;
        let later: HashSet<Stamp> = versions
            .values()
            .flatten()
            .filter_map(|version| match version.content {
                Content::Original(seen) => Some(seen.stamp()),
                _ => None,
            })
            .collect();
        self.originals.forget(
            |path| versions.get(path).and_then(|of| needed_from(of)).is_none(),
            |stamp| later.contains(stamp),
        );
    }

    /// The content of a path after `cell`.
    pub(crate) fn at(&self, path: &Path, cell: u64) -> Content {
        let versions = self
            .versions
            .get(path)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if let Some(version) = versions.iter().rev().find(|version| version.cell <= cell) {
            return version.content.clone();
        }
        self.originals
            .at(path)
            .map_or(Content::Absent, Content::Original)
    }

    fn copy(&mut self, cell: u64, by: Author, paths: Vec<PathBuf>) {
        for path in paths {
            let content = self.content_or_unknown(&path, by);
            self.versions
                .entry(path)
                .or_default()
                .push(Version { cell, by, content });
        }
    }

    fn content_or_unknown(&mut self, path: &Path, by: Author) -> Content {
        match self.content_of(path, by) {
            Ok(content) => {
                self.missing.remove(path);
                content
            }
            Err(error) => {
                let missing = (error.to_string(), self.workspace.look(path));
                self.missing.insert(path.to_owned(), missing);
                Content::Unknown
            }
        }
    }

    /// Tries once more to copy a file whose newest version has no copy, if it is still that version. Not where there is no room: a copy
    /// that does not fit fills the disk until it is given up.
    fn copy_again(&mut self, path: &Path) {
        let newest = |of: &BTreeMap<PathBuf, Vec<Version>>| {
            let version = of.get(path).and_then(|versions| versions.last());
            version.map(|version| (version.by, matches!(version.content, Content::Unknown)))
        };
        let Some((by, true)) = newest(&self.versions) else {
            self.missing.remove(path);
            return;
        };
        let was = self.missing.get(path).and_then(|(_, seen)| *seen);
        let is_same = match (was, self.workspace.look(path)) {
            (Some(was), Some(now)) => was.has_same_content(&now),
            (was, now) => was.is_none() && now.is_none(),
        };
        let needed = was.map_or(0, |seen| seen.bytes);
        if !is_same || self.store.room().is_some_and(|room| room <= needed) {
            return;
        }
        let content = self.content_or_unknown(path, by);
        if let Some(version) = self.versions.get_mut(path).and_then(|of| of.last_mut()) {
            version.content = content;
        }
    }

    /// Whether a file of the user's can wait until it is changed. A small one is as quickly copied, and then it does not matter which process has it open.
    fn can_be_preserved_later(&self, seen: &EntryState) -> bool {
        const LARGE: u64 = 1 << 20;
        let is_large = seen.kind == TrackedKind::File && seen.bytes >= LARGE;
        is_large
            && self
                .preserve_socket
                .as_ref()
                .is_some_and(|preserve_socket| preserve_socket.ask_about(seen))
    }

    fn content_of(&mut self, path: &Path, by: Author) -> io::Result<Content> {
        let Some((entry, seen)) = self.workspace.find(path) else {
            return Ok(Content::Absent);
        };
        let access = seen.access;
        if by == Author::Outside && self.can_be_preserved_later(&seen) {
            self.originals.adopt(path, &seen);
        }
        // Moved, or with other permissions, or not to be copied yet.
        if self.change_notice == ChangeNotice::BeforeChange && self.originals.is_untouched(&seen) {
            return Ok(Content::Original(seen));
        }
        Ok(match seen.kind {
            TrackedKind::Directory => Content::Directory {
                access,
                attributes: Attributes::of(&entry).ok(),
            },
            TrackedKind::Pipe => Content::Pipe { access },
            TrackedKind::SocketOrDevice => Content::SocketOrDevice(seen),
            TrackedKind::Link => Content::Link {
                target: entry.read_link()?,
                access,
            },
            TrackedKind::File => Content::File {
                copy: Arc::new(self.store.copy(&entry)?),
                modified: seen.modified,
                access,
                attributes: Attributes::of(&entry)?,
            },
        })
    }
}

/// A few of these with what was wrong with them, and how many there are.
fn list<'a>(
    heading: &str,
    mut problems: impl Iterator<Item = (&'a PathBuf, &'a String)>,
) -> Option<String> {
    const MAX_NAMED: usize = 3;
    let named = |(path, problem): (&PathBuf, &String)| format!("{}: {problem}", path.display());
    let few: Vec<String> = problems.by_ref().take(MAX_NAMED).map(named).collect();
    let more = problems.count();
    let rest = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    (!few.is_empty()).then(|| format!("{heading}: {}{rest}", few.join("; ")))
}
