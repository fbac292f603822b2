//! The part of a session that its handles and its task share.

use crate::container::image_python::SessionImage;
use crate::journal::Recorder;
use crate::live::SessionBase;
use crate::network::HostRequests;
use crate::packages::Packages;
use cellblock_network::Connection;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::broadcast;

/// The part of a session that its handles and its task share.
#[derive(Debug)]
pub(crate) struct SessionShared {
    /// What the session had before it had a handle.
    pub(crate) base: Arc<SessionBase>,
    pub(crate) id: String,
    /// The connections that the guard of the network saw.
    pub(crate) connections: broadcast::Sender<Arc<Connection>>,
    /// The requests of code for hosts that no rule names.
    pub(crate) host_requests: Arc<HostRequests>,
    /// The reason why the session ended, once it has.
    pub(crate) end: OnceLock<String>,
    pub(crate) journal: Recorder,
    /// Whether the cells are a replay, so that none waits for a checkpoint.
    pub(crate) is_replaying: AtomicBool,
    pub(crate) packages: Packages,
    /// The image of its container, if the session is in one.
    pub(crate) image: Option<SessionImage>,
    /// What a fork does not have of its parent.
    pub(crate) not_copied: Vec<String>,
    /// The watches of paths that there are, as many as this is shared by.
    pub(crate) watches: Arc<()>,
    /// The time of a cell that names none.
    pub(crate) wall: Duration,
}
