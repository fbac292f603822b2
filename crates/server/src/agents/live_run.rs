//! Runs in the memory of the server: those that go on, and the last ones that ended.

use super::approvals::Approvals;
use super::client_tools::ToolCalls;
use crate::live::EventRing;
use cellblock_agent::CancellationToken;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Runs that have ended and whose events can still be followed.
const MAX_ENDED: usize = 100;

/// A run with its events.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) ring: Arc<EventRing>,
    pub(crate) cancel: CancellationToken,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) calls: ToolCalls,
    is_over: watch::Sender<bool>,
}

impl LiveRun {
    pub(crate) fn new(id: String, user: String, ring: EventRing) -> LiveRun {
        LiveRun {
            id,
            user,
            ring: Arc::new(ring),
            cancel: CancellationToken::new(),
            approvals: Arc::default(),
            calls: ToolCalls::default(),
            is_over: watch::Sender::new(false),
        }
    }

    /// Whether the run has ended.
    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    /// Waits until the run has ended.
    pub(crate) async fn ended(&self) {
        let _ = self.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }

    /// The run has ended: readers of its events end too.
    pub(crate) fn end(&self) {
        self.ring.close();
        self.is_over.send_replace(true);
    }
}

/// The run of a chat that answers a question now, if one does. A handle: clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentRun(Arc<Mutex<Option<Arc<LiveRun>>>>);

impl CurrentRun {
    pub(super) fn get(&self) -> Option<Arc<LiveRun>> {
        self.lock().clone()
    }

    pub(super) fn set(&self, run: Option<Arc<LiveRun>>) {
        *self.lock() = run;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<LiveRun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All runs in memory.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns(Mutex<RunTable>);

#[derive(Debug, Default)]
struct RunTable {
    runs: HashMap<String, Arc<LiveRun>>,
    order: VecDeque<String>,
}

impl LiveRuns {
    /// Adds a run. The oldest ones that have ended are forgotten.
    pub(crate) fn insert(&self, run: &Arc<LiveRun>) {
        let mut table = self.lock();
        table.runs.insert(run.id.clone(), Arc::clone(run));
        table.order.push_back(run.id.clone());
        let RunTable { runs, order } = &mut *table;
        let mut ended = runs.values().filter(|run| run.is_over()).count();
        order.retain(|id| {
            let is_old = ended > MAX_ENDED && runs.get(id).is_some_and(|run| run.is_over());
            if is_old {
                runs.remove(id);
                ended -= 1;
            }
            !is_old
        });
    }

    /// The run with this id of this user.
    pub(crate) fn get(&self, user: &str, id: &str) -> Option<Arc<LiveRun>> {
        self.lock()
            .runs
            .get(id)
            .filter(|run| run.user == user)
            .cloned()
    }

    /// The number of runs of a user that go on.
    pub(crate) fn running_of(&self, user: &str) -> usize {
        let table = self.lock();
        table
            .runs
            .values()
            .filter(|run| run.user == user && !run.is_over())
            .count()
    }

    /// All runs that go on.
    pub(crate) fn running(&self) -> Vec<Arc<LiveRun>> {
        let table = self.lock();
        table
            .runs
            .values()
            .filter(|run| !run.is_over())
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, RunTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
