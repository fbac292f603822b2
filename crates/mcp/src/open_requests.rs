//! The requests of a peer that are not over: those without an answer, and those whose answer the peer has not read.

use rmcp::model::RequestId;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the open requests of one peer. An answer is counted apart from its id: a peer that uses an id again, or cancels a request that
/// is answered already, takes no answer back that waits to be read.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    unanswered: HashSet<RequestId>,
    unread: Arc<AtomicUsize>,
}

impl OpenRequests {
    /// How many requests are open.
    pub(crate) fn count(&self) -> usize {
        self.unanswered.len() + self.unread.load(Ordering::SeqCst)
    }

    /// Whether a request with this id has no answer yet.
    pub(crate) fn is_unanswered(&self, id: &RequestId) -> bool {
        self.unanswered.contains(id)
    }

    /// Counts a request that came.
    pub(crate) fn begin(&mut self, id: RequestId) {
        self.unanswered.insert(id);
    }

    /// Forgets a request that the peer cancels, if it has no answer: `rmcp` sends none then.
    pub(crate) fn cancel(&mut self, id: &RequestId) {
        self.unanswered.remove(id);
    }

    /// Counts an answer as unread until the value that is returned is dropped.
    pub(crate) fn answer(&mut self, id: Option<&RequestId>) -> UnreadAnswer {
        if let Some(id) = id {
            self.unanswered.remove(id);
        }
        self.unread.fetch_add(1, Ordering::SeqCst);
        UnreadAnswer(Arc::clone(&self.unread))
    }
}

/// An answer that waits until the peer reads it.
pub(crate) struct UnreadAnswer(Arc<AtomicUsize>);

impl Drop for UnreadAnswer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
