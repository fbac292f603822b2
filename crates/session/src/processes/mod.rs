//! Processes beside the interpreter: a session's registry of them, and the way to the spawner that starts them.
//!
//! The spawner and the supervisors (`native/src/spawner`) each have a socket of their own to the host. So a process is started, signalled and
//! ended while a cell runs, and whatever the session's own task does. The task is needed for three things: to ask init for the spawner, to say
//! which processes a checkpoint has seen, and to end the younger ones when the session goes back.

mod output;
mod process;
mod spawner;
mod start;
mod task;

pub use output::{ProcessEvent, ProcessEvents};
pub use process::{AttachedProcess, FinishedProcess, Process};
pub(crate) use spawner::{SpawnEnvironment, Spawner, SpawnerEnds, SpawnerPlace};

use crate::Error;
use cellblock_protocol::{ProcessInfo, ProcessStatus, Spawn};
use process::ProcessState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// How long the end of processes is waited for when the session goes back.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Processes that have ended and can still be attached to.
const MAX_ENDED: usize = 8;

/// The processes of one session.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    registry: Mutex<Registry>,
    /// The way to the spawner, once there is one. Held while a process is started: one at a time.
    spawner: tokio::sync::Mutex<Option<Spawner>>,
}

#[derive(Debug, Default)]
struct Registry {
    /// How many were ever asked for.
    count: u64,
    by_number: BTreeMap<u64, Arc<ProcessState>>,
    spawner: Option<SpawnerPlace>,
    /// Those that are being started.
    starting: BTreeSet<u64>,
    /// Those that are to end as soon as they have started, and why.
    to_end: BTreeMap<u64, ProcessStatus>,
}

/// How many processes had been started at some moment. Those that came later are younger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessMark(u64);

impl Processes {
    /// Starts a process. `start_spawner` asks init for the spawner, where there is none yet.
    pub(crate) async fn spawn<F>(
        self: &Arc<Self>,
        spawn: &Spawn,
        start_spawner: impl FnOnce(SpawnerEnds) -> F,
    ) -> Result<AttachedProcess, Error>
    where
        F: Future<Output = Result<SpawnEnvironment, Error>>,
    {
        spawn.validate()?;
        let mut connection = self.spawner.lock().await;
        if connection
            .as_ref()
            .is_some_and(|spawner| !spawner.is_there())
        {
            *connection = None;
        }
        let spawner = match &mut *connection {
            Some(spawner) => spawner,
            none => {
                let spawner = none.insert(Spawner::connect(start_spawner).await?);
                self.lock().spawner = Some(spawner.place);
                spawner
            }
        };
        let starting = Starting::new(self);
        let started = spawner.start(spawn, starting.number).await?;
        drop(connection);
        let state = Arc::clone(&started.state);
        let end_when_started = {
            let mut registry = self.lock();
            registry.add(Arc::clone(&state));
            registry.to_end.remove(&state.number)
        };
        drop(starting);
        // Before anything is read: a reader from the beginning loses nothing.
        let events = ProcessEvents::new(Arc::clone(&state.output), 0);
        tokio::spawn(started.run());
        if let Some(reason) = end_when_started {
            state.request_end(reason).await;
        }
        Ok(AttachedProcess {
            process: Process(state),
            events,
        })
    }

    /// The process with this name. Those that ended a while ago are not there any more.
    pub(crate) fn find(&self, name: &str) -> Option<Process> {
        let registry = self.lock();
        let mut all = registry.by_number.values();
        let found = all.find(|process| process.info.proc == name)?;
        Some(Process(Arc::clone(found)))
    }

    /// The processes that have not ended, the oldest first.
    pub(crate) fn running(&self) -> Vec<ProcessInfo> {
        let registry = self.lock();
        let running = registry
            .by_number
            .values()
            .filter(|process| process.output.ended().is_none());
        running.map(|process| process.info.clone()).collect()
    }

    /// Whether a process, or something that one started, is left.
    pub(crate) fn has_living(&self) -> bool {
        let registry = self.lock();
        registry.by_number.values().any(|process| process.is_left())
    }

    /// Where the spawner is, if there is one.
    pub(crate) fn spawner(&self) -> Option<SpawnerPlace> {
        self.lock().spawner
    }

    /// Notes why the processes are about to end, for the session ends with all that is in it or begins anew.
    pub(crate) fn expect_end(&self, reason: ProcessStatus) {
        self.lock().spawner = None;
        self.note_reason(reason);
    }

    /// Notes why all processes that are left are about to end.
    pub(crate) fn note_reason(&self, reason: ProcessStatus) {
        for process in self.lock().left_after(ProcessMark(0)) {
            process.note_reason(reason);
        }
    }

    /// The mark of this moment.
    pub(crate) fn mark(&self) -> ProcessMark {
        ProcessMark(self.lock().count)
    }

    /// Ends the processes that are younger than a mark, with all that they started.
    pub(crate) async fn end_younger_than(&self, mark: ProcessMark) {
        self.end_all_after(mark, ProcessStatus::TakenBack).await;
    }

    /// Ends all processes.
    pub(crate) async fn end_all(&self, reason: ProcessStatus) {
        self.end_all_after(ProcessMark(0), reason).await;
    }

    async fn end_all_after(&self, mark: ProcessMark, reason: ProcessStatus) {
        let younger: Vec<_> = {
            let mut registry = self.lock();
            let starting = registry.starting.range(mark.0 + 1..);
            let to_end: Vec<_> = starting.map(|number| (*number, reason)).collect();
            registry.to_end.extend(to_end);
            registry.left_after(mark).collect()
        };
        for process in &younger {
            process.request_end(reason).await;
        }
        let gone = async {
            for process in &younger {
                process.end_for(reason).await;
            }
        };
        let _ = timeout(END_LIMIT, gone).await;
    }

    /// The processes that are left, in a few words each: what a session says that went back without them.
    pub(crate) fn describe_living(&self) -> Vec<String> {
        self.lock()
            .left_after(ProcessMark(0))
            .map(|process| process.describe())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    fn add(&mut self, state: Arc<ProcessState>) {
        self.by_number.insert(state.number, state);
        let mut ended: Vec<u64> = self
            .by_number
            .iter()
            .filter(|(_, process)| !process.is_left())
            .map(|(number, _)| *number)
            .collect();
        ended.truncate(ended.len().saturating_sub(MAX_ENDED));
        for number in ended {
            self.by_number.remove(&number);
        }
    }

    fn left_after(&self, mark: ProcessMark) -> impl Iterator<Item = Arc<ProcessState>> + '_ {
        self.by_number
            .range(mark.0 + 1..)
            .filter(|(_, process)| process.is_left())
            .map(|(_, process)| Arc::clone(process))
    }
}

/// A process that is being started. It has a number from the beginning, so that it is older or younger than every checkpoint.
struct Starting<'a> {
    processes: &'a Processes,
    number: u64,
}

impl Starting<'_> {
    fn new(processes: &Processes) -> Starting<'_> {
        let mut registry = processes.lock();
        registry.count += 1;
        let number = registry.count;
        registry.starting.insert(number);
        drop(registry);
        Starting { processes, number }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        let mut registry = self.processes.lock();
        registry.starting.remove(&self.number);
        registry.to_end.remove(&self.number);
    }
}
