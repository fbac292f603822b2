//! Streams of server-sent events from a ring.

use crate::error::ApiError;
use crate::live::{EventRing, EventsGone, RingEvent};
use crate::state::AppState;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_core::Stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How often a silent stream shows that it lives. Proxies close silent connections after a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which events of a ring a reader gets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedEvents {
    /// All of them, for as long as they come.
    All,
    /// Those of one cell, until its result.
    Cell(u64),
}

/// Where a reader begins: after the last event that it has seen, else with the oldest that is there.
pub(crate) fn position(
    ring: &EventRing,
    headers: &HeaderMap,
    after: Option<u64>,
) -> Result<u64, ApiError> {
    let last = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok())
        .map(str::trim);
    let seen = match last.filter(|id| !id.is_empty()) {
        Some(id) => Some(
            id.parse::<u64>()
                .map_err(|_| ApiError::invalid("Last-Event-ID: the `seq` of an event"))?,
        ),
        None => after,
    };
    let Some(seen) = seen else {
        return Ok(ring.oldest_after());
    };
    match ring.read_after(seen) {
        Ok(_) => Ok(seen),
        Err(gone) => Err(gone_error(gone)),
    }
}

fn gone_error(gone: EventsGone) -> ApiError {
    ApiError::new(
        StatusCode::GONE,
        "events_gone",
        format!(
            "the events up to {} are not kept any more",
            gone.oldest_after
        ),
    )
    .hint("load the journal, then read the events without `after`")
}

/// The events of a ring after a number, as a stream that ends when the server stops or the reader has fallen behind the ring.
pub(crate) fn stream(
    state: &AppState,
    ring: Arc<EventRing>,
    after: u64,
    wanted: WantedEvents,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let reader = RingReader {
        stop: state.stop().clone(),
        _counted: state.count_reader(),
        ring,
        after,
        wanted,
        ready: VecDeque::new(),
        is_over: false,
    };
    let events = futures_util::stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct RingReader {
    stop: tokio_util::sync::CancellationToken,
    _counted: crate::state::ReaderGuard,
    ring: Arc<EventRing>,
    after: u64,
    wanted: WantedEvents,
    ready: VecDeque<Arc<RingEvent>>,
    is_over: bool,
}

impl RingReader {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.after = event.seq;
                match self.wanted {
                    WantedEvents::All => return Some(sse_event(&event)),
                    WantedEvents::Cell(cell) if event.cell == Some(cell) => {
                        self.is_over = matches!(event.name.as_str(), "result" | "error");
                        return Some(sse_event(&event));
                    }
                    WantedEvents::Cell(_) => continue,
                }
            }
            if self.is_over {
                return None;
            }
            match self.ring.read_after(self.after) {
                Ok(events) if events.is_empty() => {
                    let has_more = tokio::select! {
                        () = self.stop.cancelled() => false,
                        has_more = self.ring.has_more_after(self.after) => has_more,
                    };
                    if !has_more {
                        return None;
                    }
                }
                Ok(events) => self.ready = events.into(),
                // Too slow: the reader comes again, and is told by 410 to load the whole.
                Err(_) => return None,
            }
        }
    }
}

fn sse_event(event: &RingEvent) -> Event {
    Event::default()
        .id(event.seq.to_string())
        .event(&event.name)
        .data(&event.json)
}
