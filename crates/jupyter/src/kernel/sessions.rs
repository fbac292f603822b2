//! The sessions of a kernel: the one that runs its cells, and forks of it under names.

use cellblock_session::Session;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// Opens the session of a kernel: at its start, and again where a session ended with all its variables.
pub trait SessionOpener: Send + Sync {
    /// Opens a session. The error is a sentence for the notebook.
    fn open(&self) -> Pin<Box<dyn Future<Output = Result<Session, String>> + Send + '_>>;
}

/// The name of the session that a kernel begins with.
pub(super) const FIRST_NAME: &str = "main";
/// The most sessions of one kernel.
const MAX_SESSIONS: usize = 16;

/// The session that runs cells now, for the control channel: it interrupts while the shell channel waits for a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentSession(Arc<Mutex<Option<Session>>>);

impl CurrentSession {
    pub(super) fn get(&self) -> Option<Session> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn interrupt(&self) {
        if let Some(session) = self.get() {
            session.interrupt();
        }
    }

    pub(super) async fn close(&self) {
        let session = self.set(None);
        if let Some(session) = session {
            session.close().await;
        }
    }

    fn set(&self, session: Option<Session>) -> Option<Session> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, session)
    }
}

/// All sessions of a kernel. Dropped, they end.
pub(super) struct Sessions {
    opener: Arc<dyn SessionOpener>,
    current: CurrentSession,
    name: String,
    by_name: BTreeMap<String, Session>,
}

impl Sessions {
    pub(super) fn new(opener: Arc<dyn SessionOpener>, current: CurrentSession) -> Self {
        Self {
            opener,
            current,
            name: FIRST_NAME.to_owned(),
            by_name: BTreeMap::new(),
        }
    }

    /// The session that runs cells, opened if need be.
    pub(super) async fn current(&mut self) -> Result<Session, String> {
        if let Some(session) = self.by_name.get(&self.name)
            && session.end().is_none()
        {
            return Ok(session.clone());
        }
        let session = self.opener.open().await?;
        self.by_name.insert(self.name.clone(), session.clone());
        self.current.set(Some(session.clone()));
        Ok(session)
    }

    /// The name of the session that runs cells.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The names of all sessions.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.by_name.keys().cloned().collect();
        if !names.contains(&self.name) {
            names.push(self.name.clone());
        }
        names
    }

    /// Keeps a fork of the current session under a name. Returns what the fork does not have.
    pub(super) async fn fork(&mut self, name: &str) -> Result<Vec<String>, String> {
        if self.names().iter().any(|known| known == name) {
            return Err(format!("there is a session `{name}` already"));
        }
        if self.by_name.len() >= MAX_SESSIONS {
            return Err(format!("a kernel has at most {MAX_SESSIONS} sessions"));
        }
        let fork = self.current().await?.fork().await;
        let fork = fork.map_err(|error| error.to_string())?;
        let not_copied = fork.not_copied().to_vec();
        self.by_name.insert(name.to_owned(), fork);
        Ok(not_copied)
    }

    /// Runs cells in another session from now on.
    pub(super) fn switch(&mut self, name: &str) -> Result<(), String> {
        let Some(session) = self.by_name.get(name) else {
            let known = self.names().join(", ");
            return Err(format!("there is no session `{name}`; there are: {known}"));
        };
        self.current.set(Some(session.clone()));
        self.name = name.to_owned();
        Ok(())
    }

    /// Closes all sessions.
    pub(super) async fn close(&mut self) {
        self.current.set(None);
        for session in std::mem::take(&mut self.by_name).into_values() {
            session.close().await;
        }
    }
}
