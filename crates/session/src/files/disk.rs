//! What a session does to its files and takes on disk. What may take long is looked at on a thread of its own, for the threads
//! that serve sessions serve all of them.

use crate::actor::exit_status::LimitHit;
use crate::files::disk_guard::{DiskGuard, GuardReport, WatchTarget};
use crate::files::found_processes::Processes;
use crate::files::held_files::{HeldFiles, SeenProcesses};
use crate::files::own::Own;
use crate::files::shared_history::SharedHistory;
use crate::files::tracker::{Changes, Tracker};
use crate::files::unlinked::{UnlinkedFileTracker, WriteCount};
use crate::files::watch::ChangeListener;
use cellblock_protocol::ProcessStatus;
use cellblock_sandbox::{FileSystem, Paused, descriptors_waiting_in};
use std::iter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};

/// The most files of a session with the default disk limit. Inodes are a resource as well; a larger disk limit allows more of them.
const MAX_FILES: u64 = 100_000;
const BYTES_PER_FILE: u64 = 16 << 10;

/// The files of one session.
#[derive(Debug)]
pub(crate) struct Disk {
    began_empty: bool,
    meter: Arc<DiskMeter>,
    guard: DiskGuard,
    history: SharedHistory,
    search: Option<JoinHandle<()>>,
}

/// Looks at what a session takes on disk.
#[derive(Debug)]
pub(crate) struct DiskMeter {
    tracker: Arc<Mutex<Tracker>>,
    /// The session's temporary files, where they are on disk.
    temporary: Option<Arc<Mutex<Tracker>>>,
    listeners: Vec<ChangeListener>,
    processes: Mutex<Arc<Processes>>,
    own: Mutex<Own>,
    seen: Mutex<SeenProcesses>,
    hidden: Mutex<UnlinkedFileTracker>,
    /// Bytes that came from outside the session.
    outside_bytes: AtomicU64,
}

/// The processes of a session do not run as long as this lives.
#[derive(Debug)]
pub(crate) struct Standstill(Option<Paused>);

impl Drop for Standstill {
    fn drop(&mut self) {
        if let Some(paused) = self.0.take() {
            paused.resume();
        }
    }
}

/// The bytes and files that a session added to the disk since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) bytes: u64,
    pub(crate) files: usize,
    /// More is there than is looked at, so the amount is not known.
    pub(crate) beyond: bool,
    /// Something was touched that is not there: it may be open, without a name.
    pub(crate) vanished: bool,
    /// A call may be writing to one of the files: the kernel tells of a write when it is over.
    pub(crate) is_growing: bool,
}

/// A session seen from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) added: Added,
    /// How much of the processor its processes have used.
    pub(crate) processor: Duration,
    pub(crate) write_count: WriteCount,
    /// Whether the kernel counts what each process writes to its workspace.
    pub(crate) counts_writes: bool,
    /// Whether the disk must be looked at from time to time, since not every write raises an event.
    pub(crate) is_ticking: bool,
}

impl Added {
    fn add(&mut self, other: Added) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
        self.beyond |= other.beyond;
        self.vanished |= other.vanished;
        self.is_growing |= other.is_growing;
    }

    /// The limit that this is over; `None` as a limit means that there is none.
    pub(crate) fn over(self, limit: Option<u64>) -> Option<LimitHit> {
        let limit = limit?;
        let most_files = MAX_FILES.max(limit / BYTES_PER_FILE) as usize;
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

impl DiskMeter {
    /// Returns when something was touched.
    pub(crate) async fn wait_for_change(&self) {
        match &self.listeners[..] {
            [one] => one.wait_for_change().await,
            [one, other, ..] => tokio::select! {
                () = one.wait_for_change() => {}
                () = other.wait_for_change() => {}
            },
            [] => std::future::pending().await,
        }
    }

    /// The bytes and files with a name that the session added. Takes no time, unless very much was touched.
    pub(crate) fn look_at_names(&self) -> Added {
        let mut added = lock(&self.tracker).added();
        if let Some(temporary) = &self.temporary {
            added.add(lock(temporary).added());
        }
        self.without_brought(added)
    }

    /// Looks at everything, files without a name as well. If what was found is over the limit `enough`, nothing else is looked at: that
    /// takes time, in which more is written.
    pub(crate) fn look(&self, enough: Option<u64>) -> Look {
        // Locked before the tracker, which tells only once that a file has vanished: where this lock is free, no look knows of one that it has not noted.
        let mut hidden = lock(&self.hidden);
        let added = self.look_at_names();
        let workspace = Arc::clone(lock(&self.tracker).workspace());
        let temporary = self.temporary.as_ref();
        let temporary = temporary.map(|tracker| lock(tracker).workspace().device());
        let devices: Vec<u64> = iter::once(workspace.device()).chain(temporary).collect();
        let file_system = workspace.file_system();
        let mut look = Look {
            added,
            counts_writes: file_system.is_some_and(FileSystem::counts_writes),
            is_ticking: self.listeners.iter().any(ChangeListener::is_blind),
            ..Look::default()
        };
        if added.over(enough).is_some() {
            return look;
        }
        let own_processes = self.processes();
        let Some(processes) = own_processes.find() else {
            return look;
        };
        let own = lock(&self.own).clone();
        let is_enough = |bytes: u64| {
            let bytes = added.bytes.saturating_add(bytes);
            Added { bytes, ..added }.over(enough).is_some()
        };
        let place = &own_processes.workspace;
        let mut holdings = processes.unlinked_files(&devices, place, &own.laid, is_enough);
        let at_host = own.ends.iter().map(|end| descriptors_waiting_in(*end));
        holdings.in_flight += at_host.sum::<u64>();
        let written = processes.written();
        let unlinked = hidden.take(
            &holdings,
            &written,
            &own.processes,
            added.bytes,
            file_system,
        );
        look.added.bytes = added.bytes.saturating_add(unlinked.bytes);
        look.added.files = added.files.saturating_add(unlinked.files);
        look.processor = processes.processor_time();
        look.write_count = hidden.write_count();
        look.is_ticking |= unlinked.has_unknown;
        look
    }

    /// Whether the session's processes have done nothing since they had written so much and used so much of the processor.
    pub(crate) fn is_idle_since(&self, write_count: WriteCount, processor: Duration) -> bool {
        let Some(processes) = self.processes().find() else {
            return true;
        };
        let own = lock(&self.own).clone();
        let now = lock(&self.hidden).tally(&processes.written(), &own.processes);
        now == write_count && processes.processor_time() == processor
    }

    /// Whether code of the session can run while no cell does.
    fn can_run_on(&self) -> bool {
        let own = lock(&self.own).processes.clone();
        let session = self.processes().find();
        lock(&self.seen).can_run_on(session, &own)
    }

    /// The files of the workspace that processes of the session hold.
    fn held_files(&self) -> HeldFiles {
        let Own {
            processes, spawner, ..
        } = lock(&self.own).clone();
        let session = self.processes().find();
        let device = lock(&self.tracker).workspace().device();
        let held = lock(&self.seen).held(session, &processes, spawner, device);
        let tracker = lock(&self.tracker);
        HeldFiles {
            mapped: tracker.paths_of(&held.mapped),
            open: tracker.paths_of(&held.open),
            unknown: held.unknown,
            nameless_memory: held.nameless_memory,
        }
    }

    /// The files of the workspace that spawned processes can write to.
    fn held_by_spawned(&self) -> Vec<PathBuf> {
        let Own {
            processes, spawner, ..
        } = lock(&self.own).clone();
        let session = self.processes().find();
        let device = lock(&self.tracker).workspace().device();
        let held = lock(&self.seen).held_by_spawned(session, &processes, spawner, device);
        let tracker = lock(&self.tracker);
        let mut paths = tracker.paths_of(&held.mapped);
        paths.extend(tracker.paths_of(&held.open));
        paths
    }

    /// Whether more was touched than is remembered.
    pub(crate) fn has_lost_paths(&self) -> bool {
        self.listeners.iter().any(ChangeListener::has_lost_paths)
    }

    /// Stops the session's processes. `None` where that is not possible.
    pub(crate) fn stand_still(&self) -> Option<Standstill> {
        let paused = self.processes().find()?.pause_all().ok()?;
        Some(Standstill(Some(paused)))
    }

    /// Kills the head and all processes of the code's, as far as this process may.
    pub(crate) fn kill_code(&self) {
        let own = lock(&self.own).clone();
        if let (Some((_head, spared)), Some(processes)) =
            (own.processes.split_first(), self.processes().find())
        {
            if let Some(started) = &own.started {
                started.note_reason(ProcessStatus::SessionEnded);
            }
            processes.kill_all_but(spared);
        }
    }

    /// So many bytes that are new are not the session's work.
    pub(crate) fn accept(&self, bytes: u64) {
        self.outside_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes files off that other processes brought, for as long as there are as many.
    fn without_brought(&self, added: Added) -> Added {
        let brought = self.outside_bytes.fetch_min(added.bytes, Ordering::Relaxed);
        Added {
            bytes: added.bytes.saturating_sub(brought),
            ..added
        }
    }

    /// Whether the last look found no file without a name, and none is under way that may find one.
    fn knows_of_none_without_name(&self) -> bool {
        let hidden = self.hidden.try_lock();
        self.temporary.is_none() && hidden.is_ok_and(|hidden| hidden.is_nothing())
    }

    /// What the session had added at the last look; `None` where one is under way.
    fn measured(&self) -> Option<Added> {
        let mut added = Added::default();
        for tracker in iter::once(&self.tracker).chain(&self.temporary) {
            added.add(try_lock(tracker)?.measured());
        }
        let mut added = self.without_brought(added);
        added.bytes += try_lock(&self.hidden)?.seen_unlinked();
        Some(added)
    }

    fn processes(&self) -> Arc<Processes> {
        Arc::clone(&lock(&self.processes))
    }
}

impl Disk {
    /// `history` is told when the host fails while it looks at the files: what changed then is not known.
    pub(crate) fn new(
        tracker: Tracker,
        temporary: Option<Tracker>,
        processes: Processes,
        history: SharedHistory,
    ) -> Disk {
        let began_empty = tracker.known().is_empty();
        let mut listeners = vec![tracker.listener()];
        listeners.extend(temporary.as_ref().map(Tracker::listener));
        let meter = Arc::new(DiskMeter {
            tracker: Arc::new(Mutex::new(tracker)),
            temporary: temporary.map(|tracker| Arc::new(Mutex::new(tracker))),
            listeners,
            processes: Mutex::new(Arc::new(processes)),
            own: Mutex::default(),
            seen: Mutex::default(),
            hidden: Mutex::default(),
            outside_bytes: AtomicU64::new(0),
        });
        Disk {
            began_empty,
            guard: DiskGuard::new(Arc::clone(&meter)),
            meter,
            history,
            search: None,
        }
    }

    /// The session has other processes from now on.
    pub(crate) fn move_to(&mut self, processes: Processes) {
        *lock(&self.meter.processes) = Arc::new(processes);
        *lock(&self.meter.seen) = SeenProcesses::default();
    }

    /// Whether there was nothing in the workspace when the session began.
    pub(crate) fn began_empty(&self) -> bool {
        self.began_empty
    }

    /// Holds the session to this limit, and tells what is the host's own in it.
    pub(crate) fn guard(&mut self, target: WatchTarget, limit: Option<u64>, own: Own) {
        let mut known = lock(&self.meter.own);
        *known = own.after(&known);
        drop(known);
        if self.guard.target() != target {
            // Where that is not known, nothing counts as brought by others.
            let most = Added {
                bytes: u64::MAX,
                files: usize::MAX,
                ..Added::default()
            };
            let ground = self.meter.measured().unwrap_or(most);
            self.guard.watch(target, limit, ground);
        }
    }

    /// The host has put a descriptor into this socket, given by its inode, and gives the socket to the session.
    pub(crate) fn expect_descriptors_in(&self, socket: u64) {
        lock(&self.meter.own).laid.push(socket);
    }

    /// The limit that the session is over, if it is. Its head is dead then, or dies.
    pub(crate) fn hit(&self) -> Option<LimitHit> {
        self.guard.hit()
    }

    /// The session is over no limit any more.
    pub(crate) fn forget_hit(&self) {
        self.guard.forget_hit();
    }

    /// Asks for a look, which [`report`](Disk::report) tells of.
    pub(crate) fn nudge(&self) {
        self.guard.nudge();
    }

    /// The next look, asked for or not.
    pub(crate) async fn report(&mut self) -> GuardReport {
        self.guard.report().await
    }

    /// Looks once more when a cell has ended: at its files, and at those without a name only if it may have made some.
    pub(crate) async fn look_at_end(&self) -> Added {
        match self.quickly(Tracker::added) {
            Some(added) if !added.vanished && self.meter.knows_of_none_without_name() => {
                self.meter.without_brought(added)
            }
            _ => {
                let meter = Arc::clone(&self.meter);
                match spawn_blocking(move || meter.look(None)).await {
                    Ok(look) => look.added,
                    // What was counted before the host failed.
                    Err(_) => self.meter.measured().unwrap_or_default(),
                }
            }
        }
    }

    /// Bytes of memory that the session's processes hold beyond the head with this id inside.
    pub(crate) async fn memory_beyond(&self, head: u32) -> Option<u64> {
        let processes = self.meter.processes();
        let work = move || processes.find()?.memory_beyond(head);
        spawn_blocking(work).await.ok().flatten()
    }

    /// The processes of the fork that this session made last. They are looked for in the background; until the search is over,
    /// which [`has_found_fork`](Disk::has_found_fork) waits for, there must be no other fork.
    pub(crate) fn youngest_fork(&mut self) -> Processes {
        let (fork, search) = self.meter.processes().youngest_fork();
        self.search = Some(search);
        fork
    }

    /// Whose open files must not be shared with a fork.
    pub(crate) fn processes(&self) -> Arc<Processes> {
        self.meter.processes()
    }

    /// Whether the session's own processes are still looked for: it is a fork that was just made.
    pub(crate) fn seeks_processes(&self) -> bool {
        self.meter.processes().are_sought_elsewhere()
    }

    /// Waits until the processes of the last fork were found, or not.
    pub(crate) async fn has_found_fork(&mut self) {
        if let Some(search) = self.search.take() {
            let _ = search.await;
        }
    }

    /// Whether code of the session can run while no cell does: in a process or a thread that a cell left running.
    pub(crate) fn can_run_on(&self) -> bool {
        self.meter.can_run_on()
    }

    /// The files of the workspace that spawned processes can write to.
    pub(crate) async fn held_by_spawned(&self) -> Vec<PathBuf> {
        let meter = Arc::clone(&self.meter);
        let look = spawn_blocking(move || meter.held_by_spawned());
        look.await.unwrap_or_else(|_| self.note_failure())
    }

    /// Begins to look for files of the workspace that processes of the session hold: they can be changed without being noticed. `None`
    /// where there is no file.
    pub(crate) fn look_for_held_files(&self) -> Option<JoinHandle<HeldFiles>> {
        if self.quickly(Tracker::has_no_files) == Some(true) {
            return None;
        }
        let meter = Arc::clone(&self.meter);
        Some(spawn_blocking(move || meter.held_files()))
    }

    /// Bytes of shared memory without a name that the head has mapped.
    pub(crate) async fn nameless_memory(&self) -> u64 {
        let meter = Arc::clone(&self.meter);
        let look = spawn_blocking(move || meter.held_files().nameless_memory);
        look.await.unwrap_or_default()
    }

    /// What the cell that just ended changed.
    pub(crate) async fn changes(&self) -> Changes {
        self.with_tracker(Tracker::changes).await
    }

    /// What happened between two cells: it was not the next cell's doing.
    pub(crate) async fn changes_between_cells(&self) -> Changes {
        self.with_tracker(Tracker::changes_between_cells).await
    }

    async fn with_tracker(&self, work: fn(&mut Tracker) -> Changes) -> Changes {
        if let Some(changes) = self.quickly(work) {
            return changes;
        }
        let tracker = Arc::clone(&self.meter.tracker);
        if tracker.is_poisoned() {
            let () = self.note_failure();
        }
        let work = move || work(&mut lock(&tracker));
        spawn_blocking(work)
            .await
            .unwrap_or_else(|_| self.note_failure())
    }

    /// The host failed while it looked at the files. Changes may be missing from now on, so no result may say that all files are as they were.
    fn note_failure<T: Default>(&self) -> T {
        self.history.lock().note_damage();
        T::default()
    }

    /// Does the work here and now, if it is little.
    fn quickly<T>(&self, work: fn(&mut Tracker) -> T) -> Option<T> {
        let mut tracker = match self.meter.tracker.try_lock() {
            Ok(tracker) => tracker,
            Err(TryLockError::Poisoned(poisoned)) => {
                let () = self.note_failure();
                poisoned.into_inner()
            }
            Err(TryLockError::WouldBlock) => return None,
        };
        tracker.has_little_to_do().then(|| work(&mut tracker))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks, if no other thread has locked it.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;

#[cfg(test)]
impl Disk {
    pub(crate) fn meter(&self) -> Arc<DiskMeter> {
        Arc::clone(&self.meter)
    }
}

#[cfg(test)]
impl DiskMeter {
    /// As long as the returned value lives, a look that has begun does not end.
    pub(crate) fn hold_looks(&self) -> MutexGuard<'_, Tracker> {
        lock(&self.tracker)
    }

    /// Whether a look has begun and not ended.
    pub(crate) fn is_looking(&self) -> bool {
        self.hidden.try_lock().is_err()
    }
}
