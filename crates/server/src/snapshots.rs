//! States of sessions that are kept aside: later sessions begin with them. They live as long as the server runs.

use crate::auth::{Caller, random_id};
use crate::copies::SessionCopy;
use crate::e2b::SandboxState;
use crate::error::ApiError;
use crate::live::LiveSession;
use crate::sessions::title;
use crate::state::AppState;
use axum::http::StatusCode;
use cellblock_session::Snapshot;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most snapshots of one user.
const MAX_SNAPSHOTS: usize = 32;
/// The longest name of a snapshot.
pub(crate) const MAX_NAME_CHARS: usize = 128;

/// A state that sessions can begin with.
#[derive(Debug)]
pub(crate) struct KeptSnapshot {
    pub(crate) id: String,
    pub(crate) user: String,
    /// The session, or the sandbox of E2B, that was in this state.
    pub(crate) of: String,
    pub(crate) name: Option<String>,
    pub(crate) memory: u64,
    pub(crate) last_cell: u64,
    pub(crate) state: Snapshot,
    /// What a sandbox of E2B has beside its session; `None` for a snapshot of a session.
    pub(crate) sandbox: Option<SandboxState>,
}

/// All snapshots of the server.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<HashMap<String, Arc<KeptSnapshot>>>);

impl Snapshots {
    pub(crate) fn add(&self, snapshot: Arc<KeptSnapshot>) {
        self.lock().insert(snapshot.id.clone(), snapshot);
    }

    /// The snapshots of a user.
    pub(crate) fn of_user(&self, user: &str) -> Vec<Arc<KeptSnapshot>> {
        let snapshots = self.lock();
        let own = snapshots.values().filter(|snapshot| snapshot.user == user);
        let mut own: Vec<_> = own.cloned().collect();
        own.sort_by(|one, other| one.id.cmp(&other.id));
        own
    }

    /// The memory that the snapshots of a user may take.
    pub(crate) fn memory(&self, user: &str) -> u64 {
        let snapshots = self.lock();
        let own = snapshots.values().filter(|snapshot| snapshot.user == user);
        own.map(|snapshot| snapshot.memory).sum()
    }

    /// The users who have snapshots.
    pub(crate) fn users(&self) -> Vec<String> {
        let snapshots = self.lock();
        snapshots
            .values()
            .map(|snapshot| snapshot.user.clone())
            .collect()
    }

    pub(crate) fn remove(&self, id: &str) -> Option<Arc<KeptSnapshot>> {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<KeptSnapshot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AppState {
    /// Refuses one more snapshot of this memory where the user's limits are reached.
    pub(crate) fn check_snapshot(&self, caller: &Caller, memory: u64) -> Result<(), ApiError> {
        if self.snapshots().of_user(caller.id()).len() >= MAX_SNAPSHOTS {
            let message = format!("{MAX_SNAPSHOTS} snapshots are kept already; delete one first");
            return Err(ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "quota",
                message,
            ));
        }
        let taken = self.taken_by(caller.id()).memory;
        self.quotas_of(&caller.user).check_session(0, taken, memory)
    }

    /// The snapshots of sessions of this caller.
    pub(crate) fn session_snapshots(&self, caller: &Caller) -> Vec<Arc<KeptSnapshot>> {
        let mut own = self.snapshots().of_user(caller.id());
        own.retain(|snapshot| snapshot.sandbox.is_none());
        own
    }

    /// A snapshot of a session of this caller, by its name or id.
    pub(crate) fn session_snapshot(
        &self,
        caller: &Caller,
        wanted: &str,
    ) -> Result<Arc<KeptSnapshot>, ApiError> {
        let mut own = self.session_snapshots(caller).into_iter();
        let found = own.find(|kept| kept.id == wanted || kept.name.as_deref() == Some(wanted));
        found.ok_or_else(|| ApiError::not_found("snapshot"))
    }

    /// Keeps the state of a session aside. Returns the name by which sessions are opened from it.
    pub(crate) async fn freeze_session(
        &self,
        caller: &Caller,
        live: &LiveSession,
        name: Option<String>,
    ) -> Result<String, ApiError> {
        if let Some(name) = &name {
            if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
                return Err(ApiError::invalid(format!(
                    "name: 1 to {MAX_NAME_CHARS} characters"
                )));
            }
            if self.session_snapshot(caller, name).is_ok() {
                return Err(ApiError::conflict(
                    "exists",
                    format!(
                        "there is a snapshot `{name}` already; discard it first, or choose another name"
                    ),
                ));
            }
        }
        self.check_snapshot(caller, live.memory)?;
        let snapshot = Arc::new(KeptSnapshot {
            id: random_id("snap")?,
            user: caller.id().to_owned(),
            of: live.id.clone(),
            name,
            memory: live.memory,
            last_cell: live.last_cell(),
            state: live.session.freeze().await?,
            sandbox: None,
        });
        self.snapshots().add(Arc::clone(&snapshot));
        self.audit(caller.id(), "session.freeze", Some(&live.id), None)
            .await;
        Ok(snapshot.name.clone().unwrap_or_else(|| snapshot.id.clone()))
    }

    /// Opens a session that begins with a state that was kept aside.
    pub(crate) async fn open_from_snapshot(
        &self,
        caller: &Caller,
        wanted: &str,
        given_title: Option<&str>,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let snapshot = self.session_snapshot(caller, wanted)?;
        let place = self.take_place(&caller.user, snapshot.memory)?;
        let copy = SessionCopy {
            title: title(given_title, "Session")?,
            parent: Some(snapshot.of.clone()),
            memory: snapshot.memory,
            last_cell: snapshot.last_cell,
            rebuilt: None,
        };
        let session = snapshot.state.open().await?;
        let live = self.adopt_copy(caller, session, copy, place).await?;
        self.audit(caller.id(), "session.open", Some(&live.id), None)
            .await;
        Ok(live)
    }

    /// Forgets a snapshot of a session. Sessions that began with it go on.
    pub(crate) async fn discard_snapshot(
        &self,
        caller: &Caller,
        wanted: &str,
    ) -> Result<(), ApiError> {
        let snapshot = self.session_snapshot(caller, wanted)?;
        self.snapshots().remove(&snapshot.id);
        snapshot.state.discard().await;
        Ok(())
    }

    /// Forgets all snapshots of a user, and with them the processes that keep their memory.
    pub(crate) async fn discard_snapshots_of(&self, user: &str) {
        for snapshot in self.snapshots().of_user(user) {
            self.snapshots().remove(&snapshot.id);
            snapshot.state.discard().await;
        }
    }
}
