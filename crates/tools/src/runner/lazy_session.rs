//! The session of a run, opened when it is first needed.

use super::{ToolRunner, locked};
use crate::bridge::Responses;
use crate::names::REACH_HOST;
use crate::{OnToolEvent, ToolError, ToolEvent};
use cellblock_protocol::{Event, Locale};
use cellblock_session::Session;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::task::JoinHandle;

/// The characters of late output that one observation has.
const MAX_LATE_CHARS: usize = 4_000;

/// The beginning of the lines about connections in the log of a session. They are no output.
const NETWORK_LINES: &str = "network: ";

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
    /// What threads of earlier cells write, with the session that it belongs to.
    late_output: Mutex<Option<(String, broadcast::Receiver<Event>)>>,
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

    pub(super) fn set_responses(&self, responses: Responses) {
        *locked(&self.responses) = responses;
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

    /// Lets the session ask the person of this run about hosts that no rule names. `on_event` is told before each question.
    pub(crate) fn ask_about_hosts(&self, session: &Session, on_event: Option<&OnToolEvent>) {
        let (approval, on_event) = (self.shared.approval.clone(), on_event.cloned());
        session.set_host_approver(Arc::new(move |target| {
            let (approval, on_event) = (approval.clone(), on_event.clone());
            Box::pin(async move {
                if let Some(on_event) = on_event.filter(|_| approval.asks_about_hosts()) {
                    let tool = REACH_HOST.to_owned();
                    on_event(ToolEvent::AwaitingApproval { tool });
                }
                approval.permit_host(&target).await
            })
        }));
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

    /// Listens to what threads of the session write after their cell has ended.
    pub(crate) fn listen_to_late_output(&self, session: &Session) {
        let mut late = locked(&self.shared.session.late_output);
        if late.as_ref().is_none_or(|(id, _)| id != session.id()) {
            *late = Some((session.id().to_owned(), session.logs()));
        }
    }

    /// What threads of earlier cells wrote since the last call, as a note for the model.
    pub(crate) fn take_late_output(&self) -> Option<String> {
        let mut late = locked(&self.shared.session.late_output);
        let (_, logs) = late.as_mut()?;
        let mut text = String::new();
        loop {
            match logs.try_recv() {
                Ok(Event::Log { text: more }) if !more.starts_with(NETWORK_LINES) => {
                    text.push_str(&more);
                }
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let total = text.chars().count();
        if text.trim().is_empty() {
            return None;
        }
        // The end matters most.
        let shown: String = text
            .chars()
            .skip(total.saturating_sub(MAX_LATE_CHARS))
            .collect();
        Some(match self.locale() {
            Locale::En => format!(
                "### Output of threads of earlier code:\n{}",
                shown.trim_end()
            ),
            Locale::Zh => format!("### 先前代码的线程的输出：\n{}", shown.trim_end()),
        })
    }

    /// The contents behind the handles that code in the session has.
    pub(crate) fn responses(&self) -> MutexGuard<'_, Responses> {
        locked(&self.shared.session.responses)
    }
}
