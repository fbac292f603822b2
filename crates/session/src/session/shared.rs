//! The part of a session that its handles and its task share.

use crate::container::image_python::SessionImage;
use crate::events::SessionEvents;
use crate::files::watch::Watcher;
use crate::files::workspace::Workspace;
use crate::journal::Recorder;
use crate::network::HostRequests;
use crate::packages::Packages;
use crate::paths::Layout;
use crate::processes::Processes;
use cellblock_network::Connection;
use cellblock_protocol::Rung;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::broadcast;

/// The part of a session that its handles and its task share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: String,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) layout: Layout,
    pub(crate) rung: Rung,
    pub(crate) logs: SessionEvents,
    /// The connections that the guard of the network saw.
    pub(crate) connections: broadcast::Sender<Arc<Connection>>,
    /// The requests of code for hosts that no rule names.
    pub(crate) host_requests: Arc<HostRequests>,
    /// The reason why the session ended, once it has.
    pub(crate) end: OnceLock<String>,
    pub(crate) journal: Recorder,
    /// Whether the cells are a replay, so that none waits for a checkpoint.
    pub(crate) is_replaying: AtomicBool,
    /// Whether the host wrote to the session's `/dev/shm` since the newest checkpoint, which would take that back.
    pub(crate) has_written_to_memory: AtomicBool,
    /// The interpreter.
    pub(crate) python: PathBuf,
    pub(crate) packages: Packages,
    /// The image of its container, if the session is in one.
    pub(crate) image: Option<SessionImage>,
    pub(crate) watcher: Arc<Watcher>,
    /// The watches of paths that there are, as many as this is shared by.
    pub(crate) watches: Arc<()>,
    pub(crate) processes: Arc<Processes>,
    /// The time of a cell that names none.
    pub(crate) wall: Duration,
}
