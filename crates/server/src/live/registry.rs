//! The live sessions by id.

use super::LiveSession;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All live sessions of the server.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: Mutex<HashMap<String, Arc<LiveSession>>>,
    /// Held while a session is rebuilt, so that two requests do not rebuild it twice.
    rebuilding: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Registry {
    /// The live session with this id. One that has ended is not among them.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<LiveSession>> {
        let found = self.lock().get(id).cloned();
        found.filter(|live| live.session.end().is_none())
    }

    /// Adds a session.
    pub(crate) fn insert(&self, live: &Arc<LiveSession>) {
        self.lock().insert(live.id.clone(), Arc::clone(live));
    }

    /// Removes this session, unless another one has its id already. Says whether it was there.
    pub(crate) fn remove_ended(&self, live: &LiveSession) -> bool {
        let mut sessions = self.lock();
        let is_same = |found: &Arc<LiveSession>| std::ptr::eq(Arc::as_ptr(found), live);
        let is_there = sessions.get(&live.id).is_some_and(is_same);
        if is_there {
            sessions.remove(&live.id);
        }
        is_there
    }

    /// Removes a session.
    pub(crate) fn remove(&self, id: &str) -> Option<Arc<LiveSession>> {
        self.lock().remove(id)
    }

    /// All live sessions.
    pub(crate) fn all(&self) -> Vec<Arc<LiveSession>> {
        self.lock().values().cloned().collect()
    }

    /// The live sessions of one user.
    pub(crate) fn of_user(&self, user: &str) -> Vec<Arc<LiveSession>> {
        let mut all = self.all();
        all.retain(|live| live.user == user && live.session.end().is_none());
        all
    }

    /// The lock for rebuilding one session.
    pub(crate) fn rebuild_lock(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self
            .rebuilding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(id.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
