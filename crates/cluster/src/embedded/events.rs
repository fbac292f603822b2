//! Live events in a ring in memory.

use crate::engine::{Delivery, EngineError, EventLog, EventReader, Sequence};
use crate::lock::lock;
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// How many events of a session are kept.
const MAX_KEPT: usize = 10_000;

/// The events of sessions of this process.
#[derive(Default)]
pub(super) struct LocalEvents {
    sessions: Mutex<BTreeMap<SessionId, Arc<SessionEvents>>>,
}

#[derive(Default)]
struct SessionEvents {
    kept: Mutex<KeptEvents>,
    published: Notify,
}

#[derive(Default)]
struct KeptEvents {
    events: VecDeque<Bytes>,
    /// How many events were dropped: the place of the first kept one is this and 1.
    dropped: u64,
}

struct LocalReader {
    session: Arc<SessionEvents>,
    after: u64,
}

impl LocalEvents {
    fn session(&self, session: &SessionId) -> Arc<SessionEvents> {
        let mut sessions = lock(&self.sessions);
        Arc::clone(sessions.entry(session.clone()).or_default())
    }
}

impl EventLog for LocalEvents {
    fn publish<'a>(
        &'a self,
        session: &'a SessionId,
        event: Bytes,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let session = self.session(session);
            let mut kept = lock(&session.kept);
            kept.events.push_back(event);
            if kept.events.len() > MAX_KEPT {
                kept.events.pop_front();
                kept.dropped += 1;
            }
            session.published.notify_waiters();
            Ok(())
        })
    }

    fn follow<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
    ) -> BoxFuture<'a, Result<Box<dyn EventReader>, EngineError>> {
        Box::pin(async move {
            let reader = LocalReader {
                session: self.session(session),
                after: after.0,
            };
            Ok(Box::new(reader) as Box<dyn EventReader>)
        })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            lock(&self.sessions).remove(session);
            Ok(())
        })
    }
}

impl LocalReader {
    fn kept(&mut self) -> Option<Delivery> {
        let kept = lock(&self.session.kept);
        if self.after < kept.dropped {
            self.after = kept.dropped;
            return Some(Delivery::Gap);
        }
        let index = usize::try_from(self.after - kept.dropped).ok()?;
        let event = kept.events.get(index)?.clone();
        self.after += 1;
        Some(Delivery::Event(Sequence(self.after), event))
    }
}

impl EventReader for LocalReader {
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, EngineError>> {
        Box::pin(async move {
            loop {
                let session = Arc::clone(&self.session);
                let mut published = std::pin::pin!(session.published.notified());
                // Waits from here on, so an event that comes after the look below is not missed.
                published.as_mut().enable();
                if let Some(delivery) = self.kept() {
                    return Ok(delivery);
                }
                published.await;
            }
        })
    }
}
