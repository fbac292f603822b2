//! A live session: what there is of a session from the start of its processes to their end.
//!
//! A live session can make checkpoints and be ended. It has no name and no handle yet, so it can wait in the pool. The task of a
//! session ([`Actor`](crate::actor::Actor)) owns one, and adds what a user brings: options, commands, cells.

mod base;
mod file_changes;
pub(crate) mod head;
mod head_process;

pub(crate) use base::SessionBase;

use crate::checkpoint::Checkpoints;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::disk::Disk;
use crate::files::shared_history::SharedHistory;
use crate::live::head::Head;
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use crate::wire::init_link::InitLink;
use cellblock_sandbox::{Cgroup, SpawnRequest};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long init may take to end everything in a session. A fork bomb takes 30 ms.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// A session whose processes run. Dropping it closes init's socket, and init then ends them; [`end_parts`](LiveSession::end_parts)
/// waits until they are gone.
pub(crate) struct LiveSession {
    /// The first field: the directory is removed before anything else is dropped.
    pub(crate) directory: SessionDirectory,
    pub(crate) base: Arc<SessionBase>,
    pub(crate) init: InitLink,
    pub(crate) head: Head,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) files: SessionFiles,
    pub(crate) placement: Placement,
}

impl LiveSession {
    /// Ends what runs for the session: its processes, and the tasks that hold its files. Returns when they are gone.
    pub(crate) async fn end_parts(&mut self) {
        self.end_processes().await;
        self.placement.process_host.end().await;
        self.files.end_preserve_task().await;
        self.files.return_borrowed().await;
    }
}

/// The host's own directory of a session: spilled output, copies of files. It is removed when this is dropped.
pub(crate) struct SessionDirectory(PathBuf);

impl SessionDirectory {
    pub(crate) fn new(path: PathBuf) -> SessionDirectory {
        SessionDirectory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        let _ = cellblock_sandbox::remove_directory(&self.0);
    }
}

/// The files of a session: what they take on disk, their earlier versions, and what is borrowed for them.
pub(crate) struct SessionFiles {
    pub(crate) disk: Disk,
    pub(crate) history: SharedHistory,
    /// Copies files of the user's before they are changed. The task ends when init is done with the session.
    pub(crate) preserve_task: Option<JoinHandle<()>>,
    /// A directory of the user's that belongs to the session's user for as long as the session works in it.
    pub(crate) borrowed: Option<BorrowedDirectory>,
    /// Whether code of the session could run on when the last cell ended.
    pub(crate) is_left_running: bool,
}

impl SessionFiles {
    /// Waits until the task that copies files has ended: its copies are in the session's directory.
    pub(crate) async fn end_preserve_task(&mut self) {
        if let Some(preserve_task) = self.preserve_task.take() {
            let _ = timeout(SWEEP_LIMIT, preserve_task).await;
        }
    }

    /// Gives what is borrowed back to its owner.
    async fn return_borrowed(&mut self) {
        if let Some(borrowed) = self.borrowed.take() {
            let _ = tokio::task::spawn_blocking(move || drop(borrowed)).await;
        }
    }
}

/// The place of a session's processes, and their bounds.
pub(crate) struct Placement {
    pub(crate) process_host: ProcessHost,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    /// The session that this one was forked from, and what its own forks will have.
    pub(crate) lineage: Lineage,
    /// The walls around the session, in the words of a result.
    pub(crate) isolation: String,
    /// What the session's processes were made by, and a spawner will be; `None` in a container.
    pub(crate) spawn_request: Option<SpawnRequest>,
}

impl Placement {
    /// How often the kernel ended a process of the session for want of memory.
    pub(crate) fn memory_kills(&self) -> u64 {
        let cgroup = self.cgroup.as_ref();
        cgroup.map_or(0, |cgroup| cgroup.memory_kills())
    }
}
