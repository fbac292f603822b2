//! Watches of directories that a session sees: what is made, written to, renamed and removed there.
//!
//! The kernel tells the host (inotify), so nothing runs in the session for it, and a change that is taken back at once is told too. The
//! watch is of a **path**: a directory that a cell removes and an undo brings back is watched again. What an undo or a restore changes in the
//! files is told like any other change.

use super::layout::PathAccess;
use super::{Paths, blocking};
use crate::files::watch::{ChangeListener, Recorded, RecordedChange, RecordedKind, Watch};
use crate::session::Session;
use crate::{Error, Refusal};
use cellblock_protocol::{WatchedChange, WatchedChangeKind};
use cellblock_sandbox::{Confined, Links};
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The most watches of one session.
pub const MAX_WATCHES: usize = 64;
/// The most directories of one watch. Beyond them changes are missing, which is told.
const MAX_DIRECTORIES: usize = 4096;
/// The most changes of one answer that a look at new directories adds.
const MAX_FOUND: usize = 10_000;
/// The directories that are opened at once.
const DIRECTORIES_AT_ONCE: usize = 64;
/// How often new directories are looked into for one answer. Code can make new ones all the time.
const MAX_ROUNDS: u32 = 4;
/// How long the second half of a rename is waited for. The kernel tells both at once, but they may be read apart.
const RENAME_PAIR_DELAY: Duration = Duration::from_millis(5);
/// How often a directory is looked for that is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Whether the directories below a watched one are watched, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Below {
    /// The directory alone.
    #[default]
    NotWatched,
    /// All directories below it, also those that are made later.
    Watched,
}

/// A watched directory of a session. Dropping it ends the watch; it keeps the session's handle, so close the session, or drop this.
#[derive(Debug)]
pub struct PathWatch {
    session: Session,
    /// The path, as code of the session knows it.
    root: String,
    below: Below,
    watch: Watch,
    listener: ChangeListener,
    is_root_there: bool,
    /// Whether there were more directories than are watched.
    is_full: bool,
    /// Counts the watches of the session.
    _counted: Arc<()>,
}

impl Paths<'_> {
    /// Watches a directory from now on.
    pub async fn watch(&self, path: &str, below: Below) -> Result<PathWatch, Error> {
        let shared = &self.session.shared;
        let counted = Arc::clone(&shared.watches);
        // One is the session's own, and one that of this watch.
        if Arc::strong_count(&counted) > MAX_WATCHES + 1 {
            return Err(Refusal::TooManyWatches { max: MAX_WATCHES }.into());
        }
        let watch = shared.base.watcher.record();
        let root = match path.trim_end_matches('/') {
            "" => "/",
            root => root,
        };
        let mut watch = PathWatch {
            session: self.session.clone(),
            root: root.to_owned(),
            below,
            listener: watch.listener(),
            watch,
            is_root_there: true,
            is_full: false,
            _counted: counted,
        };
        watch.look_into(PathBuf::new(), Contents::Known).await?;
        if watch.listener.is_blind() && watch.watch.directories() == 0 {
            return Err(Error::System {
                what: "watching a directory",
                source: std::io::Error::other("the system allows no more watches (inotify)"),
            });
        }
        Ok(watch)
    }
}

impl PathWatch {
    /// The path of the directory, as code of the session knows it.
    pub fn path(&self) -> &str {
        &self.root
    }

    /// Waits for changes; `None` when the session has ended.
    pub async fn next(&mut self) -> Option<Vec<WatchedChange>> {
        loop {
            tokio::select! {
                () = self.session.commands.closed() => return None,
                () = self.listener.wait_for_change() => {}
                () = tokio::time::sleep(LOOK_INTERVAL), if !self.is_root_there => {}
            }
            let changes = self.take().await;
            if !changes.is_empty() {
                return Some(changes);
            }
        }
    }

    /// The changes since the last call, without waiting for any.
    pub async fn take(&mut self) -> Vec<WatchedChange> {
        let root = self.root.clone();
        let mut told = ReportedChanges::new(&root);
        self.look_for_root(&mut told).await;
        for _ in 0..MAX_ROUNDS {
            let recorded = self.take_recorded().await;
            if recorded.is_nothing() {
                break;
            }
            if recorded.is_root_gone && self.is_root_there {
                self.is_root_there = false;
                told.push(WatchedChangeKind::Remove, Path::new(""), None);
            }
            let new_directories = told.add(recorded.changes);
            self.look_into_all(new_directories, &mut told).await;
            if recorded.is_incomplete {
                told.push(WatchedChangeKind::Lost, Path::new(""), None);
                self.look_again().await;
            }
            self.look_for_root(&mut told).await;
        }
        told.changes
    }

    /// What the kernel told, with both halves of each rename.
    async fn take_recorded(&self) -> Recorded {
        let mut recorded = self.watch.take_recorded();
        if has_unpaired_rename(&recorded.changes) {
            tokio::time::sleep(RENAME_PAIR_DELAY).await;
            let later = self.watch.take_recorded();
            recorded.changes.extend(later.changes);
            recorded.is_incomplete |= later.is_incomplete;
            recorded.is_root_gone |= later.is_root_gone;
        }
        recorded
    }

    /// Watches the directory again when it is back.
    async fn look_for_root(&mut self, told: &mut ReportedChanges<'_>) {
        if self.is_root_there {
            return;
        }
        if let Ok(found) = self.look_into(PathBuf::new(), Contents::New).await {
            self.is_root_there = true;
            told.push(WatchedChangeKind::Create, Path::new(""), None);
            told.add_found(found);
        }
    }

    async fn look_into_all(
        &mut self,
        directories: Vec<NewDirectory>,
        told: &mut ReportedChanges<'_>,
    ) {
        if self.below == Below::NotWatched {
            return;
        }
        for NewDirectory { path, contents } in directories {
            // A directory that is gone again has nothing to tell.
            let found = self.look_into(path, contents).await.unwrap_or_default();
            told.add_found(found);
        }
    }

    /// Watches all directories: among the changes that were lost may have been new ones.
    async fn look_again(&mut self) {
        // Where there is no room for more, a look would only say so once more.
        if self.is_root_there && !self.is_full && !self.listener.is_blind() {
            let _ = self.look_into(PathBuf::new(), Contents::Known).await;
        }
    }

    /// Watches a directory, and those below it if that is wanted. Returns what is in them, if that is new.
    async fn look_into(
        &mut self,
        directory: PathBuf,
        contents: Contents,
    ) -> Result<Vec<FoundEntry>, Error> {
        let mut found = Vec::new();
        let mut waiting = VecDeque::from([directory.clone()]);
        while !waiting.is_empty() && self.watch.directories() < MAX_DIRECTORIES {
            let next: Vec<PathBuf> = waiting
                .drain(..waiting.len().min(DIRECTORIES_AT_ONCE))
                .collect();
            let is_first = next.first() == Some(&directory);
            let opened = self.open(next).await?;
            if is_first && opened.is_empty() {
                let gone = std::io::ErrorKind::NotADirectory;
                return Err(Error::path(&self.root, gone.into()));
            }
            for (path, opened) in opened {
                // Watched first, then read: an entry that is made in between is told by the kernel, too.
                self.watch.add(&path, opened.as_fd());
                let entries = blocking(&self.root, move || entries_of(&opened, contents)).await;
                for mut entry in entries.unwrap_or_default() {
                    entry.path = path.join(entry.path);
                    if entry.kind == EntryKind::Directory && self.below == Below::Watched {
                        waiting.push_back(entry.path.clone());
                    }
                    if contents == Contents::New && found.len() < MAX_FOUND {
                        found.push(entry);
                    }
                }
            }
        }
        if !waiting.is_empty() && !self.is_full {
            self.is_full = true;
            self.watch.note_incomplete();
        }
        Ok(found)
    }

    /// Opens directories as the session's user. Those that cannot be opened are left out.
    async fn open(&self, directories: Vec<PathBuf>) -> Result<Vec<(PathBuf, File)>, Error> {
        let open = move |place: &Confined, root: &Path| {
            let found = place.find(root, Links::AreFollowedInside)?;
            // Links below the root are not followed, so its own path must have none.
            let root = place.place_of(&found)?;
            let open = |directory: PathBuf| {
                let path = match directory.as_os_str().is_empty() {
                    true => root.clone(),
                    false => root.join(&directory),
                };
                let entry = place.find(&path, Links::AreNotFollowed).ok()?;
                Some((directory, entry.read_directory().ok()?))
            };
            Ok(directories.into_iter().filter_map(open).collect())
        };
        self.session
            .paths()
            .work(&self.root, PathAccess::Read, open)
            .await
    }
}

/// A directory that came to be, or came from elsewhere.
struct NewDirectory {
    path: PathBuf,
    contents: Contents,
}

/// Whether what is in a directory is new to the watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    New,
    Known,
}

/// An entry that a look into a directory found.
struct FoundEntry {
    path: PathBuf,
    kind: EntryKind,
}

/// What an entry is to a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Directory,
    /// A file with bytes in it, so it was written to. Told apart from an empty one in new directories alone.
    WrittenFile,
    Other,
}

/// The changes of one answer.
struct ReportedChanges<'a> {
    root: &'a str,
    changes: Vec<WatchedChange>,
    /// Entries of new directories that were found there, and will be told by the kernel too.
    found: HashSet<PathBuf>,
}

impl ReportedChanges<'_> {
    fn new(root: &str) -> ReportedChanges<'_> {
        ReportedChanges {
            root,
            changes: Vec::new(),
            found: HashSet::new(),
        }
    }

    fn push(&mut self, kind: WatchedChangeKind, path: &Path, to: Option<&Path>) {
        let shown = |path: &Path| {
            let root = Path::new(self.root);
            let full = match path.as_os_str().is_empty() {
                true => root.to_owned(),
                false => root.join(path),
            };
            full.to_string_lossy().into_owned()
        };
        self.changes.push(WatchedChange {
            path: shown(path),
            kind,
            to: to.map(shown),
        });
    }

    /// Tells of what is in a new directory. The kernel told nothing of what was written before the directory was watched.
    fn add_found(&mut self, found: Vec<FoundEntry>) {
        for FoundEntry { path, kind } in found.into_iter().filter(|entry| !is_ours(&entry.path)) {
            if self.found.insert(path.clone()) {
                self.push(WatchedChangeKind::Create, &path, None);
                if kind == EntryKind::WrittenFile {
                    self.push(WatchedChangeKind::Write, &path, None);
                }
            }
        }
    }

    /// Tells of what the kernel told. Returns the directories that are new.
    fn add(&mut self, changes: Vec<RecordedChange>) -> Vec<NewDirectory> {
        let mut directories = Vec::new();
        let mut is_taken = vec![false; changes.len()];
        let second_halves = second_halves(&changes);
        for (index, change) in changes.iter().enumerate() {
            if is_taken[index] {
                continue;
            }
            let path = &change.path;
            match change.kind {
                _ if is_ours(path) && !matches!(change.kind, RecordedKind::MovedFrom(_)) => {}
                RecordedKind::Created => {
                    if !self.found.remove(path) {
                        self.push(WatchedChangeKind::Create, path, None);
                    }
                    if change.is_directory {
                        let contents = Contents::New;
                        directories.push(NewDirectory {
                            path: path.clone(),
                            contents,
                        });
                    }
                }
                RecordedKind::Written => self.push(WatchedChangeKind::Write, path, None),
                RecordedKind::Attributes => self.push(WatchedChangeKind::Attributes, path, None),
                RecordedKind::Removed => {
                    self.found.remove(path);
                    self.push(WatchedChangeKind::Remove, path, None);
                }
                RecordedKind::MovedFrom(cookie) => {
                    self.found.remove(path);
                    let second = second_halves.get(&cookie).copied();
                    let Some(second) = second.filter(|second| *second > index) else {
                        if !is_ours(path) {
                            self.push(WatchedChangeKind::Remove, path, None);
                        }
                        continue;
                    };
                    is_taken[second] = true;
                    let to = &changes[second].path;
                    // The host puts a file in place under a name of its own first.
                    match is_ours(path) {
                        true => self.push(WatchedChangeKind::Write, to, None),
                        false => self.push(WatchedChangeKind::Rename, path, Some(to)),
                    }
                    if change.is_directory {
                        let contents = Contents::Known;
                        directories.push(NewDirectory {
                            path: to.clone(),
                            contents,
                        });
                    }
                }
                RecordedKind::MovedTo(_) => {
                    self.push(WatchedChangeKind::Create, path, None);
                    if change.is_directory {
                        let contents = Contents::New;
                        directories.push(NewDirectory {
                            path: path.clone(),
                            contents,
                        });
                    }
                }
            }
        }
        directories
    }
}

/// Whether the first half of a rename is there without the second.
fn has_unpaired_rename(changes: &[RecordedChange]) -> bool {
    let second_halves = second_halves(changes);
    changes.iter().any(|change| match change.kind {
        RecordedKind::MovedFrom(cookie) => !second_halves.contains_key(&cookie),
        _ => false,
    })
}

/// The second halves of renames, by the number of the rename.
fn second_halves(changes: &[RecordedChange]) -> HashMap<u32, usize> {
    let second = |(index, change): (usize, &RecordedChange)| match change.kind {
        RecordedKind::MovedTo(cookie) => Some((cookie, index)),
        _ => None,
    };
    changes.iter().enumerate().filter_map(second).collect()
}

/// Whether an entry has a name that the host uses while it puts a file in place.
fn is_ours(path: &Path) -> bool {
    const PREFIX: &[u8] = b".cellblock-";
    const HEX_DIGITS: usize = 32;
    let name = path.file_name().map_or(&b""[..], OsStr::as_bytes);
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.len() == HEX_DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

/// What is in a directory, by name. Files are asked for their size where the contents are new.
fn entries_of(directory: &File, contents: Contents) -> std::io::Result<Vec<FoundEntry>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if found.len() >= MAX_FOUND {
            break;
        }
        let kind = match (entry.file_type(), contents) {
            (FileType::Directory, _) => EntryKind::Directory,
            (FileType::Unknown, _) | (FileType::RegularFile, Contents::New) => {
                statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(EntryKind::Other, |stat| kind_of(&stat))
            }
            _ => EntryKind::Other,
        };
        found.push(FoundEntry {
            path: PathBuf::from(name),
            kind,
        });
    }
    Ok(found)
}

fn kind_of(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryKind::Directory,
        FileType::RegularFile if stat.st_size > 0 => EntryKind::WrittenFile,
        _ => EntryKind::Other,
    }
}
