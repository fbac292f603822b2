//! A ring of events with sequence numbers: any number of readers follow it, and each can go on where it stopped.
//!
//! Readers hold nothing but a number, so a slow or vanished reader costs no memory. One that falls behind the oldest event is told so.

use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The events that a ring keeps, and the bytes of their texts.
const MAX_EVENTS: usize = 10_000;
const MAX_BYTES: usize = 4 << 20;
/// Events that one call of [`EventRing::read_after`] returns.
const MAX_READ: usize = 256;
/// The numbers of one life of a session. After a restart the next life begins with higher numbers, so that a reader of the life before
/// is told that events are missing. The number of lives still fits into the integers of JavaScript.
const EVENT_NUMBERS_PER_LIFE: u64 = 1 << 40;

/// What the events of a ring are about.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// A session, by its id.
    Session(String),
    /// A run, by its id.
    Run(String),
}

/// The events of one session or run.
#[derive(Debug)]
pub(crate) struct EventRing {
    subject: Subject,
    state: Mutex<RingState>,
    newest: watch::Sender<Newest>,
}

#[derive(Debug)]
struct RingState {
    events: VecDeque<Arc<RingEvent>>,
    bytes: usize,
    /// The number of the newest event.
    newest: u64,
    max_events: usize,
    max_bytes: usize,
}

/// The number of the newest event, and whether more can follow.
#[derive(Clone, Copy, Debug)]
struct Newest {
    seq: u64,
    is_closed: bool,
}

/// An event in a ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RingEvent {
    /// The number: one more than that of the event before it.
    pub(crate) seq: u64,
    /// The kind, such as `stdout`.
    pub(crate) name: String,
    /// The cell that the event belongs to.
    pub(crate) cell: Option<u64>,
    /// The whole event as JSON.
    pub(crate) json: String,
}

/// The answer to a reader whose next event is not in the ring: it must load the whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventsGone {
    /// The number before the oldest event that is there.
    pub(crate) oldest_after: u64,
}

impl EventRing {
    /// An empty ring. `life` counts how often the subject was rebuilt.
    pub(crate) fn new(subject: Subject, life: u64) -> EventRing {
        EventRing::bounded(subject, life, MAX_EVENTS, MAX_BYTES)
    }

    /// An empty ring that keeps this much.
    pub(crate) fn bounded(
        subject: Subject,
        life: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> EventRing {
        let newest = life.saturating_mul(EVENT_NUMBERS_PER_LIFE);
        EventRing {
            subject,
            state: Mutex::new(RingState {
                events: VecDeque::new(),
                bytes: 0,
                newest,
                max_events,
                max_bytes,
            }),
            newest: watch::Sender::new(Newest {
                seq: newest,
                is_closed: false,
            }),
        }
    }

    /// Adds an event and wakes the readers.
    pub(crate) fn publish(&self, name: &str, cell: Option<u64>, fields: Map<String, Value>) -> u64 {
        let mut state = self.lock();
        let seq = state.newest + 1;
        let mut object = Map::new();
        object.insert("seq".into(), seq.into());
        object.insert("event".into(), name.into());
        match &self.subject {
            Subject::Session(id) => object.insert("session".into(), id.as_str().into()),
            Subject::Run(id) => object.insert("run".into(), id.as_str().into()),
        };
        if let Some(cell) = cell {
            object.insert("cell".into(), cell.into());
        }
        for (key, value) in fields {
            object.entry(key).or_insert(value);
        }
        let event = RingEvent {
            seq,
            name: name.to_owned(),
            cell,
            json: Value::Object(object).to_string(),
        };
        state.push(event);
        drop(state);
        self.newest.send_modify(|newest| newest.seq = seq);
        seq
    }

    /// Adds an event with the fields of a JSON object.
    pub(crate) fn publish_json(&self, name: &str, cell: Option<u64>, fields: Value) -> u64 {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        self.publish(name, cell, fields)
    }

    /// No more events follow: readers end when they have read the rest.
    pub(crate) fn close(&self) {
        self.newest.send_modify(|newest| newest.is_closed = true);
    }

    /// The number of the newest event; that of the event before the first where there is none.
    pub(crate) fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// The number after which every event is in the ring.
    pub(crate) fn oldest_after(&self) -> u64 {
        self.lock().oldest_after()
    }

    /// The next events after a number, in order. An empty list: there are none yet.
    pub(crate) fn read_after(&self, after: u64) -> Result<Vec<Arc<RingEvent>>, EventsGone> {
        let state = self.lock();
        let oldest_after = state.oldest_after();
        if after < oldest_after || after > state.newest {
            return Err(EventsGone { oldest_after });
        }
        let skip = usize::try_from(after - oldest_after).unwrap_or(usize::MAX);
        Ok(state
            .events
            .iter()
            .skip(skip)
            .take(MAX_READ)
            .cloned()
            .collect())
    }

    /// Waits until there is an event after this number. `false`: none will come.
    pub(crate) async fn has_more_after(&self, after: u64) -> bool {
        let mut watch = self.newest.subscribe();
        let changed = watch
            .wait_for(|newest| newest.seq > after || newest.is_closed)
            .await;
        changed.is_ok_and(|newest| newest.seq > after)
    }

    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RingState {
    fn push(&mut self, event: RingEvent) {
        self.newest = event.seq;
        self.bytes += event.json.len();
        self.events.push_back(Arc::new(event));
        // The newest event stays, however large it is.
        while self.events.len() > 1
            && (self.events.len() > self.max_events || self.bytes > self.max_bytes)
        {
            if let Some(old) = self.events.pop_front() {
                self.bytes -= old.json.len();
            }
        }
    }

    fn oldest_after(&self) -> u64 {
        self.newest - u64::try_from(self.events.len()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{EventRing, EventsGone, Subject};
    use proptest::prelude::*;
    use serde_json::Map;

    fn ring(max_events: usize) -> EventRing {
        EventRing::bounded(Subject::Session("s".into()), 0, max_events, 1 << 20)
    }

    #[test]
    fn a_reader_that_is_behind_the_oldest_event_is_told_where_to_begin() {
        let ring = ring(3);
        for _ in 0..5 {
            ring.publish("log", None, Map::new());
        }
        assert_eq!(ring.read_after(1), Err(EventsGone { oldest_after: 2 }));
        let seqs: Vec<u64> = ring
            .read_after(2)
            .unwrap_or_default()
            .iter()
            .map(|event| event.seq)
            .collect();
        assert_eq!(seqs, [3, 4, 5]);
    }

    #[test]
    fn a_number_of_an_earlier_or_later_life_is_gone() {
        let ring = EventRing::new(Subject::Session("s".into()), 1);
        ring.publish("log", None, Map::new());
        let oldest_after = 1 << 40;
        assert_eq!(ring.read_after(7), Err(EventsGone { oldest_after }));
        assert_eq!(
            ring.read_after(oldest_after + 9),
            Err(EventsGone { oldest_after })
        );
        assert_eq!(
            ring.read_after(oldest_after).map(|events| events.len()),
            Ok(1)
        );
    }

    #[test]
    fn one_large_event_does_not_empty_the_ring_for_good() {
        let ring = EventRing::bounded(Subject::Session("s".into()), 0, 10, 100);
        let large = Map::from_iter([("text".to_owned(), "x".repeat(1_000).into())]);
        ring.publish("stdout", None, large);
        assert_eq!(ring.read_after(0).map(|events| events.len()), Ok(1));
        ring.publish("log", None, Map::new());
        assert_eq!(ring.oldest_after(), 1);
    }

    proptest! {
        /// Whatever is published between two reads, and wherever a reader stops: what it reads is what was published.
        #[test]
        fn a_reader_that_stops_and_goes_on_loses_and_repeats_nothing(
            bursts in prop::collection::vec(0_usize..400, 1..20),
            cuts in prop::collection::vec(1_usize..300, 1..20),
        ) {
            let ring = ring(10_000);
            let (mut read, mut after, mut published) = (Vec::new(), 0, 0_u64);
            for (index, burst) in bursts.iter().enumerate() {
                for _ in 0..*burst {
                    published = ring.publish("stdout", None, Map::new());
                }
                // The connection is cut after so many events; the rest of what was sent is lost.
                let cut = cuts[index % cuts.len()];
                for event in ring.read_after(after).unwrap_or_default().iter().take(cut) {
                    read.push(event.seq);
                    after = event.seq;
                }
            }
            while after < published {
                for event in ring.read_after(after).unwrap_or_default() {
                    read.push(event.seq);
                    after = event.seq;
                }
            }
            prop_assert_eq!(read, (1..=published).collect::<Vec<_>>());
        }
    }
}
