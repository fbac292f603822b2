//! The files of a workspace that were touched, by inotify: one instance for all sessions.
//!
//! The kernel allows a user 128 instances, but very many watches; so everyone shares one. Events are in the queue as soon as the
//! call that caused them returns, so reading the queue after a cell finds all of them.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
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
/// Touched paths that wait to be looked at; past this, everything is looked at instead.
const MAX_TOUCHED: usize = 20_000;

/// How long the queue is left alone after it was read for those who wait for news: files are often written in one go.
const PAUSE: Duration = Duration::from_millis(2);

/// The one instance.
#[derive(Debug)]
pub(crate) struct Watcher {
    state: Mutex<State>,
    /// Reads the queue as soon as something is in it, so that those who wait for news hear of it.
    reading: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    instance: Option<OwnedFd>,
    next_tree: u64,
    /// The directories of a watch: of one tree, or of several sessions on one directory.
    watches: HashMap<i32, Vec<(u64, PathBuf)>>,
    trees: HashMap<u64, Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    touched: Touched,
    watches: usize,
    /// Some directory could not be watched: whatever happens there is not told.
    blind: bool,
    news: Arc<Notify>,
}

/// The paths that were touched since the last query, relative to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Directories that have other attributes now: what is in them is as it was.
    pub(crate) marked: BTreeSet<PathBuf>,
    /// Directories may be among them.
    pub(crate) directories: bool,
    /// Events were lost, or watches are not to be had: everything may have changed.
    pub(crate) everything: bool,
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
        let state = State {
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
        let mut state = self.lock();
        let tree = state.next_tree;
        state.next_tree += 1;
        state.trees.insert(tree, Tree::default());
        Watch {
            watcher: Arc::clone(self),
            tree,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Adds a directory of the tree, known by its path there and by its descriptor.
    pub(crate) fn add(&self, path: &Path, directory: BorrowedFd<'_>) {
        self.watcher.lock().add(self.tree, path, directory);
    }

    /// Tells when something happens in the tree.
    pub(crate) fn listener(&self) -> Listener {
        let trees = &self.watcher.lock().trees;
        let news = trees.get(&self.tree).map(|tree| Arc::clone(&tree.news));
        Listener {
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
    pub(crate) fn take(&self) -> Touched {
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
}

/// Waits for news of a tree, without taking them.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    watcher: Arc<Watcher>,
    tree: u64,
    news: Arc<Notify>,
}

impl Listener {
    /// Returns when something was touched that was not queried yet.
    pub(crate) async fn disturbed(&self) {
        loop {
            let news = self.news.notified();
            if self.watcher.lock().has_news(self.tree) {
                return;
            }
            news.await;
        }
    }

    /// Whether there are places in the tree of which nothing is heard.
    pub(crate) fn is_blind(&self) -> bool {
        let state = self.watcher.lock();
        state.instance.is_none() || state.trees.get(&self.tree).is_some_and(|tree| tree.blind)
    }
}

/// The task that reads the queue; none where there is no runtime, as in some tests.
fn read_always(state: &State, watcher: &Weak<Watcher>) -> Option<JoinHandle<()>> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
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
        state.trees.remove(&self.tree);
        let State {
            instance, watches, ..
        } = &mut *state;
        watches.retain(|watch, places| {
            places.retain(|(tree, _)| *tree != self.tree);
            if places.is_empty()
                && let Some(instance) = instance
            {
                let _ = inotify::remove_watch(&*instance, *watch);
            }
            !places.is_empty()
        });
    }
}

impl Touched {
    fn note(&mut self, directory: &Path, name: &OsStr, what: What) {
        if self.paths.len() + self.marked.len() >= MAX_TOUCHED {
            self.look_at_everything();
        }
        self.directories |= what == What::Directory;
        if !self.everything {
            let paths = match what {
                What::DirectoryItself => &mut self.marked,
                What::Directory | What::File => &mut self.paths,
            };
            paths.insert(directory.join(name));
        }
    }

    fn look_at_everything(&mut self) {
        self.everything = true;
        self.paths.clear();
        self.marked.clear();
    }

    fn is_nothing(&self) -> bool {
        !self.everything && self.paths.is_empty() && self.marked.is_empty()
    }

    /// Takes in what was touched later.
    pub(crate) fn add(&mut self, later: Touched) {
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
enum What {
    File,
    /// A directory with all that is in it.
    Directory,
    /// A directory, but not what is in it.
    DirectoryItself,
}

impl State {
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
        tree.is_some_and(|tree| !tree.touched.is_nothing())
    }

    fn read_events(&mut self) {
        let Some(instance) = &self.instance else {
            self.trees
                .values_mut()
                .for_each(|tree| tree.touched.everything = true);
            return;
        };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(instance, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                for tree in self.trees.values_mut() {
                    tree.touched.everything = true;
                    tree.news.notify_waiters();
                }
                continue;
            }
            let is = |flag| event.events().contains(flag);
            if is(ReadFlags::IGNORED) {
                for (tree, _) in self.watches.remove(&event.wd()).unwrap_or_default() {
                    if let Some(tree) = self.trees.get_mut(&tree) {
                        tree.watches -= 1;
                    }
                }
                continue;
            }
            let Some(name) = event.file_name() else {
                continue;
            };
            let what = match (is(ReadFlags::ISDIR), is(ReadFlags::ATTRIB)) {
                (true, true) => What::DirectoryItself,
                (true, false) => What::Directory,
                (false, _) => What::File,
            };
            let name = OsStr::from_bytes(name.to_bytes());
            for (tree, directory) in self.watches.get(&event.wd()).into_iter().flatten() {
                if let Some(tree) = self.trees.get_mut(tree) {
                    tree.touched.note(directory, name, what);
                    tree.news.notify_waiters();
                }
            }
        }
    }
}
