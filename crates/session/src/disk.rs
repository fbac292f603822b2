//! What a session does to its files and takes on disk. What may take long is looked at on a thread of its own, for the threads
//! that serve sessions serve all of them.

use crate::tracker::{Changes, Tracker};
use crate::verdict::LimitHit;
use cellblock_sandbox::SessionProcesses;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};

/// Inodes are a resource as well. Who may write much may write many.
const MOST_FILES: u64 = 100_000;
const BYTES_FOR_A_FILE: u64 = 16 << 10;

/// The files of one session.
#[derive(Debug)]
pub(crate) struct Disk {
    began_empty: bool,
    tracker: Arc<Mutex<Tracker>>,
    processes: Arc<Processes>,
    search: Option<JoinHandle<()>>,
}

/// What a session added to the disk since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) bytes: u64,
    pub(crate) files: usize,
    /// More is there than is looked at, so that nobody knows how much it is.
    pub(crate) beyond: bool,
    /// Something was touched that is not there: it may be open, without a name.
    pub(crate) vanished: bool,
}

/// A session seen from outside while its cell runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) added: Added,
    /// How much of the processor its processes have used.
    pub(crate) processor: Duration,
}

impl Added {
    /// The limit that this is over; `None` as a limit means that there is none.
    pub(crate) fn over(self, limit: Option<u64>) -> Option<LimitHit> {
        let limit = limit?;
        let most_files = MOST_FILES.max(limit / BYTES_FOR_A_FILE) as usize;
        if self.bytes > limit {
            Some(LimitHit::Disk { limit })
        } else if self.files > most_files {
            Some(LimitHit::Files { limit: most_files })
        } else if self.beyond {
            Some(LimitHit::TooDeep)
        } else {
            None
        }
    }
}

impl Disk {
    pub(crate) fn new(tracker: Tracker, processes: Processes) -> Disk {
        Disk {
            began_empty: tracker.known().is_empty(),
            tracker: Arc::new(Mutex::new(tracker)),
            processes: Arc::new(processes),
            search: None,
        }
    }

    /// The session has other processes from now on.
    pub(crate) fn move_to(&mut self, processes: Processes) {
        self.processes = Arc::new(processes);
    }

    /// Whether there was nothing in the workspace when the session began.
    pub(crate) fn began_empty(&self) -> bool {
        self.began_empty
    }

    /// Begins to look at everything, files without a name as well.
    pub(crate) fn look(&self) -> JoinHandle<Look> {
        let (tracker, processes) = (Arc::clone(&self.tracker), Arc::clone(&self.processes));
        spawn_blocking(move || {
            let (mut added, device) = {
                let mut tracker = tracker.lock().unwrap_or_else(PoisonError::into_inner);
                (tracker.added(), tracker.device())
            };
            let mut processor = Duration::ZERO;
            if let Some(processes) = processes.find() {
                added.bytes = added.bytes.saturating_add(processes.nameless_bytes(device));
                processor = processes.processor_time();
            }
            Look { added, processor }
        })
    }

    /// Looks once more when a cell has ended: at its files, and at those without a name only if it may have made some.
    pub(crate) async fn look_at_end(&self) -> Added {
        match self.quickly(Tracker::added) {
            Some(added) if !added.vanished => added,
            _ => self.look().await.unwrap_or_default().added,
        }
    }

    /// Bytes of memory that the session's processes hold beyond the head with this id inside.
    pub(crate) async fn memory_beyond(&self, head: u32) -> Option<u64> {
        let processes = Arc::clone(&self.processes);
        let work = move || processes.find()?.memory_beyond(head);
        spawn_blocking(work).await.ok().flatten()
    }

    /// The processes of the fork that this session made last. They are looked for in the background; until the search is over,
    /// which [`has_found_fork`](Disk::has_found_fork) waits for, there must be no other fork.
    pub(crate) fn youngest_fork(&mut self) -> Processes {
        let parents = Arc::clone(&self.processes);
        let found = Arc::new(OnceLock::new());
        let result = Arc::clone(&found);
        self.search = Some(spawn_blocking(move || {
            let _ = result.set(parents.find().and_then(SessionProcesses::youngest_fork));
        }));
        Processes {
            seek: Seek::Nowhere,
            found,
        }
    }

    /// Whose open files must not be shared with a fork.
    pub(crate) fn processes(&self) -> Arc<Processes> {
        Arc::clone(&self.processes)
    }

    /// Waits until the processes of the last fork were found, or not.
    pub(crate) async fn has_found_fork(&mut self) {
        if let Some(search) = self.search.take() {
            let _ = search.await;
        }
    }

    /// What the cell that just ended changed.
    pub(crate) async fn changes(&self) -> Changes {
        self.with_tracker(Tracker::changes).await
    }

    /// What happened between two cells: it was not the next cell's doing.
    pub(crate) async fn settle(&self) -> Changes {
        self.with_tracker(Tracker::settle).await
    }

    async fn with_tracker(&self, work: fn(&mut Tracker) -> Changes) -> Changes {
        if let Some(changes) = self.quickly(work) {
            return changes;
        }
        let tracker = Arc::clone(&self.tracker);
        let work = move || work(&mut tracker.lock().unwrap_or_else(PoisonError::into_inner));
        spawn_blocking(work).await.unwrap_or_default()
    }

    /// Does the work here and now, if it is little.
    fn quickly<T>(&self, work: fn(&mut Tracker) -> T) -> Option<T> {
        let mut tracker = match self.tracker.try_lock() {
            Ok(tracker) => tracker,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        tracker.has_little_to_do().then(|| work(&mut tracker))
    }
}

/// The session's processes, found when they are first needed: most cells end before that.
#[derive(Debug)]
pub(crate) struct Processes {
    seek: Seek,
    found: Arc<OnceLock<Option<SessionProcesses>>>,
}

/// Where to look for them.
#[derive(Debug)]
enum Seek {
    /// Below the launcher with this id: the init with that one.
    Below { launcher: u32, init: u32 },
    /// Someone else looks for them.
    Nowhere,
}

impl Processes {
    /// Those of the session whose init has the id `init` where the launcher lives.
    pub(crate) fn of(launcher: u32, init: u32) -> Processes {
        Processes {
            seek: Seek::Below { launcher, init },
            found: Arc::default(),
        }
    }

    /// The inodes of all files on this file system that they have open or map shared, if that can be told.
    pub(crate) fn held_files(&self, device: u64) -> Option<HashSet<u64>> {
        self.find()?.held_files(device)
    }

    /// Those of a container whose first process has this id here, if it has one.
    pub(crate) fn of_container(first: Option<u32>) -> Processes {
        Processes {
            seek: Seek::Nowhere,
            found: Arc::new(OnceLock::from(first.map(SessionProcesses::below))),
        }
    }

    fn find(&self) -> Option<SessionProcesses> {
        match self.seek {
            Seek::Below { launcher, init } => *self
                .found
                .get_or_init(|| SessionProcesses::find(launcher, init)),
            Seek::Nowhere => self.found.get().copied().flatten(),
        }
    }
}
