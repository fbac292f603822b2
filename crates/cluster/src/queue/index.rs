//! The open runs in memory, kept by following the directory.

use super::order::Order;
use super::{OpenRun, RunId, open_run};
use crate::engine::{Directory, EngineError, Epoch, Followed, Placed};
use crate::lock::lock;
use crate::runtime::{Runtime, timeout};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How long a caller waits for the first reading of the directory.
const FIRST_READING: Duration = Duration::from_secs(5);
/// The pause before the directory is followed again after a failure.
const FOLLOW_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often the directory is read anew. What says that an entry was removed is kept for longer, so no removal stays unseen.
const READ_ANEW: Duration = Duration::from_secs(600);

/// The open runs as this process knows them. A clone is another handle to the same index.
#[derive(Clone)]
pub(super) struct RunIndex {
    shared: Arc<Shared>,
    runtime: Arc<dyn Runtime>,
    /// The task that follows ends when the last handle is dropped.
    _follower: Arc<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<IndexedRuns>,
    changed: Notify,
}

#[derive(Default)]
struct IndexedRuns {
    runs: HashMap<RunId, Arc<OpenRun>>,
    /// Whether the directory was read once.
    is_read: bool,
    /// The newest change that the directory told.
    followed: Epoch,
    /// The order of the runs that wait. `None` after a change.
    order: Option<Arc<Order>>,
}

impl RunIndex {
    /// An empty index, and a task that fills it.
    pub(super) fn start(directory: &Arc<dyn Directory>, runtime: &Arc<dyn Runtime>) -> RunIndex {
        let shared: Arc<Shared> = Arc::default();
        let (follower, mut dropped) = oneshot::channel();
        let (followed, directory) = (Arc::clone(&shared), Arc::clone(directory));
        let clock = Arc::clone(runtime);
        runtime.spawn(Box::pin(async move {
            loop {
                let follow = followed.follow(&*directory, &*clock);
                let pause = tokio::select! {
                    _ = &mut dropped => return,
                    outcome = follow => if outcome.is_ok() { Duration::ZERO } else { FOLLOW_RETRY_PAUSE },
                };
                clock.sleep(pause).await;
            }
        }));
        RunIndex {
            shared,
            runtime: Arc::clone(runtime),
            _follower: Arc::new(follower),
        }
    }

    /// All open runs, oldest change first.
    pub(super) async fn runs(&self) -> Result<Vec<Arc<OpenRun>>, EngineError> {
        self.read().await?;
        Ok(lock(&self.shared.state).sorted())
    }

    /// The order of the runs that wait.
    pub(super) async fn order(&self) -> Result<Arc<Order>, EngineError> {
        self.read().await?;
        let mut state = lock(&self.shared.state);
        if let Some(order) = &state.order {
            return Ok(Arc::clone(order));
        }
        let order = Arc::new(Order::of(&state.sorted()));
        state.order = Some(Arc::clone(&order));
        Ok(order)
    }

    /// Waits until the directory has told all changes up to this one.
    pub(super) async fn reached(&self, epoch: Epoch) {
        self.until(|state| state.followed >= epoch).await;
    }

    /// Notes what this process wrote, before the directory tells it.
    pub(super) fn note_own(&self, id: &RunId, placed: Placed) {
        let mut state = lock(&self.shared.state);
        // What the directory has told is as new or newer.
        if placed.epoch > state.followed {
            state.note(id.clone(), placed.epoch, Some(placed));
        }
    }

    /// Forgets a run that this process removed.
    pub(super) fn forget(&self, id: &RunId) {
        let mut state = lock(&self.shared.state);
        state.runs.remove(id);
        state.order = None;
    }

    async fn read(&self) -> Result<(), EngineError> {
        let read = self.until(|state| state.is_read);
        let read = timeout(&*self.runtime, FIRST_READING, read).await;
        read.ok_or_else(|| EngineError("the queue could not be read".to_owned()))
    }

    async fn until(&self, is_so: impl Fn(&IndexedRuns) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // Waits from here on, so a change after the look below is not missed.
            changed.as_mut().enable();
            if is_so(&lock(&self.shared.state)) {
                return;
            }
            changed.await;
        }
    }
}

impl Shared {
    /// Reads the directory and follows its changes, for a while.
    async fn follow(
        &self,
        directory: &dyn Directory,
        runtime: &dyn Runtime,
    ) -> Result<(), EngineError> {
        // What is known now and is not told by the reader was removed unseen.
        let mut untold: HashMap<RunId, Epoch> = lock(&self.state)
            .runs
            .iter()
            .map(|(id, run)| (id.clone(), run.epoch))
            .collect();
        let end = runtime.now() + READ_ANEW;
        let mut reader = directory.follow().await?;
        while let Some(left) = end.checked_sub(runtime.now()) {
            let Some(next) = timeout(runtime, left, reader.next()).await else {
                return Ok(());
            };
            let next = next?;
            let mut state = lock(&self.state);
            match next {
                Followed::Changed { id, epoch, entry } => {
                    untold.remove(&id);
                    state.followed = state.followed.max(epoch);
                    state.note(id, epoch, entry.map(|entry| Placed { entry, epoch }));
                }
                Followed::Current => {
                    state.is_read = true;
                    for (id, epoch) in std::mem::take(&mut untold) {
                        state.remove(&id, epoch);
                    }
                }
            }
            drop(state);
            self.changed.notify_waiters();
        }
        Ok(())
    }
}

impl IndexedRuns {
    fn note(&mut self, id: RunId, epoch: Epoch, placed: Option<Placed>) {
        // An entry that cannot be read is one of a newer version: it is for the nodes of that version.
        let Some(run) = placed.and_then(|placed| open_run(id.clone(), placed).ok()) else {
            return self.remove(&id, epoch);
        };
        let is_newer = self.runs.get(&id).is_none_or(|known| known.epoch < epoch);
        if is_newer {
            self.runs.insert(id, Arc::new(run));
            self.order = None;
        }
    }

    /// Removes a run unless a newer change of it is known.
    fn remove(&mut self, id: &RunId, epoch: Epoch) {
        let is_known = self.runs.get(id).is_some_and(|known| known.epoch <= epoch);
        if is_known {
            self.runs.remove(id);
            self.order = None;
        }
    }

    fn sorted(&self) -> Vec<Arc<OpenRun>> {
        let mut runs: Vec<_> = self.runs.values().cloned().collect();
        runs.sort_by_key(|run| run.epoch);
        runs
    }
}
