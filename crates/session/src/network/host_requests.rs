//! Requests of code for hosts that no rule names: they wait while the approver of the session decides.

use cellblock_network::{AskForHost, Authority, HostDecision};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A function that decides whether code of a session may reach a host. The error is the reason why it may not.
pub type HostApprover = Arc<dyn Fn(Authority) -> HostDecision + Send + Sync>;

/// The most hosts that one cell may ask for. Code must not be able to ask a person without end.
const MAX_REQUESTS_PER_CELL: usize = 16;

/// The requests for hosts of one session.
#[derive(Default)]
pub(crate) struct HostRequests {
    approver: Mutex<Option<HostApprover>>,
    cell: Mutex<CellRequests>,
    /// The requests that wait for a decision.
    waiting: AtomicUsize,
    changed: Notify,
}

/// What the running cell asked for.
#[derive(Default)]
struct CellRequests {
    number: usize,
    /// The reasons of refusals, by host and port: the same host is not asked for twice.
    refused: BTreeMap<String, String>,
}

impl HostRequests {
    /// Sets the function that decides from now on.
    pub(crate) fn set_approver(&self, approver: HostApprover) {
        *locked(&self.approver) = Some(approver);
    }

    /// Forgets what earlier cells asked for.
    pub(crate) fn begin_cell(&self) {
        *locked(&self.cell) = CellRequests::default();
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until a request begins or ends to wait.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The function by which a guard asks.
    pub(crate) fn asker(requests: &Arc<HostRequests>) -> AskForHost {
        let requests = Arc::clone(requests);
        Arc::new(move |target| {
            let requests = Arc::clone(&requests);
            Box::pin(async move { requests.decide(target).await })
        })
    }

    async fn decide(&self, target: Authority) -> Result<(), String> {
        let key = target.to_string();
        let approver = locked(&self.approver).clone();
        let approver = approver.ok_or("no rule names it, and no person can be asked here")?;
        {
            let mut cell = locked(&self.cell);
            if let Some(reason) = cell.refused.get(&key) {
                return Err(reason.clone());
            }
            if cell.number == MAX_REQUESTS_PER_CELL {
                return Err(format!(
                    "this cell has asked for {MAX_REQUESTS_PER_CELL} hosts already"
                ));
            }
            cell.number += 1;
        }
        let decision = {
            let _waiting = WaitingRequest::new(self);
            approver(target).await
        };
        if let Err(reason) = &decision {
            locked(&self.cell).refused.insert(key, reason.clone());
        }
        decision
    }
}

impl fmt::Debug for HostRequests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HostRequests")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// A request that waits, for as long as this value lives.
struct WaitingRequest<'a>(&'a HostRequests);

impl<'a> WaitingRequest<'a> {
    fn new(requests: &'a HostRequests) -> WaitingRequest<'a> {
        requests.waiting.fetch_add(1, Ordering::Relaxed);
        requests.changed.notify_one();
        WaitingRequest(requests)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_one();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
