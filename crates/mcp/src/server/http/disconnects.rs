//! Clients over HTTP that disconnect during a call.
//!
//! A broken connection does not end a session: the client may reconnect for the rest of its answer. When it does not reconnect within the
//! grace period, its session ends, and with it the running call.

use super::Reply;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The clients that disconnected during a call. Clones share their state.
#[derive(Clone)]
pub(super) struct DisconnectedClients {
    sessions: Arc<LocalSessionManager>,
    grace: Duration,
    /// The running grace periods by the id of the session. Cancelling one ends it.
    grace_periods: Arc<Mutex<HashMap<String, CancellationToken>>>,
}

impl DisconnectedClients {
    pub(super) fn new(sessions: Arc<LocalSessionManager>, grace: Duration) -> DisconnectedClients {
        DisconnectedClients {
            sessions,
            grace,
            grace_periods: Arc::default(),
        }
    }

    /// Notes that a client is connected, which ends its grace period.
    pub(super) fn reconnected(&self, session: &str) {
        if let Some(waiting) = self.grace_periods().remove(session) {
            waiting.cancel();
        }
    }

    /// Watches the reply to a call: when the client disconnects before its end, the grace period begins.
    pub(super) fn watch_reply(&self, session: String, reply: Reply) -> Reply {
        reply.map(|body| {
            let watched = WatchedBody {
                body,
                session,
                disconnected: self.clone(),
                is_whole: false,
            };
            watched.boxed()
        })
    }

    /// Ends a session of the protocol, and with it the Python session of its client.
    pub(super) async fn end(&self, session: &str) {
        // The client may have ended it meanwhile.
        let _ = self.sessions.close_session(&session.into()).await;
    }

    /// Ends every session of the protocol, and with it the Python session of its client.
    pub(super) async fn end_all(&self) {
        let here: Vec<_> = self
            .sessions
            .sessions
            .read()
            .await
            .keys()
            .cloned()
            .collect();
        for session in here {
            let _ = self.sessions.close_session(&session).await;
        }
    }

    fn wait_for_reconnect(&self, session: String) {
        // Without a runtime the process is ending, and every session with it.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let back = CancellationToken::new();
        self.grace_periods().insert(session.clone(), back.clone());
        let disconnected = self.clone();
        runtime.spawn(async move {
            tokio::select! {
                () = back.cancelled() => return,
                () = tokio::time::sleep(disconnected.grace) => {}
            }
            disconnected.grace_periods().remove(&session);
            // The client may have ended the session meanwhile.
            let _ = disconnected.sessions.close_session(&session.into()).await;
        });
    }

    fn grace_periods(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.grace_periods
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a reply that notices when it is dropped before its end.
struct WatchedBody {
    body: BoxBody<Bytes, Infallible>,
    session: String,
    disconnected: DisconnectedClients,
    is_whole: bool,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) {
            self.is_whole = true;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if !self.is_whole && !self.body.is_end_stream() {
            self.disconnected
                .wait_for_reconnect(std::mem::take(&mut self.session));
        }
    }
}
