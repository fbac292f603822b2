//! The journals of sessions, with conditional appends.

use super::EngineError;
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The longest record, in bytes. Larger values are stored as blobs, and the record names their digest.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// The place of a record. Places grow within a journal, but not by one: an engine may count over several journals.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The place before the first record of every journal.
    pub const START: Sequence = Sequence(0);
}

/// A record with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The place.
    pub sequence: Sequence,
    /// The record, byte for byte as it was appended: UTF-8 text.
    pub record: Bytes,
}

/// Why a record was not appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The last record is not at the place that the caller named.
    #[error("the journal has another last record")]
    Conflict,
    /// The engine did not answer. The record may be appended, now or later.
    #[error("whether the record is appended is not known: {0}")]
    Unknown(String),
    /// The record is longer than [`MAX_RECORD_BYTES`].
    #[error("the record has {bytes} bytes, more than {MAX_RECORD_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The record is not UTF-8.
    #[error("the record is not UTF-8")]
    NotText,
}

/// Checks a record's length, for engines.
pub(crate) fn check_length(record: &Bytes) -> Result<(), AppendError> {
    let bytes = record.len();
    if bytes > MAX_RECORD_BYTES {
        return Err(AppendError::TooLarge { bytes });
    }
    Ok(())
}

/// The journals of sessions.
///
/// `append` is conditional, and that is the fence of the whole cluster: a node that lost a session names an old place, and its record is
/// refused, however long the node slept.
pub trait Journals: Send + Sync {
    /// Appends a record if the last record of the journal is at `after`. Returns once the record outlives the loss of a machine (on one
    /// machine: of the process and the power).
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
        record: Bytes,
    ) -> BoxFuture<'a, Result<Sequence, AppendError>>;

    /// The last record. It is as new as any record whose append was acknowledged before the call.
    fn last<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Stored>, EngineError>>;

    /// All records up to a place that exists, in order.
    fn read<'a>(
        &'a self,
        session: &'a SessionId,
        until: Sequence,
    ) -> BoxFuture<'a, Result<Vec<Stored>, EngineError>>;

    /// The names of all journals. The list may be behind by a moment.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionId>, EngineError>>;

    /// Removes a journal with all its records. An append that names one of them as the last is refused from then on.
    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>>;
}
