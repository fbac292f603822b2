//! The part of a session that its owner has beside the session itself: the way to its journal, and its keys.

use super::keys::Keys;
use super::metrics::ClusterMetrics;
use cellblock_cluster::OwnRecord;
use cellblock_cluster::engine::Engine;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// A session that this node owns.
pub(crate) struct Slot {
    pub(crate) engine: Engine,
    pub(super) metrics: Arc<ClusterMetrics>,
    pub(crate) keys: Keys,
    records: mpsc::Sender<OwnRecord>,
    pending: Mutex<Pending>,
    is_ending: AtomicBool,
    is_closed: AtomicBool,
    is_lost: AtomicBool,
}

/// Records that wait for the next append.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) records: Vec<Value>,
    /// The key of the cell that runs, with the cell's number.
    pub(crate) running: Option<(u64, String)>,
}

impl Slot {
    /// A slot, and what arrives at its owner.
    pub(super) fn new(
        engine: Engine,
        metrics: Arc<ClusterMetrics>,
    ) -> (Slot, mpsc::Receiver<OwnRecord>) {
        let (records, receiver) = mpsc::channel(16);
        let slot = Slot {
            engine,
            metrics,
            keys: Keys::default(),
            records,
            pending: Mutex::default(),
            is_ending: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
        };
        (slot, receiver)
    }

    /// Where records go.
    pub(crate) fn records(&self) -> &mpsc::Sender<OwnRecord> {
        &self.records
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on no new request is taken: the session is about to sleep, and its requests go to the next owner.
    pub(crate) fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    /// Whether requests go to the next owner.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Notes that a record was refused: what the session answers from now on counts for nothing.
    pub(crate) fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Whether a record was refused.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Notes that the user closed the session: then it is not missed.
    pub(crate) fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether the user closed the session.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Slot").finish_non_exhaustive()
    }
}
