//! What a cluster needs of its engine, as six small traits.
//!
//! An engine stores and carries bytes. It knows nothing of Python. Two engines exist: [`crate::embedded`] for one machine, and NATS for
//! several (feature `nats`). All outcomes that a caller must tell apart are variants of an error; above all *unknown*, when an engine did not answer and
//! the change may or may not have been made.

mod blobs;
mod directory;
mod events;
mod journals;
mod members;
mod router;

pub use blobs::{Blobs, Digest, MAX_BLOB_BYTES};
pub use directory::{
    ClaimError, Directory, DirectoryReader, Epoch, Followed, Placed, SessionEntry, SessionState,
};
pub use events::{Delivery, EventLog, EventReader};
pub use journals::{AppendError, Journals, MAX_RECORD_BYTES, Sequence, Stored};
pub use members::{Members, Moves, NodeRecord, NodeState, NodeSummary};
pub use router::{Incoming, RequestError, Router, reply_channel};

pub(crate) use blobs::{check_digest as check_blob_digest, check_length as check_blob_length};
pub(crate) use journals::check_length as check_record_length;
pub(crate) use members::note_silence;

use std::sync::Arc;

/// An engine could not do what was asked, and nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// All parts of an engine. A clone is another handle to the same engine.
#[derive(Clone)]
pub struct Engine {
    /// Which node has a session.
    pub directory: Arc<dyn Directory>,
    /// Which nodes live.
    pub members: Arc<dyn Members>,
    /// What was run in a session.
    pub journals: Arc<dyn Journals>,
    /// Requests to nodes.
    pub router: Arc<dyn Router>,
    /// The runs that wait for a node, and which node has which run. [`crate::RunQueue`] works on it.
    pub runs: Arc<dyn Directory>,
    /// Live events of sessions.
    pub events: Arc<dyn EventLog>,
    /// Files and other large values.
    pub blobs: Arc<dyn Blobs>,
}
