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

/// Events of the log that wait for a slow reader, and the most bytes of one: together they are what code can put into the host's
/// memory while there is no reader.
pub(crate) const MAX_LOG_EVENTS: usize = 256;
const MAX_LOG_EVENT_BYTES: usize = 64 << 10;

/// The events of one session: those between cells go to the readers of the log, and all of them into the ring. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct SessionEvents {
    log: broadcast::Sender<Event>,
    pub(crate) ring: Arc<EventRing>,
}

impl SessionEvents {
    pub(crate) fn new() -> SessionEvents {
        SessionEvents {
            log: broadcast::channel(MAX_LOG_EVENTS).0,
            ring: Arc::default(),
        }
    }

    /// Tells of something that belongs to no cell.
    pub(crate) fn send(&self, event: Event) {
        self.ring.push(None, event.clone());
        // Without a reader of the log, the event is only in the ring.
        let _ = self.log.send(event);
    }

    /// Tells of a text that belongs to no cell. A long one becomes several events.
    pub(crate) fn log(&self, text: String) {
        for text in pieces_of(text) {
            self.send(Event::Log { text });
        }
    }

    /// Events that belong to no cell, from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.log.subscribe()
    }
}

/// A text for the log in pieces of a bounded size, cut between characters.
fn pieces_of(text: String) -> Vec<String> {
    if text.len() <= MAX_LOG_EVENT_BYTES {
        return vec![text];
    }
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    while rest.len() > MAX_LOG_EVENT_BYTES {
        let end = (1..=MAX_LOG_EVENT_BYTES)
            .rev()
            .find(|at| rest.is_char_boundary(*at));
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_of_the_log_is_cut_between_characters() {
        let pieces = pieces_of("é".repeat(MAX_LOG_EVENT_BYTES / 2 + 1) + "x");
        assert_eq!(
            pieces,
            ["é".repeat(MAX_LOG_EVENT_BYTES / 2), "éx".to_owned()]
        );
        let odd = pieces_of("x".to_owned() + &"é".repeat(MAX_LOG_EVENT_BYTES / 2));
        let lengths: Vec<usize> = odd.iter().map(String::len).collect();
        assert_eq!(lengths, [MAX_LOG_EVENT_BYTES - 1, 2]);
    }
}
