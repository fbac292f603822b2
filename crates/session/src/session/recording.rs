//! The journal of a session, through its handle.

use super::Session;
use crate::journal::{JournalError, JournalRecord, JournalSink, JournalStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Session {
    /// The journal of the session, if it keeps one.
    pub fn journal(&self) -> Option<JournalStatus<'_>> {
        self.shared.journal.status()
    }

    /// Brings all later records of the session's journal to a second place, before the session answers what made them. A session without
    /// a journal makes no records. Only the first call counts. Forks begin without a second place.
    pub fn commit_to(&self, sink: Arc<dyn JournalSink>) {
        self.shared.journal.commit_to(sink);
    }

    /// All records of the session's journal so far. Without a journal there are none.
    pub async fn records(&self) -> Result<Vec<JournalRecord>, JournalError> {
        self.shared.journal.records().await
    }

    /// Whether the next cells wait for a checkpoint before them, as the session's options say, or not, because they are recorded cells
    /// that can be run again. A checkpoint costs several milliseconds, a small cell half of one.
    pub fn set_replaying(&self, is_replaying: bool) {
        self.shared
            .is_replaying
            .store(is_replaying, Ordering::SeqCst);
    }
}
