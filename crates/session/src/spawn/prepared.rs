//! A session between the start of its processes and its first cell.

use crate::Error;
use crate::actor::commands::{Command, CommandQueue};
use crate::actor::head::Head;
use crate::actor::{Actor, AfterCell, CellHistory, Placement, SessionDirectory, SessionFiles};
use crate::checkpoint::{CheckpointLimits, Checkpoints};
use crate::container::image_python::SessionImage;
use crate::events::{MAX_LOG_EVENTS, SessionEvents};
use crate::files::disk::Disk;
use crate::files::session_files::Files;
use crate::files::workspace::Workspace;
use crate::journal::{Recorder, SessionJournal};
use crate::network::{NetworkAccess, NetworkListeners, OpenedListener};
use crate::packages::Packages;
use crate::paths::Layout;
use crate::runtime::RuntimeState;
use crate::session::{Session, Shared};
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use crate::spawn::sockets::SpawnedSession;
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Cell, Rung, SessionOptions, Status, Strategy};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};

/// How a session is walled in, and what runs in it.
pub(crate) struct IsolationSummary {
    pub(crate) rung: Rung,
    /// In the words of a result.
    pub(crate) isolation: String,
    pub(crate) python: PathBuf,
    /// Whether the session has a root of its own.
    pub(crate) has_view: bool,
    /// The path of the workspace, as code of the session knows it; `None` where it is that of the host.
    pub(crate) workspace: Option<PathBuf>,
}

/// The parts of a session whose processes run.
pub(crate) struct SessionParts {
    pub(crate) id: String,
    pub(crate) options: SessionOptions,
    pub(crate) summary: IsolationSummary,
    pub(crate) process_host: ProcessHost,
    pub(crate) spawned: SpawnedSession,
    pub(crate) files: Files,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) directory: PathBuf,
    pub(crate) lineage: Lineage,
}

/// A session that is ready and has no handle yet: it can be armed, and wait in the pool.
pub(crate) struct Prepared {
    actor: Actor,
    /// Listeners for the network. They are served once the session is handed to its user.
    opened_listeners: Vec<OpenedListener>,
}

/// The parts that a session gets when it is opened.
pub(crate) struct Opening {
    pub(crate) id: String,
    pub(crate) options: SessionOptions,
    pub(crate) logs: SessionEvents,
    pub(crate) journal: Recorder,
    pub(crate) packages: Packages,
    /// The image of its container, if the session is in one.
    pub(crate) image: Option<SessionImage>,
    pub(crate) listeners: NetworkListeners,
    /// The runtime that forks of the session are made by; `None` where there can be none.
    pub(crate) runtime: Option<Arc<RuntimeState>>,
}

/// A session with a handle, which does not serve it yet: its first state can be made before.
pub(crate) struct OpenedSession {
    pub(crate) actor: Actor,
    session: Session,
    journal: Recorder,
}

impl Prepared {
    pub(crate) fn new(parts: SessionParts) -> Prepared {
        let SpawnedSession {
            channel,
            init,
            pipes,
            cgroup,
            processes,
            head,
            borrowed,
            opened_listeners,
            spawn_request,
            ..
        } = parts.spawned;
        let Files {
            tracker,
            temporary,
            history,
            preserve_task,
            ..
        } = parts.files;
        // Replaced when the session is opened.
        let (_, commands) = mpsc::unbounded_channel();
        let host_path = parts.workspace.path().to_owned();
        let layout = Layout {
            workspace: parts.summary.workspace.unwrap_or(host_path),
            has_view: parts.summary.has_view,
        };
        parts.workspace.directory().set_name(&layout.workspace);
        let why_disabled = match parts.options.strategy {
            Strategy::Direct => Some("the strategy `direct` makes none"),
            Strategy::Process | Strategy::Thread => parts.process_host.why_no_checkpoints(),
        };
        let limits = CheckpointLimits::of(&parts.options.limits);
        let shared = Shared {
            layout,
            id: parts.id,
            workspace: parts.workspace,
            rung: parts.summary.rung,
            logs: SessionEvents::new(),
            connections: broadcast::channel(1).0,
            host_requests: Arc::default(),
            end: OnceLock::new(),
            journal: Recorder::default(),
            is_replaying: AtomicBool::new(false),
            has_written_to_memory: AtomicBool::new(false),
            python: parts.summary.python,
            packages: Packages::default(),
            image: None,
            watcher: tracker.watcher(),
            watches: Arc::default(),
            processes: Arc::default(),
            wall: parts.options.limits.wall,
        };
        let actor = Actor {
            directory: SessionDirectory::new(parts.directory),
            shared: Arc::new(shared),
            options: parts.options,
            commands: CommandQueue::new(commands),
            init,
            head: Head::new(channel, pipes),
            checkpoints: Checkpoints::new(head, limits, why_disabled),
            cells: CellHistory::default(),
            files: SessionFiles {
                disk: Disk::new(tracker, temporary, processes, history.clone()),
                history,
                preserve_task,
                borrowed,
                is_left_running: false,
            },
            placement: Placement {
                process_host: parts.process_host,
                cgroup,
                lineage: parts.lineage,
                isolation: parts.summary.isolation,
                spawn_request,
            },
            network_access: NetworkAccess::default(),
            presence: watch::channel(()).0,
        };
        Prepared {
            actor,
            opened_listeners,
        }
    }

    /// The session, as far as it is made.
    pub(crate) fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whether none of its processes has ended. Init has nothing to say of a session in which nothing happened.
    pub(crate) fn is_alive(&self) -> bool {
        self.actor.init.is_silent()
    }

    /// Makes the first checkpoint ahead of demand.
    pub(crate) async fn arm(&mut self) {
        self.actor.checkpoints.plan();
        self.actor.arm().await;
    }

    /// Ends a session that got no handle, and waits until nothing of it is left.
    pub(crate) async fn close(mut self) {
        self.actor.end_parts().await;
    }

    /// Gives the session its handle and its network.
    pub(crate) fn into_session(self, opening: Opening) -> Result<OpenedSession, Error> {
        let mut actor = self.actor;
        let (commands, receiver) = mpsc::unbounded_channel::<Command>();
        let presence = actor.presence.subscribe();
        let shared = Arc::new(Shared {
            layout: actor.shared.layout.clone(),
            id: opening.id,
            workspace: Arc::clone(&actor.shared.workspace),
            rung: actor.shared.rung,
            logs: opening.logs,
            connections: broadcast::channel(MAX_LOG_EVENTS).0,
            host_requests: Arc::default(),
            end: OnceLock::new(),
            journal: opening.journal.clone(),
            is_replaying: AtomicBool::new(false),
            has_written_to_memory: AtomicBool::new(false),
            python: actor.shared.python.clone(),
            packages: opening.packages,
            image: opening.image,
            watcher: Arc::clone(&actor.shared.watcher),
            watches: Arc::default(),
            processes: Arc::default(),
            wall: opening.options.limits.wall,
        });
        actor.network_access = opening.listeners.serve(self.opened_listeners, &shared)?;
        actor.shared = Arc::clone(&shared);
        actor.commands = CommandQueue::new(receiver);
        actor.options = opening.options;
        actor.placement.lineage.runtime = opening.runtime;
        Ok(OpenedSession {
            actor,
            session: Session {
                shared,
                commands,
                presence,
            },
            journal: opening.journal,
        })
    }
}

impl OpenedSession {
    /// Serves the handle from now on. What was done before is not in the journal.
    pub(crate) fn serve(mut self) -> Session {
        self.actor.cells.journal = SessionJournal::new(self.journal);
        tokio::spawn(self.actor.serve());
        self.session
    }
}

/// Seeds, imports and setup code: before the first cell.
pub(crate) async fn prepare(
    actor: &mut Actor,
    imports: Vec<String>,
    environment: Vec<(String, String)>,
) -> Result<(), Error> {
    const LIMIT: Duration = Duration::from_secs(60);
    let variables = std::mem::take(&mut actor.options.seed);
    let random = actor.options.random_seed;
    let is_needed = !variables.is_empty() || !imports.is_empty() || !environment.is_empty();
    if is_needed || random.is_some() {
        let (reply, _) = actor
            .ask(
                Box::new(move |seq| ToHead::Seed {
                    seq,
                    variables,
                    imports,
                    environment,
                    random,
                }),
                LIMIT,
            )
            .await;
        Reply::done(reply?).map_err(|error| Error::Refused(error.to_string()))?;
        actor.checkpoints.revise();
    }
    let Some(setup) = actor.options.setup.clone() else {
        return Ok(());
    };
    let (result, after) = actor.run(Cell::new(setup), 0, None).await;
    match (result.status, after) {
        (Status::Success, AfterCell::GoesOn) => Ok(()),
        (status, _) => {
            let why = result
                .error
                .map_or_else(|| result.stderr.clone(), |error| error.traceback);
            Err(Error::Refused(format!(
                "the setup code ended with {}:\n{why}",
                status.name()
            )))
        }
    }
}
