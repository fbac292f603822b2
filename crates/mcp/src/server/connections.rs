//! How many connections clients may have: a small share for those that have not shown the token yet, and one of their own for those that
//! have.
//!
//! Every connection begins in the small share. Where that is full, its oldest one is closed: a client with the token shows it at once,
//! and one that says nothing cannot keep it waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections that have shown the token.
const MAX_PROVEN: usize = 256;
/// Connections that have not.
const MAX_UNPROVEN: usize = 64;
/// How long a connection may take to show the token.
const PROOF_LIMIT: Duration = Duration::from_secs(5);

/// The connections of a server. A handle.
#[derive(Clone)]
pub(super) struct Connections {
    unproven: Arc<Mutex<Unproven>>,
    proven: Arc<Semaphore>,
}

#[derive(Default)]
struct Unproven {
    next_number: u64,
    /// Oldest first.
    waiting: VecDeque<(u64, CancellationToken)>,
}

/// The place of one connection, for as long as this lives.
pub(super) struct Place {
    number: u64,
    connections: Connections,
    /// Is cancelled where the connection must make room for another one.
    displaced: CancellationToken,
    proof: Mutex<Option<OwnedSemaphorePermit>>,
    is_proven: CancellationToken,
}

/// There are too many connections with the token already.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPlace;

impl Connections {
    pub(super) fn new() -> Connections {
        Connections {
            unproven: Arc::default(),
            proven: Arc::new(Semaphore::new(MAX_PROVEN)),
        }
    }

    /// A place for a connection that has shown nothing yet. There always is one; the oldest such connection may lose its own.
    pub(super) fn enter(&self) -> Place {
        let displaced = CancellationToken::new();
        let mut unproven = self.unproven();
        let number = unproven.next_number;
        unproven.next_number += 1;
        if unproven.waiting.len() >= MAX_UNPROVEN
            && let Some((_, oldest)) = unproven.waiting.pop_front()
        {
            oldest.cancel();
        }
        unproven.waiting.push_back((number, displaced.clone()));
        drop(unproven);
        Place {
            number,
            connections: self.clone(),
            displaced,
            proof: Mutex::new(None),
            is_proven: CancellationToken::new(),
        }
    }

    fn leave(&self, number: u64) {
        let mut unproven = self.unproven();
        unproven.waiting.retain(|(waiting, _)| *waiting != number);
    }

    fn unproven(&self) -> MutexGuard<'_, Unproven> {
        self.unproven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The client has shown the token: from now on the connection stays, however many others come.
    pub(super) fn prove(&self) -> Result<(), NoPlace> {
        let mut proof = self.proof.lock().unwrap_or_else(PoisonError::into_inner);
        if proof.is_none() {
            let permit = Arc::clone(&self.connections.proven).try_acquire_owned();
            *proof = Some(permit.map_err(|_| NoPlace)?);
            self.connections.leave(self.number);
            self.is_proven.cancel();
        }
        Ok(())
    }

    /// Ends when the connection has to go: it showed no token in time, or others came. Never, once it has shown the token.
    pub(super) async fn has_to_go(&self) {
        tokio::select! {
            biased;
            () = self.is_proven.cancelled() => std::future::pending().await,
            () = self.displaced.cancelled() => {}
            () = tokio::time::sleep(PROOF_LIMIT) => {}
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};

    fn has_gone(place: &Place) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let going = std::pin::pin!(place.has_to_go());
        going.poll(&mut context) == Poll::Ready(())
    }

    #[tokio::test]
    async fn the_oldest_without_the_token_makes_room_and_none_with_it_does() {
        let connections = Connections::new();
        let proven: Vec<Place> = (0..100).map(|_| connections.enter()).collect();
        for place in &proven[..10] {
            // Some are displaced before they prove anything; these are not.
            assert!(has_gone(place));
        }
        let kept = &proven[50..];
        for place in kept {
            assert_eq!(place.prove(), Ok(()));
            assert_eq!(place.prove(), Ok(()));
        }
        let strangers: Vec<Place> = (0..1000).map(|_| connections.enter()).collect();
        let left = strangers.iter().filter(|place| !has_gone(place)).count();
        assert_eq!(left, MAX_UNPROVEN);
        assert!(!kept.iter().any(has_gone));
        drop(strangers);
        assert_eq!(connections.unproven().waiting.len(), 0);
    }

    #[tokio::test]
    async fn there_is_an_end_to_those_with_the_token_too() {
        let connections = Connections::new();
        let enter = || {
            let place = connections.enter();
            place.prove().map(|()| place)
        };
        let mut places: Vec<_> = (0..MAX_PROVEN).map(|_| enter()).collect();
        assert!(places.iter().all(Result::is_ok));
        assert!(enter().is_err());
        places.pop();
        assert!(enter().is_ok());
    }
}
