//! Forks: a second session that begins where this one stands.
//!
//! Init makes the namespaces of the fork with an init of its own in them; meanwhile the files are copied, or, where they are many,
//! shared until one side changes them. Then the head copies itself into them. Whatever fails on the way, this session goes on as it was.

use crate::actor::{Actor, AfterCell};
use crate::events::SessionEvents;
use crate::files::fork_copy::{self, Copying};
use crate::files::history::ChangeNotice;
use crate::files::kept_workspaces::remove_unfinished;
use crate::files::workspace::Workspace;
use crate::network::NetworkListeners;
use crate::runtime::RuntimeState;
use crate::session::Session;
use crate::spawn::plan::{Plan, SpawnTarget};
use crate::spawn::prepared::{OpenedSession, Opening, PreparedSession, SessionParts};
use crate::spawn::sockets::{ReadyHead, Sockets, SpawnedSession};
use crate::wire::init_link::{PendingAnswer, PrepareFork};
use crate::{Error, ForkRefusal};
use cellblock_protocol::SessionOptions;
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_sandbox::{Cgroup, ForkFailure, MemoryAllowance, SpawnRequest, ToInit, fork_request};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// How many forks of forks there may be. The kernel allows 32 levels of namespaces, and some are around us.
const MAX_FORK_DEPTH: u32 = 15;
/// A session with all its forks, and theirs, that live at once.
const MAX_FAMILY_SIZE: usize = 60;
/// How long init may take for the namespaces of a fork. It bounds itself.
const PREPARE_LIMIT: Duration = Duration::from_secs(20);
/// How long the copying of the head may take. Tens of milliseconds for gigabytes; but files without a name are copied too, and on a busy
/// machine each step waits for a processor.
const HEAD_COPY_LIMIT: Duration = Duration::from_secs(60);

/// The session that a session was forked from, and what its own forks will have.
pub(crate) struct Lineage {
    depth: u32,
    /// The user id of the whole family, counted from the zygote's; 0 where all sessions have the same.
    user: u32,
    /// The memory allowances from the sessions that this one was forked from, with their cgroups: their inits live as long as this session does.
    ancestors: Vec<Arc<MemoryAllowance>>,
    /// A token that each member of the family holds, so that members can be counted.
    family: Arc<()>,
}

impl Lineage {
    /// The lineage of a session that is no fork.
    pub(crate) fn first(user: u32) -> Lineage {
        Lineage {
            depth: 0,
            user,
            ancestors: Vec::new(),
            family: Arc::new(()),
        }
    }

    /// Whether there are sessions that it was forked from, or that were forked from it.
    pub(crate) fn has_family(&self) -> bool {
        Arc::strong_count(&self.family) > 1
    }

    /// Whether the session is a fork of another.
    pub(crate) fn is_forked(&self) -> bool {
        self.depth > 0
    }

    fn next(&self, cgroup: Option<&Arc<Cgroup>>) -> Lineage {
        let mut ancestors = self.ancestors.clone();
        ancestors.extend(cgroup.map(|cgroup| Arc::new(cgroup.allow_for_fork())));
        Lineage {
            depth: self.depth + 1,
            user: self.user,
            ancestors,
            family: Arc::clone(&self.family),
        }
    }
}

impl Actor {
    /// Makes a fork. The second value says what became of this session.
    pub(crate) async fn fork(&mut self) -> (Result<Session, Error>, AfterCell) {
        match self.fork_session().await {
            Ok(forked) => forked,
            Err(error) => (Err(error), AfterCell::GoesOn),
        }
    }

    async fn fork_session(&mut self) -> Result<(Result<Session, Error>, AfterCell), Error> {
        let runtime = self.may_fork()?;
        self.live.files.disk.has_found_fork().await;
        // Init makes the init of the fork while we make its directories. If init is gone, the request finds that out.
        let _ = self.live.init.tell(ToInit::BeginFork).await;
        let forked = self.fork_begun(&runtime).await;
        if forked.is_err() {
            self.cancel_fork().await;
        }
        forked
    }

    /// Makes the fork that init has begun.
    async fn fork_begun(
        &mut self,
        runtime: &Arc<RuntimeState>,
    ) -> Result<(Result<Session, Error>, AfterCell), Error> {
        let id = runtime.fresh_id();
        let mut unfinished = UnfinishedDirectories::default();
        let workspace = Arc::new(self.live.base.workspace.for_copy(&runtime.state, &id)?);
        unfinished.note(workspace.path());
        let directory = runtime.session_directory(&id)?;
        unfinished.note(&directory);
        let options = SessionOptions {
            session: Some(id.clone()),
            workspace: None,
            ..self.options.clone()
        };
        // No process works in the new directory yet: its owner is all that the mount must know.
        fork_copy::copy_owner(&self.live.base.workspace, &workspace)?;
        let planned = self.plan_copy(&workspace);
        let target = SpawnTarget {
            user: self.live.placement.lineage.user,
            workspace: &workspace,
            // It did not make what it begins with, and shares some of it.
            change_notice: ChangeNotice::BeforeChange,
            directory: &directory,
        };
        // While the launcher makes the mount, we make the rest.
        let zygote = self.live.placement.process_host.zygote()?;
        let (mount, plan) = tokio::join!(
            runtime.mount_workspace(zygote, &workspace, target.user),
            async { runtime.plan(&id, &options, &target) }
        );
        let Plan {
            spawn_request,
            cgroup,
            ..
        } = plan?;
        let (mut near, far) =
            Sockets::new(cgroup.as_deref(), Some(mount?), ChangeNotice::BeforeChange)?;
        let request = PrepareFork {
            request: fork_request(&spawn_request),
        };
        let sent = self
            .live
            .init
            .send_request(request, &far.descriptors())
            .await;
        let prepared = sent.map_err(Error::system("asking for a fork"))?;
        drop(far);
        let namespaces = self.copy_to_fork(planned, prepared).await?;
        let preserve_socket = near.take_preserve_socket();
        let copying = self.copy_head_into_fork(&mut near, namespaces);
        // The copy opens its files again while it arrives, and init asks the host before one is changed. So both go on at the same time.
        let files = async {
            let limit = options.limits.disk;
            let watched =
                runtime.watch_files(&workspace, &directory, limit, ChangeNotice::BeforeChange);
            let mut files = watched.await?;
            if let Some(preserve_socket) = preserve_socket {
                files.serve_preserve_requests(preserve_socket)?;
            }
            Ok::<_, Error>(files)
        };
        let ((copied, after), files) = tokio::join!(copying, files);
        let both = copied.and_then(|head| Ok((head, files?)));
        let with_files = match both {
            Ok((head, files)) => match head.change_notice {
                ChangeNotice::BeforeChange => Ok((head, files)),
                ChangeNotice::Never => {
                    files.give_up().await;
                    let limit = options.limits.disk;
                    let files = runtime.watch_unshared_files(&workspace, &directory, limit);
                    files.await.map(|files| (head, files))
                }
            },
            Err(error) => Err(error),
        };
        let (head, files) = match with_files {
            Ok(both) => both,
            Err(error) => {
                self.cancel_fork().await;
                return Ok((Err(error), after));
            }
        };
        let lineage = self
            .live
            .placement
            .lineage
            .next(self.live.placement.cgroup.as_ref());
        let prepared = PreparedSession::new(SessionParts {
            options: &options,
            summary: runtime.isolation_summary(),
            process_host: self.live.placement.process_host.for_fork()?,
            spawned: SpawnedSession {
                spawn_request: Some(spawn_request),
                ..near.with(cgroup, self.live.files.disk.youngest_fork(), head.pid)
            },
            files,
            workspace: Arc::clone(&workspace),
            directory,
            lineage,
            logs: SessionEvents::new(),
            is_left_running: self.live.files.is_left_running,
        });
        unfinished.keep();
        // The journal goes on where that of the parent stands.
        let logs = &prepared.live().base.logs;
        let cell = self.live.checkpoints.current();
        let recorder = &self.cells.journal.recorder;
        let opening = Opening {
            journal: recorder.fork(&id, cell, workspace.path(), logs),
            id,
            listeners: NetworkListeners::of(&options),
            options,
            last_cell: self.cells.last_number,
            packages: self.shared.packages.copy(),
            image: None,
            not_copied: head.not_copied,
            runtime: Some(Arc::clone(runtime)),
        };
        let opened = prepared.into_session(opening);
        Ok((opened.map(OpenedSession::serve), after))
    }

    /// Lets the head copy itself into the namespaces of the fork, and waits until the copy is there: the process with this id. If
    /// init is not done with them yet, the head waits.
    async fn copy_head_into_fork(
        &mut self,
        near: &mut Sockets,
        namespaces: Namespaces,
    ) -> (Result<ReadyHead, Error>, AfterCell) {
        let (reply, after) = self
            .ask(Box::new(|seq| ToHead::Fork { seq }), HEAD_COPY_LIMIT)
            .await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return (Err(error), after),
        };
        // If it was init who could not, its reason is the better one.
        let prepared = match namespaces {
            Namespaces::Stand => Ok(()),
            Namespaces::AreMade(prepared) => self.wait_until_prepared(prepared).await,
        };
        let forked = prepared.and_then(|()| {
            Reply::forked(reply)
                .map_err(|error| error.to_string())
                .and_then(|made| made)
                .map_err(|reason| ForkRefusal::Guest { reason }.into())
        });
        let copied = match forked {
            Ok(()) => timeout(HEAD_COPY_LIMIT, wait_and_check(near))
                .await
                .unwrap_or_else(|_| {
                    Err(Error::System {
                        what: "making a fork",
                        source: std::io::ErrorKind::TimedOut.into(),
                    })
                }),
            Err(error) => Err(error),
        };
        (copied, after)
    }

    /// Ends what was begun or prepared for a fork.
    async fn cancel_fork(&self) {
        let _ = self.live.init.tell(ToInit::CancelFork).await;
    }

    fn may_fork(&self) -> Result<Arc<RuntimeState>, Error> {
        self.live.placement.process_host.zygote()?;
        let Some(runtime) = &self.runtime else {
            return Err(ForkRefusal::NoRuntime.into());
        };
        if !SpawnRequest::can_fork(runtime.walls) {
            let isolation = self.live.placement.isolation.clone();
            return Err(ForkRefusal::Isolation { isolation }.into());
        }
        if self.live.placement.lineage.depth >= MAX_FORK_DEPTH {
            let max = MAX_FORK_DEPTH;
            return Err(ForkRefusal::TooDeep { max }.into());
        }
        if Arc::strong_count(&self.live.placement.lineage.family) >= MAX_FAMILY_SIZE {
            let max = MAX_FAMILY_SIZE;
            return Err(ForkRefusal::TooMany { max }.into());
        }
        Ok(Arc::clone(runtime))
    }

    /// Begins to look what is to be copied.
    fn plan_copy(&self, target: &Arc<Workspace>) -> JoinHandle<Result<Copying, Error>> {
        let (from, to) = (Arc::clone(&self.live.base.workspace), Arc::clone(target));
        let most = self.options.limits.disk;
        let change_notice = self.live.files.history.lock().change_notice();
        spawn_blocking(move || Copying::plan(from, to, most, change_notice))
    }

    /// Copies the files, and tells how far init is.
    async fn copy_to_fork(
        &mut self,
        planned: JoinHandle<Result<Copying, Error>>,
        prepared: ForkPrepared,
    ) -> Result<Namespaces, Error> {
        let copying = planned.await.unwrap_or_else(lost)?;
        let namespaces = if copying.has_shared_files() {
            // Before it asks about what is shared, nothing may be.
            self.wait_until_prepared(prepared).await?;
            self.live.files.history.lock().begin_sharing();
            Namespaces::Stand
        } else {
            Namespaces::AreMade(prepared)
        };
        let processes = self.live.files.disk.processes();
        let copied = spawn_blocking(move || copying.carry_out(&processes)).await;
        copied.unwrap_or_else(lost)?;
        Ok(namespaces)
    }

    /// Waits until init has made the namespaces of the fork.
    async fn wait_until_prepared(&mut self, mut prepared: ForkPrepared) -> Result<(), Error> {
        let outcome = timeout(PREPARE_LIMIT, self.live.init.wait_for(&mut prepared)).await;
        self.live.note_init_events();
        match outcome {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(failure))) if failure.is_namespace_limit() => {
                Err(ForkRefusal::Namespaces.into())
            }
            Ok(Ok(Err(failure))) => Err(cellblock_sandbox::Error::from(failure).into()),
            Ok(Err(_)) => Err(Error::Ended {
                session: self.shared.id.clone(),
                reason: "its init process died".to_owned(),
            }),
            Err(_) => Err(Error::System {
                what: "preparing a fork",
                source: std::io::ErrorKind::TimedOut.into(),
            }),
        }
    }
}

/// Waits until the copy is there, and refuses one that still holds something of its parent's.
async fn wait_and_check(near: &mut Sockets) -> Result<ReadyHead, Error> {
    let ready = near.wait_until_ready().await.map_err(in_words_of_forks)?;
    near.refuse_what_is_shared().await?;
    Ok(ready)
}

fn in_words_of_forks(error: Error) -> Error {
    let why = match &error {
        Error::Sandbox(failure) => failure.why_no_temporary_files(),
        _ => None,
    };
    match why {
        Some(reason) => ForkRefusal::TemporaryFiles { reason }.into(),
        None => error,
    }
}

/// Init's answer to the request for the namespaces of a fork.
type ForkPrepared = PendingAnswer<Result<(), ForkFailure>>;

/// How far init is with the namespaces of a fork.
enum Namespaces {
    /// Init has said that the namespaces stand.
    Stand,
    /// Init has been asked, and its answer is pending.
    AreMade(ForkPrepared),
}

fn lost<T>(error: JoinError) -> Result<T, Error> {
    Err(Error::System {
        what: "copying the workspace",
        source: std::io::Error::other(error),
    })
}

/// Directories of a session that may come to nothing; then they go.
#[derive(Default)]
pub(crate) struct UnfinishedDirectories {
    directories: Vec<PathBuf>,
}

impl UnfinishedDirectories {
    /// Removes this directory, unless it is kept.
    pub(crate) fn of(directory: &Path) -> UnfinishedDirectories {
        UnfinishedDirectories {
            directories: vec![directory.to_owned()],
        }
    }

    fn note(&mut self, directory: &Path) {
        self.directories.push(directory.to_owned());
    }

    /// Keeps the directories: they are in use.
    pub(crate) fn keep(mut self) {
        self.directories.clear();
    }
}

impl Drop for UnfinishedDirectories {
    fn drop(&mut self) {
        for directory in &self.directories {
            remove_unfinished(directory);
        }
    }
}
