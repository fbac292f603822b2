//! Clients over HTTP that vanish in the middle of a call.
//!
//! A connection that breaks is no farewell: a client may come back for the rest of its answer. One that does not come back soon is gone,
//! and what runs for it ends.

use super::gate::Reply;
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

/// Who is missed, by the protocol's name of their session. A handle.
#[derive(Clone)]
pub(super) struct Presence {
    sessions: Arc<LocalSessionManager>,
    grace: Duration,
    missed: Arc<Mutex<HashMap<String, CancellationToken>>>,
}

impl Presence {
    pub(super) fn new(sessions: Arc<LocalSessionManager>, grace: Duration) -> Presence {
        Presence {
            sessions,
            grace,
            missed: Arc::default(),
        }
    }

    /// A client has come (back).
    pub(super) fn seen(&self, session: &str) {
        if let Some(waiting) = self.missed().remove(session) {
            waiting.cancel();
        }
    }

    /// The answer to a call, listened to: whoever hangs up before its end is missed.
    pub(super) fn watch(&self, session: String, reply: Reply) -> Reply {
        reply.map(|body| {
            let watched = Watched {
                body,
                session,
                presence: self.clone(),
                is_whole: false,
            };
            watched.boxed()
        })
    }

    /// Ends every session of the protocol, and with it ours.
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

    fn miss(&self, session: String) {
        // Without a runtime everything ends anyway.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let back = CancellationToken::new();
        self.missed().insert(session.clone(), back.clone());
        let presence = self.clone();
        runtime.spawn(async move {
            tokio::select! {
                () = back.cancelled() => return,
                () = tokio::time::sleep(presence.grace) => {}
            }
            presence.missed().remove(&session);
            // It may have said farewell meanwhile.
            let _ = presence.sessions.close_session(&session.into()).await;
        });
    }

    fn missed(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watched {
    body: BoxBody<Bytes, Infallible>,
    session: String,
    presence: Presence,
    is_whole: bool,
}

impl Body for Watched {
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

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_whole && !self.body.is_end_stream() {
            self.presence.miss(std::mem::take(&mut self.session));
        }
    }
}
