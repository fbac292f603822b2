//! The plan of a session, before its processes are spawned.

use crate::checkpoint::arming::OWN_MEMORY;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::history::ChangeNotice;
use crate::files::workspace::Workspace;
use crate::network::{self, NetworkListeners};
use crate::runtime::RuntimeState;
use crate::{Error, Refusal};
use cellblock_protocol::{Rung, SessionOptions, Wall};
use cellblock_sandbox::{Cgroup, CgroupLimits, SpawnRequest};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

/// Our own processes in a session: init, the head, and what the interpreter starts for itself.
const OWN_PROCESSES: u64 = 4;

/// The user and the directories of a session that is to be spawned.
pub(crate) struct SpawnTarget<'a> {
    pub(crate) user: u32,
    pub(crate) workspace: &'a Workspace,
    pub(crate) change_notice: ChangeNotice,
    pub(crate) directory: &'a Path,
}

/// The plan of a session.
pub(crate) struct Plan {
    pub(crate) spawn_request: SpawnRequest,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    pub(crate) borrowed: Option<BorrowedDirectory>,
}

impl RuntimeState {
    /// Makes the request for the native code, and the cgroup.
    pub(crate) fn plan(
        &self,
        id: &str,
        options: &SessionOptions,
        target: &SpawnTarget<'_>,
    ) -> Result<Plan, Error> {
        let &SpawnTarget {
            user,
            workspace,
            change_notice,
            directory,
        } = target;
        let limits = &options.limits;
        let walled = |wall| !self.isolation.without.contains(&wall);
        // Standbys are copies: what they hold beyond the head has a budget of its own.
        let together = limits
            .memory
            .saturating_add(limits.checkpoint_budget())
            .saturating_add(OWN_MEMORY);
        if limits.cpus.is_some() {
            self.can_limit_cpus()?;
        }
        let cgroup = match &self.cgroups {
            Some(cgroups) if self.rung != Rung::None && walled(Wall::Memory) => {
                let most = if walled(Wall::ProcessCount) {
                    limits.processes + OWN_PROCESSES + limits.checkpoints
                } else {
                    1 << 20
                };
                let limits = CgroupLimits {
                    memory: together,
                    processes: most,
                    cpus: limits.cpus,
                };
                Some(Arc::new(cgroups.create(&unique(id, user), limits)?))
            }
            _ => None,
        };
        let has_view = self.has_view();
        let working_directory = if has_view {
            self.place.as_path().to_owned()
        } else {
            workspace.path().to_owned()
        };
        let borrowed = self.lend_to_shared_user(workspace, directory)?;
        let mut spawn_request = SpawnRequest::new(self.walls, &working_directory)?
            .user(user)
            .memory(limits.memory, if cgroup.is_some() { 0 } else { together })
            .counts(
                limits.processes + OWN_PROCESSES + limits.checkpoints,
                limits.open_files,
            )
            .disk(limits.disk, limits.disk.min(limits.memory / 2));
        if has_view {
            spawn_request = spawn_request
                .keep_visible(&self.view)?
                .mounted(Path::new("/"))?;
        } else {
            let private = directory.join("tmp");
            match DirBuilder::new().mode(0o700).create(&private) {
                // From an attempt before; it is the session's already.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(|source| Error::Storage {
                    what: "making a temporary directory",
                    path: private.clone(),
                    source,
                })?,
            }
            self.give_to_session(&private)?;
            for path in self.readable_paths() {
                spawn_request = spawn_request.readable(&path)?;
            }
            for path in [
                workspace.path(),
                &private,
                Path::new("/dev/null"),
                Path::new("/dev/urandom"),
                Path::new("/dev/random"),
            ] {
                spawn_request = spawn_request.writable(path)?;
            }
            // A shared map of this device needs a descriptor for writing. Its pages may be shown by no process, so init could not count them.
            let zeros = Path::new("/dev/zero");
            spawn_request = match cgroup {
                Some(_) => spawn_request.writable(zeros)?,
                None => spawn_request.readable(zeros)?,
            };
        }

        if change_notice == ChangeNotice::BeforeChange {
            spawn_request = spawn_request.keeps();
        }
        if options.has_network() {
            self.can_guard_network()?;
            network::refuse_addresses(&options.network)?;
            spawn_request = NetworkListeners::of(options).ask_for(spawn_request)?;
        }
        Ok(Plan {
            spawn_request,
            cgroup,
            borrowed,
        })
    }

    fn can_limit_cpus(&self) -> Result<(), Error> {
        let is_walled = self.rung != Rung::None && !self.isolation.without.contains(&Wall::Memory);
        match &self.cgroups {
            Some(cgroups) if is_walled && cgroups.can_limit_cpus() => Ok(()),
            _ => Err(Error::Refused(Refusal::CpuLimit)),
        }
    }

    /// A guard stands at the end of a way that only a network of the session's own can have.
    pub(crate) fn can_guard_network(&self) -> Result<(), Error> {
        if self.has_view() && !self.isolation.without.contains(&Wall::Network) {
            return Ok(());
        }
        let isolation = self.described.clone();
        Err(Error::Refused(Refusal::NetworkRules { isolation }))
    }

    /// Whether init can be asked before files are changed that are the user's or, when there are forks, theirs too. Where there are
    /// none, there is nothing to ask about.
    pub(crate) fn change_notice(&self, workspace: &Workspace) -> ChangeNotice {
        let walled = |wall| !self.isolation.without.contains(&wall);
        let can_be = self.rung != Rung::None && walled(Wall::Seccomp) && walled(Wall::Signals);
        let has_files = workspace.is_user_directory() && !workspace.is_empty();
        if can_be && (has_files || SpawnRequest::can_fork(self.walls)) {
            ChangeNotice::BeforeChange
        } else {
            ChangeNotice::Never
        }
    }
}

fn unique(id: &str, user: u32) -> String {
    format!("{id}-{user}")
}
