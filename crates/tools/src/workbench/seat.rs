//! The session of a run, made when it is first needed.

use super::Workbench;
use crate::ToolError;
use crate::bridge::Responses;
use cellblock_session::Session;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A session that is being made.
pub type Opening = Pin<Box<dyn Future<Output = Result<Session, ToolError>> + Send>>;

/// How a session is made.
pub(super) type OpenSession = Arc<dyn Fn() -> Opening + Send + Sync>;

/// Where the session sits.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) open: Option<OpenSession>,
    current: tokio::sync::Mutex<Option<Session>>,
    responses: Mutex<Responses>,
    /// A cell that was cancelled and is about to end.
    leaving: Mutex<Option<JoinHandle<()>>>,
    /// What the model has not been told yet.
    loss: Mutex<Option<String>>,
}

impl Seat {
    /// The same with a session in it.
    pub(super) fn with(mut self, session: Session) -> Seat {
        self.current = tokio::sync::Mutex::new(Some(session));
        self
    }
}

impl Workbench {
    /// The session, which is made now if there was none yet, with the tools that its code may call.
    pub async fn session(&self) -> Result<Session, ToolError> {
        self.wait_for_leaving().await;
        let seat = &self.inner.seat;
        let mut current = seat.current.lock().await;
        if let Some(session) = current.as_ref() {
            let Some(reason) = session.end() else {
                return Ok(session.clone());
            };
            let note = format!(
                "Note: the earlier session ended ({reason}). This is a fresh one: variables and imports from before are gone."
            );
            *seat.loss.lock().unwrap_or_else(PoisonError::into_inner) = Some(note);
            *current = None;
        }
        let open = seat
            .open
            .as_ref()
            .ok_or_else(|| ToolError::new("there is no Python session here"))?;
        let session = open().await?;
        let tools = self.registry().offered_to_code();
        if !tools.is_empty() {
            session.set_tools(tools).await?;
        }
        *current = Some(session.clone());
        Ok(session)
    }

    /// The session, if one was made.
    pub async fn open_session(&self) -> Option<Session> {
        self.inner.seat.current.lock().await.clone()
    }

    /// Ends the session, if there is one. The next call that needs one makes another.
    pub async fn close(&self) {
        let session = self.inner.seat.current.lock().await.take();
        if let Some(session) = session {
            session.close().await;
        }
    }

    /// Lets a cancelled cell end by itself.
    pub(crate) fn leave(&self, ending: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime the session is ending too.
        if let Ok(runtime) = Handle::try_current() {
            let mut leaving = self
                .inner
                .seat
                .leaving
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *leaving = Some(runtime.spawn(ending));
        }
    }

    /// Waits until a cancelled cell has ended.
    pub(crate) async fn wait_for_leaving(&self) {
        let leaving = self
            .inner
            .seat
            .leaving
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(leaving) = leaving {
            let _ = leaving.await;
        }
    }

    /// That an earlier session is gone, if nobody was told so far.
    pub(crate) fn take_loss(&self) -> Option<String> {
        let mut loss = self
            .inner
            .seat
            .loss
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loss.take()
    }

    pub(crate) fn responses(&self) -> &Mutex<Responses> {
        &self.inner.seat.responses
    }

    pub(crate) fn lock_responses(&self) -> MutexGuard<'_, Responses> {
        self.responses()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
