//! What a session has from the start of its processes to its end, for the host and for its handles.

use crate::events::SessionEvents;
use crate::files::watch::Watcher;
use crate::files::workspace::Workspace;
use crate::paths::Layout;
use crate::processes::Processes;
use cellblock_protocol::Rung;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The part of a live session that its handles use too. It is the same before and after a user takes the session.
#[derive(Debug)]
pub(crate) struct SessionBase {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) layout: Layout,
    pub(crate) rung: Rung,
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// The session's events, from the first on: the head can print before a user has the session.
    pub(crate) logs: SessionEvents,
    pub(crate) watcher: Arc<Watcher>,
    /// The processes that were spawned beside the head.
    pub(crate) processes: Arc<Processes>,
    /// Whether the host wrote to the session's `/dev/shm` since the newest checkpoint, which would take that back.
    pub(crate) has_written_to_memory: AtomicBool,
}
