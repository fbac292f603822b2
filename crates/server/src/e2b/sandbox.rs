//! Sandboxes: sessions with the properties that E2B gives them, kept in memory until they are ended.

use super::contexts::CodeContext;
use super::metrics::ProcessorSample;
use super::network_hint::NetworkHint;
use super::uploads::Uploads;
use super::watch::DirectoryWatcher;
use crate::auth::Caller;
use crate::live::LiveSession;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, OnceCell};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most files of one sandbox that have metadata.
pub(super) const MAX_FILES_WITH_METADATA: usize = 10_000;

/// All sandboxes of the server.
#[derive(Debug, Default)]
pub(crate) struct Sandboxes {
    running: Mutex<HashMap<String, Arc<Sandbox>>>,
    pub(super) uploads: Arc<Uploads>,
}

/// A sandbox of one user.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) caller: Caller,
    pub(super) live: Arc<LiveSession>,
    pub(super) settings: Settings,
    /// How much new data may be on its disk, in bytes.
    pub(super) disk: u64,
    /// The secret that requests to the services inside the sandbox carry.
    pub(super) token: String,
    pub(super) started_at: SystemTime,
    pub(super) life: Mutex<Lifetime>,
    /// Wakes the task that ends the sandbox when the end has moved.
    pub(super) end_moved: Notify,
    /// Cancelled when the sandbox is ended: streams of its output break off.
    pub(super) gone: CancellationToken,
    pub(super) contexts: Mutex<Vec<Arc<CodeContext>>>,
    pub(super) watchers: Mutex<HashMap<String, Arc<DirectoryWatcher>>>,
    pub(super) file_metadata: Mutex<FileMetadata>,
    pub(super) network_hint: NetworkHint,
    /// The processor time at the last look.
    pub(super) processor_sample: Mutex<ProcessorSample>,
    /// Whether programs of the sandbox find `node`, once it was looked for.
    pub(super) has_node: OnceCell<bool>,
}

/// Names and values that a client gave to a file, by the file's path.
pub(super) type FileMetadata = BTreeMap<String, BTreeMap<String, String>>;

/// What a sandbox was created with. Forks and snapshots have it too.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) template: String,
    /// The environment of Python that the template means; `None` is that of the server.
    pub(super) env: Option<String>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) at_end: AtEnd,
    pub(super) resume: Resume,
    pub(super) internet: Internet,
    /// Hosts that the creator wants to be reached, also where all others are denied.
    pub(super) allowed_hosts: Vec<String>,
    /// Hosts that the creator wants not to be reached.
    pub(super) denied_hosts: Vec<String>,
}

/// What happens when the time of a sandbox is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtEnd {
    Kill,
    Pause,
}

/// What resumes a paused sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// Only a request that says so.
    WhenAsked,
    /// Any request to the services inside it.
    ByAnyRequest,
}

/// Whether the client asked for the internet, which E2B gives by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Internet {
    Wanted,
    Refused,
}

/// How long a sandbox lives, and whether it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    /// Not a time of day: the clock of the machine may be set while the sandbox lives.
    pub(super) ends_at: Instant,
    pub(super) state: RunState,
}

impl Lifetime {
    /// The time until the end.
    pub(super) fn left(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }
}

/// Whether a sandbox runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    Running,
    Paused,
}

impl RunState {
    pub(super) fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Paused => "paused",
        }
    }
}

/// What a snapshot of a sandbox keeps beside the state of its session.
#[derive(Clone, Debug)]
pub(crate) struct SandboxState {
    pub(super) settings: Settings,
    pub(super) file_metadata: FileMetadata,
}

impl Sandbox {
    /// How long the sandbox lives, and whether it runs.
    pub(super) fn life(&self) -> Lifetime {
        *lock(&self.life)
    }

    pub(super) fn set_state(&self, state: RunState) {
        lock(&self.life).state = state;
    }

    /// Moves the end to this long from now.
    pub(super) fn set_timeout(&self, timeout: Duration) {
        lock(&self.life).ends_at = Instant::now() + timeout;
        self.end_moved.notify_one();
    }

    /// Moves the end to this long from now, unless it is later already.
    pub(super) fn extend(&self, timeout: Duration) {
        let wanted = Instant::now() + timeout;
        {
            let mut life = lock(&self.life);
            life.ends_at = life.ends_at.max(wanted);
        }
        self.end_moved.notify_one();
    }
}

impl Sandboxes {
    pub(super) fn insert(&self, sandbox: Arc<Sandbox>) {
        lock(&self.running).insert(sandbox.id.clone(), sandbox);
    }

    /// The sandbox with this id, unless its session has ended.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Sandbox>> {
        let found = lock(&self.running).get(id).cloned();
        found.filter(|sandbox| sandbox.live.session.end().is_none())
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<Sandbox>> {
        lock(&self.running).remove(id)
    }

    /// All sandboxes whose session lives.
    pub(super) fn all(&self) -> Vec<Arc<Sandbox>> {
        let mut running = lock(&self.running);
        running.retain(|_, sandbox| sandbox.live.session.end().is_none());
        running.values().cloned().collect()
    }
}

/// Locks what a panic of another request may have left locked: its values are whole at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
