//! The processes of a session, as the host finds them from outside.

use cellblock_sandbox::SessionProcesses;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::task::{JoinHandle, spawn_blocking};

/// The session's processes, found when they are first needed: most cells end before that.
#[derive(Debug)]
pub(crate) struct Processes {
    seek: Seek,
    /// The path of the workspace, as the processes know it.
    pub(crate) workspace: PathBuf,
    found: Arc<OnceLock<Option<SessionProcesses>>>,
}

/// Where to look for them.
#[derive(Debug)]
enum Seek {
    /// Below the launcher with this id: the init with the other id.
    Below { launcher: u32, init: u32 },
    /// Another task looks for them.
    Nowhere,
}

impl Processes {
    /// Those of the session whose init has the id `init` where the launcher lives.
    pub(crate) fn of(launcher: u32, init: u32, workspace: &Path) -> Processes {
        Processes {
            workspace: workspace.to_owned(),
            seek: Seek::Below { launcher, init },
            found: Arc::default(),
        }
    }

    /// The inodes of all files on this file system that they have open or map shared, if that can be told.
    pub(crate) fn held_files(&self, device: u64) -> Option<HashSet<u64>> {
        self.find()?.held_files(device)
    }

    /// Those of a container whose first process has this id here, if it has one.
    pub(crate) fn of_container(first: Option<u32>, workspace: &Path) -> Processes {
        Processes {
            workspace: workspace.to_owned(),
            seek: Seek::Nowhere,
            found: Arc::new(OnceLock::from(first.map(SessionProcesses::below))),
        }
    }

    /// Those of the fork that this session made last, and the task that looks for them. Until the task is over, none are found.
    pub(crate) fn youngest_fork(self: Arc<Processes>) -> (Processes, JoinHandle<()>) {
        let found = Arc::new(OnceLock::new());
        let result = Arc::clone(&found);
        let workspace = self.workspace.clone();
        let search = spawn_blocking(move || {
            let _ = result.set(self.find().and_then(SessionProcesses::youngest_fork));
        });
        let fork = Processes {
            seek: Seek::Nowhere,
            found,
            workspace,
        };
        (fork, search)
    }

    /// Whether another task looks for them, and has not found them yet.
    pub(crate) fn are_sought_elsewhere(&self) -> bool {
        matches!(self.seek, Seek::Nowhere) && self.found.get().is_none()
    }

    /// Looks for them, unless that was done before.
    pub(crate) fn find(&self) -> Option<SessionProcesses> {
        match self.seek {
            Seek::Below { launcher, init } => *self
                .found
                .get_or_init(|| SessionProcesses::find(launcher, init)),
            Seek::Nowhere => self.found.get().copied().flatten(),
        }
    }
}
