//! A session between the start of its processes and its first cell.

use crate::actor::commands::{Command, CommandQueue};
use crate::actor::{Actor, AfterCell, CellHistory};
use crate::checkpoint::{CheckpointLimits, Checkpoints};
use crate::container::image_python::SessionImage;
use crate::events::{MAX_LOG_EVENTS, SessionEvents};
use crate::files::disk::Disk;
use crate::files::watched_files::WatchedFiles;
use crate::files::workspace::Workspace;
use crate::journal::{Recorder, SessionJournal};
use crate::live::head::Head;
use crate::live::{LiveSession, Placement, SessionBase, SessionDirectory, SessionFiles};
use crate::network::{NetworkListeners, OpenedListener};
use crate::packages::Packages;
use crate::paths::Layout;
use crate::runtime::RuntimeState;
use crate::session::{Session, SessionShared};
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use crate::spawn::sockets::SpawnedSession;
use crate::{Error, Refusal};
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
pub(crate) struct SessionParts<'a> {
    pub(crate) options: &'a SessionOptions,
    pub(crate) summary: IsolationSummary,
    pub(crate) process_host: ProcessHost,
    pub(crate) spawned: SpawnedSession,
    pub(crate) files: WatchedFiles,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) directory: PathBuf,
    pub(crate) lineage: Lineage,
    pub(crate) logs: SessionEvents,
    /// Whether code runs already that no cell of the session started: in a fork, what its parent left running.
    pub(crate) is_left_running: bool,
}

/// A session that is ready and has no handle yet: it can be armed, and wait in the pool.
pub(crate) struct PreparedSession {
    live: LiveSession,
    /// Listeners for the network. They are served once the session is handed to its user.
    opened_listeners: Vec<OpenedListener>,
}

/// The parts that a session gets when it is opened.
pub(crate) struct Opening {
    pub(crate) id: String,
    pub(crate) options: SessionOptions,
    /// The number of the last cell before the first of this session; 0 where there is none.
    pub(crate) last_cell: u64,
    pub(crate) journal: Recorder,
    pub(crate) packages: Packages,
    /// The image of its container, if the session is in one.
    pub(crate) image: Option<SessionImage>,
    /// What a fork does not have of its parent.
    pub(crate) not_copied: Vec<String>,
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

impl PreparedSession {
    pub(crate) fn new(parts: SessionParts<'_>) -> PreparedSession {
        let SessionParts {
            options,
            summary,
            process_host,
            spawned,
            files,
            workspace,
            directory,
            lineage,
            logs,
            is_left_running,
        } = parts;
        let layout = Layout {
            workspace: summary
                .workspace
                .unwrap_or_else(|| workspace.path().to_owned()),
            has_view: summary.has_view,
        };
        workspace.directory().set_name(&layout.workspace);
        let base = SessionBase {
            workspace,
            layout,
            rung: summary.rung,
            python: summary.python,
            logs,
            watcher: files.tracker.watcher(),
            processes: Arc::default(),
            has_written_to_memory: AtomicBool::new(false),
        };
        let why_no_checkpoints = match options.strategy {
            Strategy::Direct => Some("the strategy `direct` makes none"),
            Strategy::Process | Strategy::Thread => process_host.why_no_checkpoints(),
        };
        let checkpoints = Checkpoints::new(
            spawned.head,
            CheckpointLimits::of(&options.limits),
            why_no_checkpoints,
        );
        let disk = Disk::new(
            files.tracker,
            files.temporary,
            spawned.processes,
            files.history.clone(),
        );
        let live = LiveSession {
            directory: SessionDirectory::new(directory),
            base: Arc::new(base),
            init: spawned.init,
            head: Head::new(spawned.channel, spawned.pipes),
            checkpoints,
            files: SessionFiles {
                disk,
                history: files.history,
                preserve_task: files.preserve_task,
                borrowed: spawned.borrowed,
                is_left_running,
            },
            placement: Placement {
                process_host,
                cgroup: spawned.cgroup,
                lineage,
                isolation: summary.isolation,
                spawn_request: spawned.spawn_request,
            },
        };
        PreparedSession {
            live,
            opened_listeners: spawned.opened_listeners,
        }
    }

    /// The session, without what its user brings.
    pub(crate) fn live(&self) -> &LiveSession {
        &self.live
    }

    /// Whether none of its processes has ended. Init has nothing to say of a session in which nothing happened.
    pub(crate) fn is_alive(&self) -> bool {
        self.live.init.is_silent()
    }

    /// Makes the first checkpoint ahead of demand.
    pub(crate) async fn arm(&mut self) {
        self.live.checkpoints.plan();
        self.live.arm().await;
    }

    /// Ends a session that got no handle, and waits until nothing of it is left.
    pub(crate) async fn close(mut self) {
        self.live.end_parts().await;
    }

    /// Gives the session its handle and its network.
    pub(crate) fn into_session(self, opening: Opening) -> Result<OpenedSession, Error> {
        let PreparedSession {
            live,
            opened_listeners,
        } = self;
        let shared = Arc::new(SessionShared {
            base: Arc::clone(&live.base),
            id: opening.id,
            connections: broadcast::channel(MAX_LOG_EVENTS).0,
            host_requests: Arc::default(),
            end: OnceLock::new(),
            journal: opening.journal.clone(),
            is_replaying: AtomicBool::new(false),
            packages: opening.packages,
            image: opening.image,
            not_copied: opening.not_copied,
            watches: Arc::default(),
            wall: opening.options.limits.wall,
        });
        let network_access = opening.listeners.serve(opened_listeners, &shared)?;
        let (commands, receiver) = mpsc::unbounded_channel::<Command>();
        let (presence, is_present) = watch::channel(());
        let actor = Actor {
            live,
            shared: Arc::clone(&shared),
            runtime: opening.runtime,
            options: opening.options,
            commands: CommandQueue::new(receiver),
            cells: CellHistory::after(opening.last_cell),
            network_access,
            _presence: presence,
        };
        Ok(OpenedSession {
            actor,
            session: Session {
                shared,
                commands,
                presence: is_present,
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
        Reply::done(reply?)?;
        actor.live.checkpoints.revise();
    }
    let Some(setup) = actor.options.setup.clone() else {
        return Ok(());
    };
    let (result, after) = actor.run(Cell::new(setup), 0, None).await;
    match (result.status, after) {
        (Status::Success, AfterCell::GoesOn) => Ok(()),
        (status, _) => {
            let output = result
                .error
                .map_or_else(|| result.stderr.clone(), |error| error.traceback);
            Err(Error::Refused(Refusal::Setup { status, output }))
        }
    }
}
