//! The files of a workspace that were touched, by inotify: one instance for all sessions.
//!
//! The kernel allows a user 128 instances, but very many watches; so everyone shares one. Events are in the queue as soon as the
//! call that caused them returns, so reading the queue after a cell finds all of them.

mod changes;

pub(crate) use changes::{ChangedPaths, Recorded, RecordedChange, RecordedKind};

use crate::files::watch_runtime::watch_runtime;
use changes::{WatchSubject, recorded_kind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::ioctl_fionread;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A watch costs about a kilobyte of the kernel's memory, and each user has only so many.
const MAX_WATCHES: usize = 10_000;

/// How long the queue is left alone after it was read for those who wait for news: files are often written in one go.
const PAUSE: Duration = Duration::from_millis(2);

/// The one instance.
#[derive(Debug)]
pub(crate) struct Watcher {
    state: Mutex<WatcherState>,
    /// Reads the queue as soon as something is in it, so that those who wait for news hear of it.
    reading: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct WatcherState {
    instance: Option<OwnedFd>,
    next_tree: u64,
    /// The directories of a watch: of one tree, or of several sessions on one directory.
    watches: HashMap<i32, Vec<(u64, PathBuf)>>,
    trees: HashMap<u64, Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    touched: ChangedPaths,
    watches: usize,
    /// Some directory could not be watched: whatever happens there is not told.
    blind: bool,
    news: Arc<Notify>,
    /// Each change in order, for a tree whose watch records them. Such a tree notes no touched paths.
    recorded: Option<Recorded>,
}

/// A watched directory tree. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watch {
    watcher: Arc<Watcher>,
    tree: u64,
}

impl Watcher {
    pub(crate) fn new() -> Arc<Watcher> {
        let instance = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let state = WatcherState {
            instance,
            next_tree: 1,
            watches: HashMap::new(),
            trees: HashMap::new(),
        };
        Arc::new_cyclic(|watcher| Watcher {
            reading: read_always(&state, watcher),
            state: Mutex::new(state),
        })
    }

    /// Begins to watch a tree, whose directories are then added.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        self.insert(Tree::default())
    }

    /// Begins to watch a tree whose changes are recorded one by one.
    pub(crate) fn record(self: &Arc<Self>) -> Watch {
        self.insert(Tree {
            recorded: Some(Recorded::default()),
            ..Tree::default()
        })
    }

    fn insert(self: &Arc<Self>, new: Tree) -> Watch {
        let mut state = self.lock();
        let tree = state.next_tree;
        state.next_tree += 1;
        state.trees.insert(tree, new);
        Watch {
            watcher: Arc::clone(self),
            tree,
        }
    }

    fn lock(&self) -> MutexGuard<'_, WatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Adds a directory of the tree, known by its path there and by its descriptor.
    pub(crate) fn add(&self, path: &Path, directory: BorrowedFd<'_>) {
        self.watcher.lock().add(self.tree, path, directory);
    }

    /// The watcher that this watch is of.
    pub(crate) fn watcher(&self) -> Arc<Watcher> {
        Arc::clone(&self.watcher)
    }

    /// Tells when something happens in the tree.
    pub(crate) fn listener(&self) -> ChangeListener {
        let trees = &self.watcher.lock().trees;
        let news = trees.get(&self.tree).map(|tree| Arc::clone(&tree.news));
        ChangeListener {
            watcher: Arc::clone(&self.watcher),
            tree: self.tree,
            news: news.unwrap_or_default(),
        }
    }

    /// From here on all directories are added once more.
    pub(crate) fn begin_anew(&self) {
        if let Some(tree) = self.watcher.lock().trees.get_mut(&self.tree) {
            tree.blind = false;
        }
    }

    /// Takes the paths that were touched since the last call.
    pub(crate) fn take(&self) -> ChangedPaths {
        let mut state = self.watcher.lock();
        state.read_events();
        state
            .trees
            .get_mut(&self.tree)
            .map(|tree| {
                let mut touched = std::mem::take(&mut tree.touched);
                touched.everything |= tree.blind;
                touched
            })
            .unwrap_or_default()
    }

    /// Takes the changes that were recorded since the last call.
    pub(crate) fn take_recorded(&self) -> Recorded {
        let mut state = self.watcher.lock();
        state.read_events();
        let recorded = state
            .trees
            .get_mut(&self.tree)
            .and_then(|tree| tree.recorded.as_mut());
        recorded.map(std::mem::take).unwrap_or_default()
    }

    /// Notes that changes will be missing.
    pub(crate) fn note_incomplete(&self) {
        let mut state = self.watcher.lock();
        if let Some(tree) = state.trees.get_mut(&self.tree)
            && let Some(recorded) = &mut tree.recorded
        {
            recorded.is_incomplete = true;
        }
    }

    /// The number of directories that are watched.
    pub(crate) fn directories(&self) -> usize {
        let state = self.watcher.lock();
        state.trees.get(&self.tree).map_or(0, |tree| tree.watches)
    }
}

/// Waits for news of a tree, without taking them.
#[derive(Clone, Debug)]
pub(crate) struct ChangeListener {
    watcher: Arc<Watcher>,
    tree: u64,
    news: Arc<Notify>,
}

impl ChangeListener {
    /// Returns when something was touched that was not queried yet.
    pub(crate) async fn wait_for_change(&self) {
        loop {
            let news = self.news.notified();
            if self.watcher.lock().has_news(self.tree) {
                return;
            }
            news.await;
        }
    }

    /// Whether more was touched than is remembered.
    pub(crate) fn has_lost_paths(&self) -> bool {
        let state = self.watcher.lock();
        let tree = state.trees.get(&self.tree);
        tree.is_some_and(|tree| tree.touched.everything)
    }

    /// Whether there are places in the tree of which nothing is heard.
    pub(crate) fn is_blind(&self) -> bool {
        let state = self.watcher.lock();
        state.instance.is_none() || state.trees.get(&self.tree).is_some_and(|tree| tree.blind)
    }
}

/// The task that reads the queue; none where there is no runtime, as in some tests.
fn read_always(state: &WatcherState, watcher: &Weak<Watcher>) -> Option<JoinHandle<()>> {
    tokio::runtime::Handle::try_current().ok()?;
    let runtime = watch_runtime();
    // The queue is registered with the runtime that waits for it.
    let _inside = runtime.enter();
    let queue = state.instance.as_ref()?.try_clone().ok()?;
    let queue = cellblock_sandbox::async_fd(queue).ok()?;
    let watcher = Weak::clone(watcher);
    Some(runtime.spawn(async move {
        while let Ok(mut filled) = queue.readable().await {
            let Some(watcher) = watcher.upgrade() else {
                return;
            };
            // Before the queue is read: what comes meanwhile is told once more.
            filled.clear_ready();
            watcher.lock().read_events();
            drop(watcher);
            tokio::time::sleep(PAUSE).await;
        }
    }))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.watcher.lock();
        state.remove_below(self.tree, Path::new(""));
        state.trees.remove(&self.tree);
    }
}

impl WatcherState {
    /// No longer watches a directory of a tree, nor those below it.
    fn remove_below(&mut self, tree: u64, path: &Path) {
        let mut removed = 0;
        let instance = self.instance.as_ref();
        self.watches.retain(|watch, places| {
            let before = places.len();
            places.retain(|(other, place)| *other != tree || !place.starts_with(path));
            removed += before - places.len();
            if places.is_empty()
                && let Some(instance) = instance
            {
                let _ = inotify::remove_watch(instance, *watch);
            }
            !places.is_empty()
        });
        if let Some(tree) = self.trees.get_mut(&tree) {
            tree.watches = tree.watches.saturating_sub(removed);
        }
    }

    fn add(&mut self, tree: u64, path: &Path, directory: BorrowedFd<'_>) {
        let Some(entry) = self.trees.get_mut(&tree) else {
            return;
        };
        let wanted = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        // The directory that was opened, wherever its path leads by now.
        let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let added = self
            .instance
            .as_ref()
            .filter(|_| entry.watches < MAX_WATCHES)
            .and_then(|instance| inotify::add_watch(instance, itself, wanted).ok());
        let Some(watch) = added else {
            entry.blind = true;
            if let Some(recorded) = &mut entry.recorded {
                recorded.is_incomplete = true;
            }
            entry.news.notify_waiters();
            return;
        };
        // One directory has one watch, however often and by whomever it is added.
        let places = self.watches.entry(watch).or_default();
        match places.iter_mut().find(|(other, _)| *other == tree) {
            Some((_, place)) => *place = path.to_owned(),
            None => {
                places.push((tree, path.to_owned()));
                entry.watches += 1;
            }
        }
    }

    fn has_news(&self, tree: u64) -> bool {
        let tree = self.trees.get(&tree);
        tree.is_some_and(|tree| match &tree.recorded {
            Some(recorded) => !recorded.is_nothing(),
            None => !tree.touched.is_nothing(),
        })
    }

    /// Reads what is in the queue now. What comes meanwhile is left for the next time: code can make events faster than they are read, and the lock
    /// and the thread are those of all sessions.
    fn read_events(&mut self) {
        let Some(instance) = &self.instance else {
            self.trees
                .values_mut()
                .for_each(|tree| tree.touched.everything = true);
            return;
        };
        // Directories of recording trees that are not where they were, by their tree and the number of the rename.
        let mut moved: HashMap<(u64, u32), PathBuf> = HashMap::new();
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(instance, &mut buffer);
        let mut waiting = ioctl_fionread(instance).unwrap_or(0);
        // What the reader has taken from the queue is nowhere else.
        while waiting > 0 || !reader.is_buffer_empty() {
            let Ok(event) = reader.next() else { break };
            waiting = waiting.saturating_sub(bytes_in_queue(event.file_name()));
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                for tree in self.trees.values_mut() {
                    match &mut tree.recorded {
                        Some(recorded) => recorded.is_incomplete = true,
                        None => tree.touched.everything = true,
                    }
                    tree.news.notify_waiters();
                }
                continue;
            }
            let is = |flag| event.events().contains(flag);
            if is(ReadFlags::IGNORED) {
                for (tree, directory) in self.watches.remove(&event.wd()).unwrap_or_default() {
                    if let Some(tree) = self.trees.get_mut(&tree) {
                        tree.watches -= 1;
                        tree.note_end_of(&directory);
                    }
                }
                continue;
            }
            let Some(name) = event.file_name() else {
                if is(ReadFlags::MOVE_SELF) {
                    for (number, directory) in self.watches.get(&event.wd()).into_iter().flatten() {
                        if let Some(tree) = self.trees.get_mut(number)
                            && tree.note_end_of(directory)
                        {
                            moved.insert((*number, 0), PathBuf::new());
                        }
                    }
                }
                continue;
            };
            let what = match (is(ReadFlags::ISDIR), is(ReadFlags::ATTRIB)) {
                (true, true) => WatchSubject::DirectoryItself,
                (true, false) => WatchSubject::Directory,
                (false, _) => WatchSubject::File,
            };
            let name = OsStr::from_bytes(name.to_bytes());
            let kind = recorded_kind(event.events(), event.cookie());
            let mut renamed = Vec::new();
            for (number, directory) in self.watches.get(&event.wd()).into_iter().flatten() {
                let Some(tree) = self.trees.get_mut(number) else {
                    continue;
                };
                match (&mut tree.recorded, kind) {
                    (None, _) => tree.touched.note(directory, name, what),
                    (Some(recorded), Some(kind)) => {
                        let path = directory.join(name);
                        let is_directory = is(ReadFlags::ISDIR);
                        match kind {
                            RecordedKind::MovedFrom(cookie) if is_directory => {
                                moved.insert((*number, cookie), path.clone());
                            }
                            RecordedKind::MovedTo(cookie) if is_directory => {
                                let from = moved.remove(&(*number, cookie));
                                renamed.extend(from.map(|from| (*number, from, path.clone())));
                            }
                            _ => {}
                        }
                        recorded.note(RecordedChange {
                            path,
                            kind,
                            is_directory,
                        });
                    }
                    (Some(_), None) => continue,
                }
                tree.news.notify_waiters();
            }
            for (tree, from, to) in renamed {
                rename_below(&mut self.watches, tree, &from, &to);
            }
        }
        for ((tree, _), path) in moved {
            self.remove_below(tree, &path);
        }
    }
}

/// How many bytes an event takes in the queue: a head, and the name with zeros at its end, which fill it up to the size of a head or several.
fn bytes_in_queue(name: Option<&CStr>) -> u64 {
    const HEAD: usize = 16;
    let name = name.map_or(0, |name| name.count_bytes() + 1);
    (HEAD + name.next_multiple_of(HEAD)) as u64
}

/// Notes the new paths of a directory that was renamed inside of its tree, and of those below it.
fn rename_below(
    watches: &mut HashMap<i32, Vec<(u64, PathBuf)>>,
    tree: u64,
    from: &Path,
    to: &Path,
) {
    for (other, place) in watches.values_mut().flatten() {
        if *other == tree
            && let Ok(below) = place.strip_prefix(from)
        {
            *place = match below.as_os_str().is_empty() {
                true => to.to_owned(),
                false => to.join(below),
            };
        }
    }
}

impl Tree {
    /// Notes that a directory is not watched any more. Returns whether it was the root of a tree whose changes are recorded.
    fn note_end_of(&mut self, directory: &Path) -> bool {
        let Some(recorded) = &mut self.recorded else {
            return false;
        };
        let is_root = directory.as_os_str().is_empty();
        if is_root {
            recorded.is_root_gone = true;
            self.news.notify_waiters();
        }
        is_root
    }
}
