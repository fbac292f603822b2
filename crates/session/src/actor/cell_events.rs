//! The events of one cell on their way to the caller that started it.

use crate::events::EventRing;
use cellblock_protocol::{Event, Stream};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The most events of one frame: the frame itself, and what was in both pipes before it.
const MAX_EVENTS_PER_FRAME: usize = 6;

/// The reader of a cell's events, if there is one. The queue is bounded: while it is full, the cell's output is not read.
pub(crate) struct CellEvents {
    reader: Option<mpsc::Sender<Event>>,
    /// The ring of the session's events, and the number of the cell; `None` for a cell that runs again.
    ring: Option<(Arc<EventRing>, u64)>,
}

impl CellEvents {
    pub(crate) fn new(
        reader: Option<mpsc::Sender<Event>>,
        ring: &Arc<EventRing>,
        cell: u64,
    ) -> CellEvents {
        CellEvents {
            reader,
            ring: Some((Arc::clone(ring), cell)),
        }
    }

    /// Tells no reader of the session anything: its readers saw the events of this cell when it ran first.
    pub(crate) fn be_quiet(&mut self) {
        self.ring = None;
    }

    /// Whether there is a reader, which can also answer tool calls and requests for input.
    pub(crate) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Whether the events of one more frame fit into the queue. Always so without a reader.
    pub(crate) fn has_room(&self) -> bool {
        let reader = self.reader.as_ref();
        reader.is_none_or(|reader| reader.capacity() >= MAX_EVENTS_PER_FRAME)
    }

    /// Waits until there is room again, or the reader is gone.
    pub(crate) async fn wait_for_room(&self) {
        if let Some(reader) = &self.reader {
            // Gone, or free: either way there is nothing to wait for.
            let _ = reader.reserve_many(MAX_EVENTS_PER_FRAME).await;
        }
    }

    /// Waits until the reader is gone; for ever if there was none.
    pub(crate) async fn wait_until_unread(&self) {
        match &self.reader {
            Some(reader) => reader.closed().await,
            None => std::future::pending().await,
        }
    }

    /// The reader is gone: from here on events go nowhere.
    pub(crate) fn forget_reader(&mut self) {
        self.reader = None;
    }

    pub(crate) fn emit(&self, event: Event) {
        if let Some((ring, cell)) = &self.ring {
            ring.push(Some(*cell), event.clone());
        }
        if let Some(reader) = &self.reader {
            // There was room when we looked; a reader that has gone is not our business.
            let _ = reader.try_send(event);
        }
    }

    /// Emits a piece of what the cell printed.
    pub(crate) fn emit_text(&self, stream: Stream, text: String) {
        self.emit(match stream {
            Stream::Stderr => Event::Stderr { text },
            _ => Event::Stdout { text },
        });
    }
}
