//! Which files of a workspace were touched: inotify, one instance for all sessions.
//!
//! The kernel allows a user 128 instances, but very many watches; so everyone shares one. Events are in the queue as soon as the
//! call that caused them returns, so reading the queue after a cell finds all of them.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The one instance.
#[derive(Debug)]
pub(crate) struct Watcher {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    instance: Option<OwnedFd>,
    next_tree: u64,
    /// Which directory of which tree a watch is for.
    watches: HashMap<i32, (u64, PathBuf)>,
    trees: HashMap<u64, Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    root: PathBuf,
    touched: Touched,
}

/// What was touched since the last time someone asked. Paths are relative to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) paths: BTreeSet<PathBuf>,
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
        Arc::new(Watcher {
            state: Mutex::new(state),
        })
    }

    /// Watches `root` with all its directories.
    pub(crate) fn watch(self: &Arc<Self>, root: &Path) -> Watch {
        let mut state = self.lock();
        let tree = state.next_tree;
        state.next_tree += 1;
        state.trees.insert(
            tree,
            Tree {
                root: root.to_owned(),
                touched: Touched::default(),
            },
        );
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
    /// Adds a directory of the tree.
    pub(crate) fn add(&self, directory: &Path) {
        self.watcher.lock().add(self.tree, directory);
    }

    /// What was touched since the last call.
    pub(crate) fn take(&self) -> Touched {
        let mut state = self.watcher.lock();
        state.read_events();
        state
            .trees
            .get_mut(&self.tree)
            .map(|tree| std::mem::take(&mut tree.touched))
            .unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.watcher.lock();
        state.trees.remove(&self.tree);
        let State {
            instance, watches, ..
        } = &mut *state;
        watches.retain(|watch, (tree, _)| {
            let other = *tree != self.tree;
            if !other && let Some(instance) = instance {
                let _ = inotify::remove_watch(&*instance, *watch);
            }
            other
        });
    }
}

impl State {
    fn add(&mut self, tree: u64, directory: &Path) {
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
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        let added = self.instance.as_ref().and_then(|instance| {
            inotify::add_watch(instance, entry.root.join(directory), wanted).ok()
        });
        match added {
            Some(watch) => {
                self.watches.insert(watch, (tree, directory.to_owned()));
            }
            None => entry.touched.everything = true,
        }
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
                self.trees
                    .values_mut()
                    .for_each(|tree| tree.touched.everything = true);
                continue;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                self.watches.remove(&event.wd());
                continue;
            }
            let Some((tree, directory)) = self.watches.get(&event.wd()) else {
                continue;
            };
            let (Some(tree), Some(name)) = (self.trees.get_mut(tree), event.file_name()) else {
                continue;
            };
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            tree.touched.paths.insert(path);
        }
    }
}
