//! The files of each checkpoint, so that going back takes them along.
//!
//! After each cell, what it changed is copied to a store of the session's; going back writes the copies into the same files, so
//! that open handles stay good. What was in a directory of the user's before the session came is copied at the start if it is
//! small; beyond that, a first change cannot be taken back, and the result says so.

use crate::tracker::Changes;
use crate::workspace::{Kind, Seen, Workspace};
use cellblock_sandbox::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is copied of a directory of the user's when a session begins.
const MOST_BYTES_AT_START: u64 = 64 << 20;
const MOST_FILES_AT_START: usize = 2000;

/// Every version of every file that this session changed.
#[derive(Debug)]
pub(crate) struct FileHistory {
    workspace: Arc<Workspace>,
    store: PathBuf,
    next: u64,
    /// By path: what it was after which cell, oldest first.
    versions: BTreeMap<PathBuf, Vec<Version>>,
    /// What the path was before this session, where no version says so.
    before: Before,
    /// Changed, and not copied yet.
    uncopied: Vec<Uncopied>,
}

#[derive(Debug)]
struct Uncopied {
    cell: u64,
    by: Author,
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
struct Version {
    cell: u64,
    by: Author,
    content: Content,
}

/// Who changed a file. Going back takes back what cells did, and leaves the work of others alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    Cell,
    Outside,
}

#[derive(Clone, Debug)]
enum Content {
    Absent,
    Directory {
        access: Access,
    },
    Link {
        target: PathBuf,
        access: Access,
    },
    File {
        copy: PathBuf,
        bytes: u64,
        modified: i128,
        access: Access,
    },
    Unknown,
}

/// What was there before the session came.
#[derive(Debug)]
enum Before {
    /// Nothing: the directory is fresh.
    Nothing,
    /// Everything was copied.
    Copied,
    /// It was too much; these paths were there.
    There(BTreeSet<PathBuf>),
}

impl FileHistory {
    pub(crate) fn new(
        workspace: Arc<Workspace>,
        store: PathBuf,
        known: &BTreeMap<PathBuf, Seen>,
    ) -> FileHistory {
        let before = if workspace.began_empty() {
            Before::Nothing
        } else {
            Before::There(known.keys().cloned().collect())
        };
        let mut history = FileHistory {
            workspace,
            store,
            next: 0,
            versions: BTreeMap::new(),
            before,
            uncopied: Vec::new(),
        };
        let bytes: u64 = known.values().map(|seen| seen.bytes).sum();
        let small = bytes <= MOST_BYTES_AT_START && known.len() <= MOST_FILES_AT_START;
        if matches!(history.before, Before::There(_)) && small {
            history.copy(0, Author::Outside, known.keys().cloned().collect());
            history.before = Before::Copied;
        }
        history
    }

    /// A cell that was kept changed these. They are copied when there is time, see [`FileHistory::catch_up`].
    pub(crate) fn note(&mut self, cell: u64, paths: Vec<PathBuf>) {
        self.uncopied.push(Uncopied {
            cell,
            by: Author::Cell,
            paths,
        });
    }

    /// Someone else changed these after `cell`.
    pub(crate) fn note_outside(&mut self, cell: u64, paths: Vec<PathBuf>) {
        self.uncopied.push(Uncopied {
            cell,
            by: Author::Outside,
            paths,
        });
    }

    /// Whether something was noted and not copied.
    pub(crate) fn is_behind(&self) -> bool {
        !self.uncopied.is_empty()
    }

    /// Copies what was noted. Before a checkpoint counts as made.
    pub(crate) fn catch_up(&mut self) {
        for Uncopied { cell, by, paths } in std::mem::take(&mut self.uncopied) {
            self.copy(cell, by, paths);
        }
    }

    /// Puts everything back as it was after `cell`: what later cells changed, and `dirty`, what the one that died changed.
    /// Returns what could not be put back.
    pub(crate) fn go_back(&mut self, cell: u64, dirty: Changes) -> Vec<String> {
        // What is copied now is either by someone else, and stays, or about to be undone.
        self.catch_up();
        let mut failed = Vec::new();
        let mut paths: BTreeSet<PathBuf> = dirty.paths.into_iter().collect();
        for (path, versions) in &mut self.versions {
            let Some(newest) = versions.last().filter(|version| version.cell > cell) else {
                continue;
            };
            if newest.by == Author::Cell || paths.contains(path) {
                paths.insert(path.clone());
                continue;
            }
            // Someone changed it after the cells did. It is part of the state that we go back to.
            if versions
                .iter()
                .any(|version| version.cell > cell && version.by == Author::Cell)
            {
                failed.push(format!(
                    "{}: it was changed by someone else since, and was left alone",
                    path.display()
                ));
            }
            if let Some(newest) = versions.last_mut() {
                newest.cell = cell;
            }
        }
        let wanted: Vec<(PathBuf, Content)> = paths
            .into_iter()
            .map(|path| (path.clone(), self.at(&path, cell)))
            .collect();
        // What is in them was not looked at, but it was the cell that made them.
        for directory in dirty.left {
            if matches!(self.at(&directory, cell), Content::Absent)
                && let Err(error) = self.workspace.directory().remove_tree(&directory)
            {
                failed.push(format!("{}: {error}", directory.display()));
            }
        }
        // What must go goes first, from the inside out; then what must be there comes, from the outside in.
        for (path, _) in wanted
            .iter()
            .rev()
            .filter(|(_, content)| matches!(content, Content::Absent))
        {
            self.remove(path);
        }
        for (path, content) in &wanted {
            if let Err(error) = self.put(path, content) {
                failed.push(format!("{}: {error}", path.display()));
            }
        }
        for versions in self.versions.values_mut() {
            versions
                .extract_if(.., |version| version.cell > cell)
                .for_each(discard);
        }
        failed
    }

    /// Bytes that the copies of earlier versions take on disk: all but the newest of each file.
    pub(crate) fn earlier_bytes(&self) -> u64 {
        let size = |version: &Version| match &version.content {
            Content::File { bytes, .. } => *bytes,
            _ => 0,
        };
        self.versions
            .values()
            .flat_map(|versions| versions.iter().rev().skip(1))
            .map(size)
            .sum()
    }

    /// Nobody goes back before `cell` any more.
    pub(crate) fn forget_before(&mut self, cell: u64) {
        for versions in self.versions.values_mut() {
            let needed = versions
                .iter()
                .rposition(|version| version.cell <= cell)
                .unwrap_or(0);
            versions.drain(..needed).for_each(discard);
        }
    }

    fn at(&self, path: &Path, cell: u64) -> Content {
        let versions = self
            .versions
            .get(path)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if let Some(version) = versions.iter().rev().find(|version| version.cell <= cell) {
            return version.content.clone();
        }
        match &self.before {
            Before::There(paths) if paths.contains(path) => Content::Unknown,
            _ => Content::Absent,
        }
    }

    fn copy(&mut self, cell: u64, by: Author, paths: Vec<PathBuf>) {
        for path in paths {
            let content = self.content_of(&path);
            self.versions
                .entry(path)
                .or_default()
                .push(Version { cell, by, content });
        }
    }

    fn content_of(&mut self, path: &Path) -> Content {
        let Some(seen) = self.workspace.look(path) else {
            return Content::Absent;
        };
        let directory = self.workspace.directory();
        let content = match seen.kind {
            Kind::Directory => directory.stat(path).map(|stat| Content::Directory {
                access: Access::of(&stat),
            }),
            Kind::Link => directory.read_link(path).map(|target| Content::Link {
                target,
                access: seen.access,
            }),
            Kind::File => {
                let copy = self.store.join(self.next.to_string());
                self.next += 1;
                self.copy_file(path, &copy).map(|()| Content::File {
                    copy,
                    bytes: seen.bytes,
                    modified: seen.modified,
                    access: seen.access,
                })
            }
        };
        content.unwrap_or(Content::Unknown)
    }

    fn copy_file(&self, path: &Path, copy: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.store)?;
        let mut source = self.workspace.directory().read(path)?;
        // The kernel shares the blocks where the file system can.
        io::copy(&mut source, &mut File::create(copy)?).map(drop)
    }

    fn remove(&self, path: &Path) {
        // A directory that is not empty holds something that is not ours to remove.
        let _ = self.workspace.directory().remove(path);
    }

    fn put(&self, path: &Path, content: &Content) -> io::Result<()> {
        let directory = self.workspace.directory();
        match content {
            Content::Absent => Ok(()),
            Content::Unknown => Err(io::Error::other(
                "it was changed, and no copy from before was kept",
            )),
            Content::Directory { access } => {
                if directory.stat(path).is_ok() {
                    return directory.make_directories(path);
                }
                directory.make_directories(path)?;
                directory.set_access(path, *access)
            }
            Content::Link { target, access } => {
                self.remove(path);
                directory.make_link(path, target)?;
                directory.set_access(path, *access)
            }
            Content::File {
                copy,
                modified,
                access,
                ..
            } => {
                if self
                    .workspace
                    .look(path)
                    .is_some_and(|seen| seen.kind != Kind::File)
                {
                    self.remove(path);
                }
                let mut file = match directory.write(path) {
                    // One that may not be written, not even by its owner.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        let mode = access.mode | 0o600;
                        directory.set_access(path, Access { mode, ..*access })?;
                        directory.write(path)?
                    }
                    opened => opened?,
                };
                io::copy(&mut File::open(copy)?, &mut file)?;
                directory.set_access(path, *access)?;
                file.set_modified(time_of(*modified))
            }
        }
    }
}

impl Drop for FileHistory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.store);
    }
}

fn discard(version: Version) {
    if let Content::File { copy, .. } = version.content {
        let _ = fs::remove_file(copy);
    }
}

fn time_of(nanoseconds: i128) -> SystemTime {
    let since = u64::try_from(nanoseconds).unwrap_or(0);
    UNIX_EPOCH + Duration::from_nanos(since)
}
