//! Changes of a session's files during a cell and between cells, and their authors.

use crate::files::disk_guard::WatchTarget;
use crate::files::held_files::HeldFiles;
use crate::files::history::{Author, FileHistory};
use crate::files::own::Own;
use crate::files::tracker::Changes;
use crate::live::LiveSession;
use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

impl LiveSession {
    /// Takes note of the file changes of the cell that just ended: they are part of the state after it.
    pub(crate) async fn note_changes_of(&mut self, cell: u64) -> Changes {
        self.look_for_left_running().await;
        self.take_changes_of(cell).await
    }

    /// The same for a cell that called nothing: it left nothing running that did not run before.
    pub(crate) async fn note_changes_of_pure(&mut self, cell: u64) -> Changes {
        if self.files.is_left_running {
            self.look_for_left_running().await;
        }
        self.take_changes_of(cell).await
    }

    async fn take_changes_of(&mut self, cell: u64) -> Changes {
        let changes = self.files.disk.changes().await;
        // Where the session never goes back, no copies are kept to go back to.
        if !changes.paths.is_empty() && !self.checkpoints.is_disabled() {
            self.files.history.lock().note(cell, changes.paths.clone());
        }
        changes
    }

    /// Takes note of file changes between two cells, by the user or the host: they are part of the state before the next cell.
    pub(crate) async fn note_outside_changes(&mut self) {
        let changes = self.files.disk.changes_between_cells().await;
        if !changes.paths.is_empty() && !self.checkpoints.is_disabled() {
            let cell = self.checkpoints.current();
            let author = match self.files.is_left_running {
                true => Author::Unclear,
                false => Author::Outside,
            };
            self.files
                .history
                .lock()
                .note_between(cell, author, changes.paths);
        }
    }

    /// Looks whether code can run on after the cell that ended. Before what changed is taken for the work of that cell: whatever has ended by
    /// then did nothing later.
    pub(crate) async fn look_for_left_running(&mut self) {
        /// A thread that was joined, and a process that was waited for, may take a moment to go.
        const MAX_LOOKS: u32 = 3;
        const PAUSE: Duration = Duration::from_millis(1);
        /// The processes of a fork are looked for in the background. On a busy machine that takes its time.
        const MAX_SEARCH: u32 = 1000;
        self.files.is_left_running = false;
        for _ in 0..MAX_SEARCH {
            if self.checkpoints.is_disabled() || !self.files.disk.seeks_processes() {
                break;
            }
            sleep(PAUSE).await;
        }
        for look in 1..=MAX_LOOKS {
            if self.checkpoints.is_disabled() {
                return;
            }
            if self.base.processes.has_living() {
                break;
            }
            if !self.files.disk.can_run_on() {
                return;
            }
            if look < MAX_LOOKS {
                sleep(PAUSE).await;
            }
        }
        self.files.is_left_running = true;
    }

    /// Takes note of files that can be changed without being noticed, and of what was written to them by now.
    pub(crate) async fn note_held_files(&mut self, look: Option<JoinHandle<HeldFiles>>) {
        /// A process that is about to end cannot be looked into.
        const MAX_LOOKS: u32 = 4;
        const PAUSE: Duration = Duration::from_millis(5);
        let mut held = found(look).await;
        for _ in 1..MAX_LOOKS {
            held.unknown
                .retain(|pid| !self.checkpoints.is_standby(*pid));
            if held.unknown.is_empty() {
                break;
            }
            sleep(PAUSE).await;
            held = found(self.files.disk.look_for_held_files()).await;
        }
        held.unknown
            .retain(|pid| !self.checkpoints.is_standby(*pid));
        if held.is_empty() {
            self.files.history.lock().held = Some(BTreeSet::new());
            return;
        }
        // A change from outside the session is not the cell's.
        self.note_outside_changes().await;
        let cell = self.checkpoints.current();
        let work = move |files: &mut FileHistory| {
            files.catch_up();
            files.note_held(cell, held);
        };
        // If the host fails at it, that is such a reason as well.
        let _ = self.files.history.with(work).await;
        self.checkpoints.unrestorable_reason = self.files.history.lock().unrestorable_reason();
    }

    /// Holds the session to this many bytes that it may add on disk; `None` is no limit.
    pub(crate) fn guard_disk(&mut self, duty: WatchTarget, limit: Option<u64>) {
        let channel = self.head.channel.descriptor();
        let standbys = self.checkpoints.all_standbys();
        let spawner = self.base.processes.spawner();
        let (spawner, its_socket) = (
            spawner.map(|spawner| spawner.pid),
            spawner.map(|spawner| spawner.socket),
        );
        let own = Own {
            processes: std::iter::once(self.checkpoints.head)
                .chain(standbys.clone().map(|standby| standby.pid))
                .chain(spawner)
                .collect(),
            spawner,
            laid: standbys
                .clone()
                .map(|standby| standby.channel.far)
                .chain([self.head.channel.far()])
                .chain(its_socket)
                .collect(),
            ends: standbys
                .map(|standby| standby.channel.channel.as_raw_fd())
                .chain([channel])
                .collect(),
            started: Some(Arc::clone(&self.base.processes)),
        };
        self.files.disk.guard(duty, limit, own);
    }
}

async fn found(look: Option<JoinHandle<HeldFiles>>) -> HeldFiles {
    match look {
        Some(look) => look.await.unwrap_or_else(|_| HeldFiles {
            // The host failed: any process may hold any file.
            unknown: vec![0],
            ..HeldFiles::default()
        }),
        None => HeldFiles::default(),
    }
}
