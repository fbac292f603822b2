//! A bounded ring of numbered events.

use super::weight::weight;
use cellblock_protocol::{Event, SessionEvent};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The most events that are kept, and the most bytes of memory that they take together. One event that takes more is not kept, however new it
/// is: code of the session decides how large it is. Readers are told of it by an [`EventGap`].
const MAX_EVENTS: usize = 4096;
const MAX_BYTES: usize = 8 << 20;

/// The newest events of a session. Adding one never waits: a reader that is too slow gets an [`EventGap`].
#[derive(Debug, Default)]
pub(crate) struct EventRing {
    kept: Mutex<KeptEvents>,
    /// The number of the newest event, and whether it is the last one.
    newest: watch::Sender<Newest>,
}

#[derive(Debug, Default)]
struct KeptEvents {
    events: VecDeque<Arc<SessionEvent>>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Newest {
    seq: u64,
    is_last: bool,
}

/// Events that a reader wanted are not kept any more, or are not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the events after number {after} are not all there: the session keeps those from {oldest} to {newest}; read on after {}",
    oldest.saturating_sub(1)
)]
pub struct EventGap {
    /// The number after which the reader wanted to read on.
    pub after: u64,
    /// The oldest event that is kept. One more than `newest` when none is.
    pub oldest: u64,
    /// The newest event; 0 when there was none yet.
    pub newest: u64,
}

impl EventRing {
    /// Adds an event, which belongs to the cell with this number or to none, and forgets the oldest ones where there are too many.
    pub(crate) fn push(&self, cell: Option<u64>, event: Event) {
        let mut kept = self.lock();
        let seq = self.newest.borrow().seq + 1;
        kept.bytes += weight(&event);
        kept.events
            .push_back(Arc::new(SessionEvent { seq, cell, event }));
        while kept.events.len() > MAX_EVENTS || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.events.pop_front() else {
                break;
            };
            kept.bytes -= weight(&oldest.event);
        }
        // Under the lock: numbers are given in the order of the queue.
        self.newest.send_modify(|newest| newest.seq = seq);
    }

    /// No event follows: the session is over.
    pub(crate) fn end(&self) {
        self.newest.send_modify(|newest| newest.is_last = true);
    }

    /// The number of the newest event; 0 when there was none yet.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.borrow().seq
    }

    /// A reader of the events after this number; 0 is before the first.
    pub(crate) fn read(self: &Arc<Self>, after: u64) -> Result<EventReader, EventGap> {
        self.event_after(after)?;
        Ok(EventReader {
            newest: self.newest.subscribe(),
            ring: Arc::clone(self),
            after,
        })
    }

    /// The event after this number; `None` when it has not happened yet.
    fn event_after(&self, after: u64) -> Result<Option<Arc<SessionEvent>>, EventGap> {
        let kept = self.lock();
        let newest = self.newest.borrow().seq;
        let oldest = kept.events.front().map_or(newest + 1, |event| event.seq);
        if after + 1 < oldest || after > newest {
            return Err(EventGap {
                after,
                oldest,
                newest,
            });
        }
        let index = usize::try_from(after + 1 - oldest).unwrap_or(usize::MAX);
        Ok(kept.events.get(index).cloned())
    }

    fn lock(&self) -> MutexGuard<'_, KeptEvents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of a session's events. Readers are independent of each other, and none holds the session up.
#[derive(Debug)]
pub struct EventReader {
    ring: Arc<EventRing>,
    newest: watch::Receiver<Newest>,
    after: u64,
}

impl EventReader {
    /// The next event; `None` when the session is over and everything was read. A call that is dropped before it is done loses no
    /// event.
    ///
    /// A reader that is slower than the session gets an [`EventGap`] once for the events that it missed, and goes on with the oldest
    /// one that is kept.
    pub async fn next(&mut self) -> Option<Result<Arc<SessionEvent>, EventGap>> {
        loop {
            // Marked as seen before the look: an event that comes after the look wakes the wait below.
            let is_last = self.newest.borrow_and_update().is_last;
            if let Some(outcome) = self.next_kept() {
                return Some(outcome);
            }
            if is_last || self.newest.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The next event that has happened already; `None` when there is none yet.
    pub fn next_kept(&mut self) -> Option<Result<Arc<SessionEvent>, EventGap>> {
        match self.ring.event_after(self.after) {
            Ok(Some(event)) => {
                self.after = event.seq;
                Some(Ok(event))
            }
            Ok(None) => None,
            Err(gap) => {
                self.after = gap.oldest.saturating_sub(1);
                Some(Err(gap))
            }
        }
    }

    /// The number of the last event that was read: a reader that is made anew goes on after it.
    pub fn position(&self) -> u64 {
        self.after
    }
}
