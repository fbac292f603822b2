//! Runs in the memory of the server: those that go on, and the last ones that ended.

use super::approvals::Approvals;
use super::client_tools::ToolCalls;
use super::events::{EventSender, Told};
use crate::live::EventRing;
use cellblock_agent::CancellationToken;
use serde_json::Value;
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
    /// The way of the agent's events to readers, while there is one.
    events: Mutex<Option<EventSender>>,
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
            events: Mutex::new(None),
            is_over: watch::Sender::new(false),
        }
    }

    /// Sets the way of the agent's events to readers.
    pub(super) fn set_events(&self, events: Option<EventSender>) {
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }

    /// Tells readers of something that the server asks or knows, after all that the agent did before: a call comes after its code.
    pub(super) fn tell(&self, name: &'static str, fields: Value) {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = match events.as_ref() {
            Some(events) => events
                .send(Told::Server(name, fields))
                .err()
                .map(|unsent| unsent.0),
            None => Some(Told::Server(name, fields)),
        };
        if let Some(Told::Server(name, fields)) = rest {
            self.ring.publish_json(name, None, fields);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Subject;
    use cellblock_agent::RunEvent;
    use serde_json::json;

    #[test]
    fn what_the_server_tells_comes_after_what_the_agent_did_before() {
        let ring = EventRing::new(Subject::Run("r".to_owned()), 0);
        let run = LiveRun::new("r".to_owned(), "u".to_owned(), ring);
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        run.set_events(Some(sender.clone()));
        let text = "send()".to_owned();
        let sent = sender.send(Told::Agent(RunEvent::CodePart { text }));
        assert!(sent.is_ok());
        run.tell("approval", json!({}));
        assert_eq!(run.ring.newest(), 0, "it waits for its turn");
        assert!(matches!(events.try_recv(), Ok(Told::Agent(_))));
        assert!(matches!(events.try_recv(), Ok(Told::Server("approval", _))));
        run.set_events(None);
        run.tell("approval_decided", json!({}));
        assert_eq!(run.ring.newest(), 1, "nothing is before it");
    }
}
