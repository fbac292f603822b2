//! A session's files: the directory, what is in it, and what a cell did to it.

use crate::Error;
use crate::watch::{Touched, Watch, Watcher};
use cellblock_protocol::{FileChange, FileChanges, FileEntry, mime_of};
use cellblock_sandbox::{Confined, EntryKind};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest list of changed files in one result.
const MOST_CHANGES: usize = 10_000;
/// The most files of a workspace that are looked at; a tree beyond this is watched but not listed.
const MOST_FILES: usize = 200_000;
/// The largest file that `get_file` returns.
const LARGEST_FILE: u64 = 1 << 30;
/// Writes through a shared map raise no event; files that were written lately are looked at again.
const LATELY: usize = 32;

/// A workspace on disk.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    directory: Confined,
    /// Made by us and to be removed when it stays empty.
    ours: bool,
}

impl Workspace {
    /// A directory of the user's.
    pub(crate) fn given(path: &Path) -> Result<Workspace, Error> {
        let refuse = |problem: String| Error::Workspace { path: path.to_owned(), problem };
        let path = fs::canonicalize(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refuse("it does not exist; create it first".into()),
            _ => refuse(error.to_string()),
        })?;
        if !path.is_dir() {
            return Err(refuse("it is not a directory".into()));
        }
        if path == Path::new("/") {
            return Err(refuse("the root directory is no workspace".into()));
        }
        check_writable(&path).map_err(|error| match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => refuse("it is on a read-only file system".into()),
            io::ErrorKind::PermissionDenied => refuse("it cannot be written by this user".into()),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => refuse("its disk is full".into()),
            _ => refuse(error.to_string()),
        })?;
        Workspace::open(path, false)
    }

    /// A fresh one, which survives the session unless it stays empty.
    pub(crate) fn fresh(state: &Path, session: &str) -> Result<Workspace, Error> {
        let path = state.join("workspaces").join(unique_name(session));
        fs::create_dir_all(&path).map_err(|source| Error::Storage { what: "making the workspace", path: path.clone(), source })?;
        Workspace::open(path, true)
    }

    fn open(path: PathBuf, ours: bool) -> Result<Workspace, Error> {
        let directory = Confined::open(&path).map_err(|error| Error::Workspace { path: path.clone(), problem: error.to_string() })?;
        Ok(Workspace { path, directory, ours })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn put(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        let write = || self.directory.write(Path::new(path))?.write_all(contents);
        write().map_err(|source| file_error(path, source))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Error> {
        let read = || {
            let mut file = self.directory.read(Path::new(path))?;
            let mut contents = Vec::new();
            let length = (&mut file).take(LARGEST_FILE + 1).read_to_end(&mut contents)? as u64;
            if length > LARGEST_FILE { Err(io::Error::from(io::ErrorKind::FileTooLarge)) } else { Ok(contents) }
        };
        read().map_err(|source| file_error(path, source))
    }

    /// Every plain file, sorted by path.
    pub(crate) fn list(&self) -> Vec<FileEntry> {
        let entry = |(path, seen): (&PathBuf, &Seen)| {
            let path = path.to_string_lossy().into_owned();
            FileEntry { mime: mime_of(&path).to_owned(), bytes: seen.bytes, modified: Some(seen.modified as f64 / 1e9), path }
        };
        let mut files = BTreeMap::new();
        self.walk(Path::new(""), &mut files, &mut |_| {});
        files.iter().map(entry).collect()
    }

    fn walk(&self, from: &Path, files: &mut BTreeMap<PathBuf, Seen>, on_directory: &mut dyn FnMut(&Path)) {
        let mut open = vec![from.to_owned()];
        while let Some(directory) = open.pop() {
            // Before it is listed, so that what appears in between is either listed or seen by the watch.
            on_directory(&directory);
            for (name, kind) in self.directory.list(&directory).unwrap_or_default() {
                let path = directory.join(name);
                match kind {
                    EntryKind::Directory => open.push(path),
                    EntryKind::File if files.len() < MOST_FILES => {
                        if let Some(seen) = self.look(&path) {
                            files.insert(path, seen);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn look(&self, path: &Path) -> Option<Seen> {
        let stat = self.directory.stat(path).ok()?;
        (stat.st_mode & 0o170_000 == 0o100_000).then(|| Seen {
            bytes: stat.st_size.unsigned_abs(),
            modified: stat.st_mtime as i128 * 1_000_000_000 + stat.st_mtime_nsec as i128,
            changed: stat.st_ctime as i128 * 1_000_000_000 + stat.st_ctime_nsec as i128,
            inode: stat.st_ino,
        })
    }

    /// Bytes and files at a path and below it.
    fn size_of(&self, path: &Path) -> (u64, usize) {
        let mut files = BTreeMap::new();
        if self.is_directory(path) {
            self.walk(path, &mut files, &mut |_| {});
        } else if let Some(seen) = self.look(path) {
            files.insert(path.to_owned(), seen);
        }
        (files.values().map(|seen| seen.bytes).sum(), files.len())
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.directory.stat(path).is_ok_and(|stat| stat.st_mode & 0o170_000 == 0o040_000)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.ours {
            // Works only while it is empty.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// What a file looked like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    bytes: u64,
    modified: i128,
    changed: i128,
    inode: u64,
}

/// Knows what is in a workspace and tells what changed, at a cost that grows with what changed.
#[derive(Debug)]
pub(crate) struct Tracker {
    workspace: Arc<Workspace>,
    watch: Watch,
    known: BTreeMap<PathBuf, Seen>,
    lately: VecDeque<PathBuf>,
    /// Seen while a cell runs, to be told when it ends.
    pending: Touched,
    /// Bytes that were there before the session.
    ground: u64,
}

impl Tracker {
    pub(crate) fn new(workspace: Arc<Workspace>, watcher: &Arc<Watcher>) -> Tracker {
        let watch = watcher.watch(workspace.path());
        let mut known = BTreeMap::new();
        workspace.walk(Path::new(""), &mut known, &mut |directory| watch.add(directory));
        let ground = known.values().map(|seen| seen.bytes).sum();
        Tracker { workspace, watch, known, lately: VecDeque::new(), pending: Touched::default(), ground }
    }

    /// Forgets what happened between two cells: it was not the next cell's doing.
    pub(crate) fn settle(&mut self) {
        let touched = self.watch.take();
        if touched.everything || !touched.paths.is_empty() {
            self.differences(touched);
        }
    }

    /// What changed since the last look.
    pub(crate) fn changes(&mut self) -> FileChanges {
        let mut touched = self.watch.take();
        let pending = std::mem::take(&mut self.pending);
        touched.everything |= pending.everything;
        touched.paths.extend(pending.paths);
        touched.paths.extend(self.lately.iter().cloned());
        self.differences(touched)
    }

    /// Bytes and files that this session added so far. What is seen on the way still counts as this cell's.
    pub(crate) fn added_lately(&mut self) -> (u64, usize) {
        let touched = self.watch.take();
        let mut bytes: u64 = self.known.values().map(|seen| seen.bytes).sum();
        let mut files = self.known.len();
        self.pending.everything |= touched.everything;
        self.pending.paths.extend(touched.paths);
        for path in &self.pending.paths {
            let known = self.known.get(path).map(|seen| seen.bytes);
            let (more, count) = self.workspace.size_of(path);
            bytes = (bytes + more).saturating_sub(known.unwrap_or(0));
            files = (files + count).saturating_sub(usize::from(known.is_some()));
        }
        (bytes.saturating_sub(self.ground), files)
    }

    fn differences(&mut self, touched: Touched) -> FileChanges {
        let mut changes = FileChanges::default();
        if touched.everything {
            let before = std::mem::take(&mut self.known);
            let watch = &self.watch;
            self.workspace.walk(Path::new(""), &mut self.known, &mut |directory| watch.add(directory));
            for (path, seen) in &self.known {
                match before.get(path) {
                    None => push(&mut changes.created, path, seen.bytes),
                    Some(old) if old != seen => push(&mut changes.changed, path, seen.bytes),
                    Some(_) => {}
                }
            }
            for (path, old) in before.iter().filter(|(path, _)| !self.known.contains_key(*path)) {
                push(&mut changes.deleted, path, old.bytes);
            }
            return changes;
        }
        for path in touched.paths {
            self.difference(&path, &mut changes);
        }
        changes
    }

    fn difference(&mut self, path: &Path, changes: &mut FileChanges) {
        if self.workspace.is_directory(path) {
            let mut found = BTreeMap::new();
            let watch = &self.watch;
            self.workspace.walk(path, &mut found, &mut |directory| watch.add(directory));
            for (path, seen) in found {
                self.compare(&path, Some(seen), changes);
            }
            return;
        }
        let seen = self.workspace.look(path);
        self.compare(path, seen, changes);
        if seen.is_none() {
            // It may have been a directory, moved away with all that was in it.
            let inside: Vec<PathBuf> = self.known.range(path.join("")..).map(|(path, _)| path.clone()).take_while(|inner| inner.starts_with(path)).collect();
            for path in inside {
                self.compare(&path, None, changes);
            }
        }
    }

    fn compare(&mut self, path: &Path, seen: Option<Seen>, changes: &mut FileChanges) {
        match (self.known.get(path).copied(), seen) {
            (None, Some(new)) => push(&mut changes.created, path, new.bytes),
            (Some(old), Some(new)) if old != new => push(&mut changes.changed, path, new.bytes),
            (Some(old), None) => push(&mut changes.deleted, path, old.bytes),
            _ => return,
        }
        match seen {
            Some(new) => {
                self.known.insert(path.to_owned(), new);
                self.lately.retain(|other| other != path);
                self.lately.push_back(path.to_owned());
                if self.lately.len() > LATELY {
                    self.lately.pop_front();
                }
            }
            None => {
                self.known.remove(path);
            }
        }
    }
}

fn push(list: &mut Vec<FileChange>, path: &Path, bytes: u64) {
    if list.len() < MOST_CHANGES {
        let path = path.to_string_lossy().into_owned();
        list.push(FileChange { mime: mime_of(&path).to_owned(), path, bytes });
    }
}

fn file_error(path: &str, source: io::Error) -> Error {
    // What openat2 says of a link that leads out is a riddle.
    let source = match source.raw_os_error() {
        Some(18) => io::Error::new(io::ErrorKind::PermissionDenied, "it leads out of the workspace"),
        _ => source,
    };
    Error::File { path: path.to_owned(), source }
}

fn check_writable(path: &Path) -> io::Result<()> {
    let draft = path.join(format!(".cellblock-{}", std::process::id()));
    fs::write(&draft, [0; 512])?;
    fs::remove_file(&draft)
}

/// The session's id, when it began, and who made it: two processes may both have a session `default`.
fn unique_name(session: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{session}-{}-{:x}", now.as_secs(), now.subsec_nanos() ^ std::process::id())
}
