//! Limits the number of connections: one limit before a client has sent the token, another one after.
//!
//! Every connection begins as unauthenticated. When there are too many of these, the oldest are closed: a client with the token sends it
//! at once, and clients that send nothing must not keep it waiting. A connection that has just come is left open for a moment, also
//! when very many come at once: its request may be on the way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The most connections that have sent the token.
const MAX_AUTHENTICATED: usize = 256;
/// The most connections that have not sent the token and had time for it.
const MAX_UNAUTHENTICATED: usize = 64;
/// The most connections that have not sent the token, however new they are.
const MAX_NEW: usize = 256;
/// How long a new connection is left open, while there are not [too many](MAX_NEW) of them.
const TIME_FOR_A_REQUEST: Duration = Duration::from_millis(200);
/// How long a connection may take to send the token.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Counts the connections of a server. Clones share the count.
#[derive(Clone)]
pub(super) struct Connections {
    unauthenticated: Arc<Mutex<Unauthenticated>>,
    authenticated: Arc<Semaphore>,
}

#[derive(Default)]
struct Unauthenticated {
    next_number: u64,
    /// Oldest first.
    waiting: VecDeque<UnauthenticatedConnection>,
}

/// A connection that has not sent the token.
struct UnauthenticatedConnection {
    number: u64,
    since: Instant,
    evicted_by_newer: CancellationToken,
}

impl Unauthenticated {
    /// Closes the oldest connections, so that there is a slot for one more.
    fn make_space(&mut self, now: Instant) {
        while let Some(oldest) = self.waiting.front() {
            let had_time = now.saturating_duration_since(oldest.since) >= TIME_FOR_A_REQUEST;
            let most = if had_time {
                MAX_UNAUTHENTICATED
            } else {
                MAX_NEW
            };
            if self.waiting.len() < most {
                break;
            }
            if let Some(oldest) = self.waiting.pop_front() {
                oldest.evicted_by_newer.cancel();
            }
        }
    }
}

/// The slot of one connection. Dropping it frees the slot.
pub(super) struct ConnectionSlot {
    number: u64,
    connections: Connections,
    /// Cancelled when a newer connection takes the slot.
    evicted_by_newer: CancellationToken,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    is_authenticated: CancellationToken,
}

/// As many connections as allowed have sent the token already.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyConnections;

impl Connections {
    pub(super) fn new() -> Connections {
        Connections {
            unauthenticated: Arc::default(),
            authenticated: Arc::new(Semaphore::new(MAX_AUTHENTICATED)),
        }
    }

    /// A slot for a new connection. This never fails: when all slots are taken, the oldest unauthenticated connections lose theirs.
    pub(super) fn accept(&self) -> ConnectionSlot {
        self.accept_at(Instant::now())
    }

    fn accept_at(&self, now: Instant) -> ConnectionSlot {
        let evicted_by_newer = CancellationToken::new();
        let mut unauthenticated = self.unauthenticated();
        let number = unauthenticated.next_number;
        unauthenticated.next_number += 1;
        unauthenticated.make_space(now);
        unauthenticated
            .waiting
            .push_back(UnauthenticatedConnection {
                number,
                since: now,
                evicted_by_newer: evicted_by_newer.clone(),
            });
        drop(unauthenticated);
        ConnectionSlot {
            number,
            connections: self.clone(),
            evicted_by_newer,
            permit: Mutex::new(None),
            is_authenticated: CancellationToken::new(),
        }
    }

    fn remove(&self, number: u64) {
        let mut unauthenticated = self.unauthenticated();
        unauthenticated
            .waiting
            .retain(|waiting| waiting.number != number);
    }

    fn unauthenticated(&self) -> MutexGuard<'_, Unauthenticated> {
        self.unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Notes that the client has sent the token. From now on the connection keeps its slot.
    pub(super) fn authenticate(&self) -> Result<(), TooManyConnections> {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_none() {
            let acquired = Arc::clone(&self.connections.authenticated).try_acquire_owned();
            *permit = Some(acquired.map_err(|_| TooManyConnections)?);
            self.connections.remove(self.number);
            self.is_authenticated.cancel();
        }
        Ok(())
    }

    /// Waits until the connection must be closed: it sent no token in time, or newer connections took its slot. Never returns once the
    /// client has sent the token.
    pub(super) async fn evicted(&self) {
        tokio::select! {
            biased;
            () = self.is_authenticated.cancelled() => std::future::pending().await,
            () = self.evicted_by_newer.cancelled() => {}
            () = tokio::time::sleep(AUTHENTICATION_TIMEOUT) => {}
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let going = std::pin::pin!(slot.evicted());
        going.poll(&mut context) == Poll::Ready(())
    }

    fn accept(connections: &Connections, count: usize) -> Vec<ConnectionSlot> {
        let now = Instant::now();
        (0..count).map(|_| connections.accept_at(now)).collect()
    }

    fn count_open(slots: &[ConnectionSlot]) -> usize {
        slots.iter().filter(|slot| !is_evicted(slot)).count()
    }

    #[tokio::test]
    async fn the_oldest_connections_without_the_token_are_evicted_and_none_with_it() {
        let connections = Connections::new();
        let authenticated = accept(&connections, 50);
        for slot in &authenticated {
            assert_eq!(slot.authenticate(), Ok(()));
            assert_eq!(slot.authenticate(), Ok(()));
        }
        let silent = accept(&connections, 200);
        let newest = connections.accept_at(Instant::now() + TIME_FOR_A_REQUEST);
        assert_eq!(count_open(&silent), MAX_UNAUTHENTICATED - 1);
        assert!(!is_evicted(&newest));
        assert_eq!(count_open(&authenticated), authenticated.len());
        drop((silent, newest));
        assert_eq!(connections.unauthenticated().waiting.len(), 0);
    }

    #[tokio::test]
    async fn a_connection_among_many_that_come_at_once_has_time_for_its_request() {
        let connections = Connections::new();
        let client = connections.accept();
        let flood = accept(&connections, MAX_NEW - 1);
        assert!(!is_evicted(&client));
        assert_eq!(client.authenticate(), Ok(()));
        // No more are held open, however new they are.
        let more = accept(&connections, 500);
        assert_eq!(count_open(&flood) + count_open(&more), MAX_NEW);
        assert!(!is_evicted(&client));
    }

    #[tokio::test]
    async fn connections_with_the_token_are_limited_too() {
        let connections = Connections::new();
        let accept = || {
            let slot = connections.accept();
            slot.authenticate().map(|()| slot)
        };
        let mut slots: Vec<_> = (0..MAX_AUTHENTICATED).map(|_| accept()).collect();
        assert!(slots.iter().all(Result::is_ok));
        assert!(accept().is_err());
        slots.pop();
        assert!(accept().is_ok());
    }
}
