//! Places among the sessions of a user: taken before a session is there, so that requests at the same time do not share one place.

use crate::error::ApiError;
use crate::state::AppState;
use crate::store::User;
use cellblock_host::Session;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast::error::RecvError;

/// The places of sessions that are being opened, and of the clients of MCP.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionPlaces(Arc<Mutex<HashMap<String, Taken>>>);

/// What sessions take of the limits of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) sessions: usize,
    /// The limits of their memory together, in bytes.
    pub(crate) memory: u64,
}

/// A place of a user. It is free again when the value is dropped.
#[derive(Debug)]
pub(crate) struct UserPlace {
    places: SessionPlaces,
    user: String,
    memory: u64,
}

impl SessionPlaces {
    fn of(&self, user: &str) -> Taken {
        self.lock().get(user).copied().unwrap_or_default()
    }

    fn users(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UserPlace {
    /// Keeps the place until the session has ended. For sessions that are in none of the server's lists.
    pub(crate) fn hold_until_end(self, session: &Session) {
        // The log of a session closes with it, and reading it keeps no session alive.
        let mut log = session.logs();
        tokio::spawn(async move {
            while !matches!(log.recv().await, Err(RecvError::Closed)) {}
            drop(self);
        });
    }
}

impl Drop for UserPlace {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        if let Some(taken) = places.get_mut(&self.user) {
            taken.sessions -= 1;
            taken.memory = taken.memory.saturating_sub(self.memory);
            if taken.sessions == 0 {
                places.remove(&self.user);
            }
        }
    }
}

impl AppState {
    /// Takes a place for one more session of a user, or refuses it by the limits of the user.
    pub(crate) fn take_place(&self, user: &User, memory: u64) -> Result<UserPlace, ApiError> {
        let quotas = self.quotas_of(user);
        let mut places = self.places().lock();
        // Under the lock: a session that has just been opened is among those that live before its place is free.
        let live = self.live_of(&user.id);
        let mut taken = places.get(&user.id).copied().unwrap_or_default();
        quotas.check_session(
            live.sessions + taken.sessions,
            live.memory.saturating_add(taken.memory),
            memory,
        )?;
        taken.sessions += 1;
        taken.memory = taken.memory.saturating_add(memory);
        places.insert(user.id.clone(), taken);
        Ok(UserPlace {
            places: self.places().clone(),
            user: user.id.clone(),
            memory,
        })
    }

    /// What the sessions of a user take: those that live, those that are being opened, those of MCP clients, and the memory of snapshots.
    /// Snapshots are frozen sessions, and keep their memory.
    pub(crate) fn taken_by(&self, user: &str) -> Taken {
        let (more, live) = (self.places().of(user), self.live_of(user));
        Taken {
            sessions: live.sessions + more.sessions,
            memory: live.memory.saturating_add(more.memory),
        }
    }

    /// The users who have a session or a snapshot.
    pub(crate) fn users_with_sessions(&self) -> BTreeSet<String> {
        let live = self.live().all();
        let mut users: BTreeSet<String> = live.iter().map(|live| live.user.clone()).collect();
        users.extend(self.places().users());
        users.extend(self.snapshots().users());
        users
    }

    fn live_of(&self, user: &str) -> Taken {
        let live = self.live().of_user(user);
        let memory: u64 = live.iter().map(|live| live.memory).sum();
        Taken {
            sessions: live.len(),
            memory: memory + self.snapshots().memory(user),
        }
    }
}
