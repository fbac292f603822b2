//! What lives in the memory of the server: sessions with their queues, and rings of events that readers follow.

mod displays;
mod event_json;
mod live_session;
mod registry;
mod ring;

pub(crate) use displays::DisplayFiles;
pub(crate) use event_json::{event_json, has_large_displays, result_json};
pub(crate) use live_session::{
    AnswerTo, CellOutcome, LiveSession, QueuedBy, SessionHooks, SessionParts,
};
pub(crate) use registry::Registry;
pub(crate) use ring::{EventRing, EventsGone, RingEvent, Subject};
