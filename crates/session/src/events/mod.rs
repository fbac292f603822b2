//! The events of a session for many readers: numbered, kept for a while, and read again from any number on.

mod ring;
#[cfg(test)]
mod ring_tests;
mod weight;

pub(crate) use ring::EventRing;
pub use ring::{EventGap, EventReader};

use cellblock_protocol::Event;
use std::sync::Arc;
use tokio::sync::broadcast;

/// The events of one session: those between cells go to the readers of the log, and all of them into the ring. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct SessionEvents {
    log: broadcast::Sender<Event>,
    pub(crate) ring: Arc<EventRing>,
}

impl SessionEvents {
    /// `log_capacity` events of the log wait for a slow reader.
    pub(crate) fn new(log_capacity: usize) -> SessionEvents {
        SessionEvents {
            log: broadcast::channel(log_capacity).0,
            ring: Arc::default(),
        }
    }

    /// Tells of something that belongs to no cell.
    pub(crate) fn send(&self, event: Event) {
        self.ring.push(None, event.clone());
        // Without a reader of the log, the event is only in the ring.
        let _ = self.log.send(event);
    }

    /// Events that belong to no cell, from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.log.subscribe()
    }
}
