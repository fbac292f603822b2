//! The events of one cell on their way to the caller that started it.
//!
//! What is printed comes in pieces: Python writes `print("a")` as `a` and a line end where no standby could pass on an incomplete
//! line. So an incomplete line waits for a moment, and a line is one event.

use crate::events::EventRing;
use cellblock_protocol::{Event, Stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The most events of one frame: the frame itself, what was in both pipes before it, and an incomplete line.
const MAX_EVENTS_PER_FRAME: usize = 7;
/// How long an incomplete line waits for its rest.
const INCOMPLETE_LINE_DELAY: Duration = Duration::from_millis(3);
/// An incomplete line that is longer does not wait.
const MAX_INCOMPLETE_LINE: usize = 8 << 10;

/// The reader of a cell's events, if there is one. The queue is bounded: while it is full, the cell's output is not read.
pub(crate) struct CellEvents {
    reader: Option<mpsc::Sender<Event>>,
    /// The ring of the session's events, and the number of the cell; `None` for a cell that runs again.
    ring: Option<(Arc<EventRing>, u64)>,
    incomplete: Option<IncompleteLine>,
}

/// A line whose end has not come yet.
struct IncompleteLine {
    stream: Stream,
    text: String,
    /// The time when it is passed on as it is.
    due: Instant,
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
            incomplete: None,
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

    /// Emits an event, after what was printed before it.
    pub(crate) fn emit(&mut self, event: Event) {
        self.emit_incomplete_line();
        self.send(event);
    }

    /// Emits a piece of what the cell printed, or lets it wait for the end of its line.
    pub(crate) fn emit_text(&mut self, stream: Stream, text: String) {
        if self
            .incomplete
            .as_ref()
            .is_some_and(|line| line.stream != stream)
        {
            self.emit_incomplete_line();
        }
        let (text, due) = match self.incomplete.take() {
            Some(line) => (line.text + &text, line.due),
            None => (text, Instant::now() + INCOMPLETE_LINE_DELAY),
        };
        match text.ends_with('\n') || text.len() > MAX_INCOMPLETE_LINE {
            true => self.send(text_event(stream, text)),
            false => self.incomplete = Some(IncompleteLine { stream, text, due }),
        }
    }

    /// Emits the incomplete line, if there is one.
    pub(crate) fn emit_incomplete_line(&mut self) {
        if let Some(line) = self.incomplete.take() {
            self.send(text_event(line.stream, line.text));
        }
    }

    /// The time when the incomplete line has waited long enough.
    pub(crate) fn line_due(&self) -> Option<Instant> {
        self.incomplete.as_ref().map(|line| line.due)
    }

    fn send(&self, event: Event) {
        if let Some((ring, cell)) = &self.ring {
            ring.push(Some(*cell), event.clone());
        }
        if let Some(reader) = &self.reader {
            // There was room when we looked; a reader that has gone is not our business.
            let _ = reader.try_send(event);
        }
    }
}

fn text_event(stream: Stream, text: String) -> Event {
    match stream {
        Stream::Stderr => Event::Stderr { text },
        _ => Event::Stdout { text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> (CellEvents, mpsc::Receiver<Event>) {
        let (reader, received) = mpsc::channel(16);
        let ring = Arc::new(EventRing::default());
        (CellEvents::new(Some(reader), &ring, 1), received)
    }

    fn received(receiver: &mut mpsc::Receiver<Event>) -> Vec<(Stream, String)> {
        let mut texts = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            texts.push(match event {
                Event::Stdout { text } => (Stream::Stdout, text),
                Event::Stderr { text } => (Stream::Stderr, text),
                other => (Stream::Output, format!("{other:?}")),
            });
        }
        texts
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_one_event() {
        let (mut events, mut receiver) = events();
        events.emit_text(Stream::Stdout, "runs".to_owned());
        assert_eq!(received(&mut receiver), []);
        assert!(events.line_due().is_some());
        events.emit_text(Stream::Stdout, "\n".to_owned());
        assert_eq!(
            received(&mut receiver),
            [(Stream::Stdout, "runs\n".to_owned())]
        );
        assert_eq!(events.line_due(), None);
    }

    #[test]
    fn the_order_of_two_streams_and_of_other_events_stays() {
        let (mut events, mut receiver) = events();
        events.emit_text(Stream::Stdout, "a".to_owned());
        events.emit_text(Stream::Stderr, "b".to_owned());
        events.emit(Event::ClearOutput { wait: false });
        let expected = [
            (Stream::Stdout, "a".to_owned()),
            (Stream::Stderr, "b".to_owned()),
            (
                Stream::Output,
                format!("{:?}", Event::ClearOutput { wait: false }),
            ),
        ];
        assert_eq!(received(&mut receiver), expected);
    }

    #[test]
    fn a_line_without_an_end_is_passed_on_when_its_time_has_come_or_it_is_long() {
        let (mut events, mut receiver) = events();
        events.emit_text(Stream::Stdout, "?".to_owned());
        events.emit_incomplete_line();
        assert_eq!(received(&mut receiver), [(Stream::Stdout, "?".to_owned())]);
        let long = "x".repeat(MAX_INCOMPLETE_LINE + 1);
        events.emit_text(Stream::Stdout, long.clone());
        assert_eq!(received(&mut receiver), [(Stream::Stdout, long)]);
    }
}
