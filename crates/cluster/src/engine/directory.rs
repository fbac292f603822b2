//! Which node has a session, changed by compare-and-set.

use super::EngineError;
use crate::names::{NodeId, SessionId};
use crate::runtime::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The number of one ownership of a session. Each claim gets a larger number than all claims before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

/// Whether a session has processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Its node runs its processes.
    Live,
    /// It exists only as its journal. The next request starts it, on any node.
    Asleep,
    /// It has ended.
    Closed,
}

/// What the directory says about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    /// The node that claimed the session.
    pub node: NodeId,
    /// Whether the session has processes there.
    pub state: SessionState,
    /// What the session's first node said about it, for lists: its user, its title. Every later owner keeps it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub about: Value,
}

/// An entry with the epoch of the claim that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The entry.
    pub entry: SessionEntry,
    /// The claim's number.
    pub epoch: Epoch,
}

/// Why a claim failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The entry is not the one that the claim replaces: another node was first.
    #[error("another node claimed the session")]
    Lost,
    /// The engine did not answer. The entry may be written, now or later.
    #[error("whether the session is claimed is not known: {0}")]
    Unknown(String),
}

/// What a reader of a directory gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// An entry that is there or was changed.
    Changed {
        /// The session or run.
        id: SessionId,
        /// The number of the change. It grows from change to change.
        epoch: Epoch,
        /// The entry. `None`: it was removed.
        entry: Option<SessionEntry>,
    },
    /// All entries that were there at the start have been told. What comes now are changes.
    Current,
}

/// A reader of the entries of a directory and their changes.
pub trait DirectoryReader: Send {
    /// Waits for the next change. A dropped future loses none.
    fn next(&mut self) -> BoxFuture<'_, Result<Followed, EngineError>>;
}

/// Which node has which session, or which run: an engine has a directory of each.
///
/// A claim is compare-and-set, so of several nodes that claim the same entry one succeeds. The directory says where to send requests; it
/// does not make a session safe. The journal does that.
pub trait Directory: Send + Sync {
    /// Writes an entry if the current one has the epoch `seen`, or if there is none and `seen` is `None`.
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        seen: Option<Epoch>,
        entry: &'a SessionEntry,
    ) -> BoxFuture<'a, Result<Epoch, ClaimError>>;

    /// The entry of a session. It is as new as any entry that the caller has seen before.
    fn get<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Placed>, EngineError>>;

    /// Removes the entry of what has ended, whatever its epoch is. Epochs go on growing.
    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>>;

    /// All entries. The list may be behind by a moment.
    fn list(&self) -> BoxFuture<'_, Result<Vec<(SessionId, Placed)>, EngineError>>;

    /// Reads all entries, and then each change, in the order of epochs. An entry that changes while it is read may be told once.
    fn follow(&self) -> BoxFuture<'_, Result<Box<dyn DirectoryReader>, EngineError>>;
}
