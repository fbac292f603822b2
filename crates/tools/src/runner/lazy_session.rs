//! The session of a run, opened when it is first needed.

use super::{ToolRunner, locked};
use crate::ToolError;
use crate::bridge::Responses;
use cellblock_session::Session;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A session that is being opened.
pub type SessionFuture = Pin<Box<dyn Future<Output = Result<Session, ToolError>> + Send>>;

/// A session that is opened when it is first needed, and again after it has ended.
#[derive(Default)]
pub(super) struct LazySession {
    open: Option<Arc<dyn Fn() -> SessionFuture + Send + Sync>>,
    current: tokio::sync::Mutex<Option<Session>>,
    responses: Mutex<Responses>,
    /// A cancelled cell that has not ended yet.
    ending_cell: Mutex<Option<JoinHandle<()>>>,
    /// A note about a lost session that the model has not read yet.
    loss_note: Mutex<Option<String>>,
}

impl LazySession {
    pub(super) fn opened_by(
        open: impl Fn() -> SessionFuture + Send + Sync + 'static,
    ) -> LazySession {
        let mut session = LazySession::default();
        session.set_open(open);
        session
    }

    pub(super) fn set_open(&mut self, open: impl Fn() -> SessionFuture + Send + Sync + 'static) {
        self.open = Some(Arc::new(open));
    }

    pub(super) fn set_current(&mut self, session: Session) {
        self.current = tokio::sync::Mutex::new(Some(session));
    }
}

impl ToolRunner {
    /// The session of the run. It is opened now if there is none, and gets the tools that its code may call.
    ///
    /// # Errors
    ///
    /// The error of the function that opens sessions, or a message where the runner has none.
    pub async fn session(&self) -> Result<Session, ToolError> {
        self.wait_for_ending_cell().await;
        let lazy = &self.shared.session;
        let mut current = lazy.current.lock().await;
        if let Some(session) = current.as_ref() {
            let Some(reason) = session.end() else {
                return Ok(session.clone());
            };
            let note = format!(
                "Note: the earlier session ended ({reason}). This is a fresh one: variables and imports from before are gone."
            );
            *locked(&lazy.loss_note) = Some(note);
            *current = None;
        }
        let open = lazy
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

    /// The session, if one was opened. Opens none.
    pub async fn current_session(&self) -> Option<Session> {
        self.shared.session.current.lock().await.clone()
    }

    /// Closes the session, if one is open. The next call that needs a session opens another.
    pub async fn close(&self) {
        let session = self.shared.session.current.lock().await.take();
        if let Some(session) = session {
            session.close().await;
        }
    }

    /// Lets a cancelled cell end in the background. The next use of the session waits for it.
    pub(crate) fn end_in_background(&self, ending: impl Future<Output = ()> + Send + 'static) {
        // Without an async runtime the session is ending too.
        if let Ok(tokio) = Handle::try_current() {
            *locked(&self.shared.session.ending_cell) = Some(tokio.spawn(ending));
        }
    }

    async fn wait_for_ending_cell(&self) {
        let ending = locked(&self.shared.session.ending_cell).take();
        if let Some(ending) = ending {
            let _ = ending.await;
        }
    }

    /// The note that an earlier session was lost, once.
    pub(crate) fn take_loss_note(&self) -> Option<String> {
        locked(&self.shared.session.loss_note).take()
    }

    /// The contents behind the handles that code in the session has.
    pub(crate) fn responses(&self) -> MutexGuard<'_, Responses> {
        locked(&self.shared.session.responses)
    }
}
