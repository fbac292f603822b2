//! Limits the number of connections: one limit before a client has sent the token, another one after.
//!
//! Every connection begins as unauthenticated. When there are too many of these, the oldest is closed: a client with the token sends it
//! at once, and clients that send nothing must not keep it waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The most connections that have sent the token.
const MAX_AUTHENTICATED: usize = 256;
/// The most connections that have not sent the token.
const MAX_UNAUTHENTICATED: usize = 64;
/// How long a connection may take to send the token.
const AUTHENTICATION_LIMIT: Duration = Duration::from_secs(5);

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
    waiting: VecDeque<(u64, CancellationToken)>,
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

    /// A slot for a new connection. This never fails: when all slots are taken, the oldest unauthenticated connection loses its slot.
    pub(super) fn accept(&self) -> ConnectionSlot {
        let evicted_by_newer = CancellationToken::new();
        let mut unauthenticated = self.unauthenticated();
        let number = unauthenticated.next_number;
        unauthenticated.next_number += 1;
        if unauthenticated.waiting.len() >= MAX_UNAUTHENTICATED
            && let Some((_, oldest)) = unauthenticated.waiting.pop_front()
        {
            oldest.cancel();
        }
        unauthenticated
            .waiting
            .push_back((number, evicted_by_newer.clone()));
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
            .retain(|(waiting, _)| *waiting != number);
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
            () = tokio::time::sleep(AUTHENTICATION_LIMIT) => {}
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

    #[tokio::test]
    async fn the_oldest_connection_without_the_token_is_evicted_and_none_with_it() {
        let connections = Connections::new();
        let authenticated: Vec<ConnectionSlot> = (0..100).map(|_| connections.accept()).collect();
        for slot in &authenticated[..10] {
            // The oldest were evicted by the newest.
            assert!(is_evicted(slot));
        }
        let kept = &authenticated[50..];
        for slot in kept {
            assert_eq!(slot.authenticate(), Ok(()));
            assert_eq!(slot.authenticate(), Ok(()));
        }
        let others: Vec<ConnectionSlot> = (0..1000).map(|_| connections.accept()).collect();
        let left = others.iter().filter(|slot| !is_evicted(slot)).count();
        assert_eq!(left, MAX_UNAUTHENTICATED);
        assert!(!kept.iter().any(is_evicted));
        drop(others);
        assert_eq!(connections.unauthenticated().waiting.len(), 0);
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
