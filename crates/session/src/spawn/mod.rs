//! The making of one session.

pub(crate) mod fork;
pub(crate) mod guest;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod prepared;
pub(crate) mod process_host;
pub(crate) mod sockets;
pub(crate) mod zygote;

use crate::events::SessionEvents;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::found_processes::Processes;
use crate::files::history::ChangeNotice;
use crate::files::watched_files::WatchedFiles;
use crate::files::workspace::Workspace;
use crate::network::NetworkListeners;
use crate::packages::Packages;
use crate::runtime::RuntimeState;
use crate::session::Session;
use crate::spawn::fork::{Lineage, UnfinishedDirectories};
use crate::spawn::plan::{Plan, SpawnTarget};
use crate::spawn::prepared::{IsolationSummary, Opening, PreparedSession, SessionParts, prepare};
use crate::spawn::process_host::ProcessHost;
use crate::spawn::sockets::{Sockets, SpawnedSession};
use crate::spawn::zygote::Zygote;
use crate::{Error, WorkspaceProblem};
use cellblock_protocol::{Rung, SessionOptions, UnlistedHosts, Wall, import_statement};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a fork and its walls may take. Milliseconds, but the machine may be busy.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How many zygotes are asked for one session before we give up.
const MAX_ZYGOTES: usize = 3;

impl RuntimeState {
    /// Makes a session, or takes one that waits in the pool, seeds it, and hands out its handle.
    pub(crate) async fn open(
        self: &Arc<Self>,
        mut options: SessionOptions,
    ) -> Result<Session, Error> {
        options.validate()?;
        let imports = options
            .imports
            .iter()
            .map(|entry| import_statement(entry))
            .collect::<Result<Vec<_>, _>>()?;
        if self.can_guard_network().is_err() {
            // There is no way to the network on which code could be asked about.
            options.unlisted_hosts = UnlistedHosts::Refuse;
        }
        let id = options
            .session
            .get_or_insert_with(|| self.fresh_id())
            .clone();
        let prepared = match self.take_pooled(&options) {
            Some(prepared) => prepared,
            None => self.make(&id, &options).await?,
        };
        let journal = self.begin_journal(prepared.live(), &options);
        let mut environment = self.environment(prepared.live().directory.path());
        let listeners = NetworkListeners::of(&options).through(&self.proxies);
        environment.extend(listeners.environment());
        let mut opened = prepared.into_session(Opening {
            id,
            options,
            last_cell: 0,
            journal,
            packages: Packages::default(),
            image: None,
            not_copied: Vec::new(),
            listeners,
            runtime: Some(Arc::clone(self)),
        })?;
        prepare(&mut opened.actor, imports, environment).await?;
        Ok(opened.serve())
    }

    /// Makes everything of a session but its handle.
    pub(crate) async fn make(
        &self,
        id: &str,
        options: &SessionOptions,
    ) -> Result<PreparedSession, Error> {
        let workspace = Arc::new(match &options.workspace {
            Some(path) => Workspace::in_user_directory(path)?,
            None => Workspace::fresh(&self.state, id)?,
        });
        let change_notice = self.change_notice(&workspace);
        let directory = self.session_directory(id)?;
        let unfinished = UnfinishedDirectories::of(&directory);
        let (spawned, files) = tokio::join!(
            self.spawn_processes(id, options, &workspace, &directory),
            self.watch_files(&workspace, &directory, options.limits.disk, change_notice)
        );
        let (spawned, mut files) = (spawned?, files?);
        unfinished.keep();
        let Spawned {
            mut session,
            zygote,
            user,
        } = spawned;
        if let Some(socket) = session.preserve_socket.take() {
            files.serve_preserve_requests(socket)?;
        }
        if !self.has_view() {
            files.watch_temporary(&directory.join("tmp"), &self.watcher)?;
        }
        Ok(PreparedSession::new(SessionParts {
            options,
            summary: self.isolation_summary(),
            process_host: ProcessHost::Zygote(zygote),
            spawned: session,
            files,
            workspace,
            directory,
            lineage: Lineage::first(user),
            logs: SessionEvents::new(),
            is_left_running: false,
        }))
    }

    /// Makes the processes of a session. That a zygote was killed is only seen when it is asked for something; then a new one is asked.
    pub(crate) async fn spawn_processes(
        &self,
        id: &str,
        options: &SessionOptions,
        workspace: &Workspace,
        directory: &Path,
    ) -> Result<Spawned, Error> {
        let mut attempts = 1;
        loop {
            let zygote = self.zygote().await?;
            let target = SpawnTarget {
                user: self.next_user(),
                workspace,
                change_notice: self.change_notice(workspace),
                directory,
            };
            match self.try_spawn(id, options, &target).await {
                Err(_) if !zygote.is_alive() && attempts < MAX_ZYGOTES => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    /// Looks at what is in a workspace, and watches it from now on. Copies of what the user has there may take `limit` bytes.
    pub(crate) async fn watch_files(
        &self,
        workspace: &Arc<Workspace>,
        directory: &Path,
        limit: u64,
        change_notice: ChangeNotice,
    ) -> Result<WatchedFiles, Error> {
        WatchedFiles::watch(workspace, &self.watcher, directory, limit, change_notice).await
    }

    /// Watches the files of a fork whose init cannot ask before changes: the fork must share no file.
    pub(crate) async fn watch_unshared_files(
        &self,
        workspace: &Arc<Workspace>,
        directory: &Path,
        limit: u64,
    ) -> Result<WatchedFiles, Error> {
        self.share_nothing(workspace).await?;
        self.watch_files(workspace, directory, limit, ChangeNotice::Never)
            .await
    }

    /// Copies what a workspace shares with those of other sessions.
    pub(crate) async fn share_nothing(&self, workspace: &Arc<Workspace>) -> Result<(), Error> {
        let parted = Arc::clone(workspace);
        let parting = tokio::task::spawn_blocking(move || parted.make_all_own()).await;
        parting
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(Error::system("copying the workspace"))
    }

    /// How sessions of this runtime are isolated, and what runs in them.
    pub(crate) fn isolation_summary(&self) -> IsolationSummary {
        IsolationSummary {
            rung: self.rung,
            isolation: self.described.clone(),
            python: self.python().executable.clone(),
            has_view: self.has_view(),
            workspace: self.has_view().then(|| self.place.as_path().to_owned()),
        }
    }

    async fn try_spawn(
        &self,
        id: &str,
        options: &SessionOptions,
        target: &SpawnTarget<'_>,
    ) -> Result<Spawned, Error> {
        // While the launcher makes the mount, we make the rest.
        let (mounted, planned) = tokio::join!(self.zygote_with_mount(target), async {
            self.plan(id, options, target)
        });
        let (zygote, WorkspaceMount { mount, lent }) = mounted?;
        let Plan {
            spawn_request,
            cgroup,
            borrowed,
        } = planned?;
        let (mut near, far) = Sockets::new(cgroup.as_deref(), mount, target.change_notice)?;
        let init = zygote
            .spawn(&spawn_request.to_bytes(), &far.descriptors())
            .await?;
        // Ours must go, so that the end of theirs can be seen.
        drop(far);
        let head = match timeout(SPAWN_TIMEOUT, near.wait_until_ready()).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                return Err(Error::System {
                    what: "making a session",
                    source: std::io::ErrorKind::TimedOut.into(),
                });
            }
        };
        let processes = Processes::of(zygote.launcher_pid, init, self.place.as_path());
        let session = SpawnedSession {
            borrowed: borrowed.or(lent),
            spawn_request: Some(spawn_request),
            ..near.with(cgroup, processes, head.pid)
        };
        Ok(Spawned {
            session,
            zygote,
            user: target.user,
        })
    }

    /// The variables that depend on the walls. Without a view, the session sees the host's files, and all processes share `/tmp`, so it has a
    /// directory of its own.
    pub(crate) fn environment(&self, directory: &Path) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        if self.rung == Rung::None || self.isolation.without.contains(&Wall::Network) {
            variables.push(("CELLBLOCK_HOST_NETWORK".to_owned(), "1".to_owned()));
        }
        if !self.has_view() {
            variables.push(("CELLBLOCK_HOST_FILES".to_owned(), "1".to_owned()));
            let private = directory.join("tmp").display().to_string();
            let names = ["TMPDIR", "HOME", "MPLCONFIGDIR"];
            variables.extend(names.map(|name| (name.to_owned(), private.clone())));
        }
        variables
    }

    /// The zygote, and the workspace as the session will mount it.
    ///
    /// A launcher sees the mounts that were there when it started, and later ones only where the system passes them on. If it
    /// found another directory than we do, a new one finds the right one.
    pub(crate) async fn zygote_with_mount(
        &self,
        target: &SpawnTarget<'_>,
    ) -> Result<(Arc<Zygote>, WorkspaceMount), Error> {
        let workspace = target.workspace;
        let path = workspace.path();
        let refuse = |problem| Error::workspace(path, problem);
        let failed = |error: std::io::Error| refuse(WorkspaceProblem::System(error));
        for _ in 0..2 {
            let zygote = self.zygote().await?;
            if !self.has_view() {
                return Ok((zygote, WorkspaceMount::default()));
            }
            let (mount, lent) = self.mount_or_lend(&zygote, target).await?;
            let own = workspace.directory().own_stat();
            let own = own.map_err(failed)?;
            let found = rustix::fs::fstat(&mount).map_err(|error| failed(error.into()))?;
            // The directory that the host has open, whatever its path led to just now.
            if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino) {
                let mount = Some(mount);
                return Ok((zygote, WorkspaceMount { mount, lent }));
            }
            zygote.retire();
        }
        Err(refuse(WorkspaceProblem::HiddenByMount))
    }

    /// A mount of the workspace that maps its owner to the session's user. On a file system that cannot map owners, as the layers of a
    /// container, the session's user becomes the owner instead.
    async fn mount_or_lend(
        &self,
        zygote: &Zygote,
        target: &SpawnTarget<'_>,
    ) -> Result<(OwnedFd, Option<BorrowedDirectory>), Error> {
        let mapped = self
            .mount_workspace(zygote, target.workspace, target.user)
            .await;
        match (mapped, self.id_on_host(target.user)) {
            (Err(Error::Sandbox(error)), Some(id)) if error.is_id_map_unsupported() => {
                let lent = self.lend_to(id, target.workspace, target.directory)?;
                let mount = self
                    .mount_workspace(zygote, target.workspace, target.user)
                    .await?;
                Ok((mount, lent))
            }
            (outcome, _) => Ok((outcome?, None)),
        }
    }

    /// A mount of the workspace for the session's user. Nothing is mapped where that user owns it on disk.
    pub(crate) async fn mount_workspace(
        &self,
        zygote: &Zygote,
        workspace: &Workspace,
        user: u32,
    ) -> Result<OwnedFd, Error> {
        let path = workspace.path();
        let own = workspace.directory().own_stat();
        let own = own.map_err(|error| Error::workspace(path, WorkspaceProblem::System(error)))?;
        let is_owner = self.id_on_host(user) == Some(own.st_uid);
        let mapped_user = if is_owner { 0 } else { user };
        zygote
            .mount(path, own.st_uid, own.st_gid, mapped_user)
            .await
    }
}

/// The workspace as a session mounts it.
#[derive(Default)]
pub(crate) struct WorkspaceMount {
    mount: Option<OwnedFd>,
    /// The session's share in the directory, where it is the owner's only by being lent.
    lent: Option<BorrowedDirectory>,
}

/// The processes of a session, the zygote that they are from, and the user that they are.
pub(crate) struct Spawned {
    pub(crate) session: SpawnedSession,
    pub(crate) zygote: Arc<Zygote>,
    pub(crate) user: u32,
}
