//! Live events of sessions, for any number of readers.

use super::{EngineError, Sequence};
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use bytes::Bytes;

/// What a reader of events gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event with its place.
    Event(Sequence, Bytes),
    /// Events are missing here: they are older than what the engine keeps. The next delivery is the oldest event that is kept.
    Gap,
}

/// A reader of one session's events.
pub trait EventReader: Send {
    /// Waits for the next event. A dropped future loses no event.
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, EngineError>>;
}

/// Live events of sessions, for any number of readers anywhere.
///
/// Events are kept for a while in memory. They are not the truth about a session: that is its journal.
pub trait EventLog: Send + Sync {
    /// Publishes an event.
    fn publish<'a>(
        &'a self,
        session: &'a SessionId,
        event: Bytes,
    ) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Reads the events after a place, those of the past first.
    fn follow<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
    ) -> BoxFuture<'a, Result<Box<dyn EventReader>, EngineError>>;

    /// Removes the events of a session that are kept.
    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>>;
}
