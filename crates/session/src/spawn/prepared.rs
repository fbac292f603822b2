//! The putting together of a session that was born, and what it has before its first cell.

use crate::Error;
use crate::actor::outputs::Outputs;
use crate::actor::pending_queries::PendingQueries;
use crate::actor::{Actor, Fate};
use crate::checkpoint::Checkpoints;
use crate::checkpoint::steps::Steps;
use crate::files::disk::Disk;
use crate::files::session_files::Files;
use crate::files::workspace::Workspace;
use crate::journal::{Recorder, SessionJournal};
use crate::network::NetworkAccess;
use crate::packages::Packages;
use crate::session::Shared;
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use crate::spawn::sockets::SpawnedSession;
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Cell, CheckpointState, Rung, SessionOptions, Status};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

/// How a session is walled in, and what runs in it.
pub(crate) struct IsolationSummary {
    pub(crate) rung: Rung,
    /// In the words of a result.
    pub(crate) isolation: String,
    pub(crate) python: PathBuf,
}

/// Everything of a session, with nobody who holds it yet. The walls are their rung and their description.
#[allow(clippy::too_many_arguments, reason = "each is a part of the session")]
pub(crate) fn assemble(
    id: &str,
    options: SessionOptions,
    summary: IsolationSummary,
    process_host: ProcessHost,
    session: SpawnedSession,
    files: Files,
    (workspace, directory): (Arc<Workspace>, PathBuf),
    lineage: Lineage,
) -> Actor {
    let SpawnedSession {
        channel,
        init,
        pipes,
        cgroup,
        processes,
        head,
        borrowed,
        opened_listeners,
        ..
    } = session;
    let Files {
        tracker,
        temporary,
        history,
        preserve_task,
        ..
    } = files;
    let (_, nobody) = mpsc::unbounded_channel();
    let (logs, _) = broadcast::channel(1);
    Actor {
        shared: Arc::new(Shared {
            id: id.to_owned(),
            workspace,
            rung: summary.rung,
            logs,
            connections: broadcast::channel(1).0,
            end: OnceLock::new(),
            journal: Recorder::default(),
            python: summary.python,
            packages: Packages::default(),
            wall: options.limits.wall,
        }),
        isolation: summary.isolation,
        channel,
        init,
        pipes,
        disk: Disk::new(tracker, temporary, processes),
        history,
        preserve_task,
        outputs: Outputs::default(),
        journal: SessionJournal::default(),
        cgroup,
        commands: nobody,
        directory,
        cells: 0,
        questions: 0,
        checkpoints: Checkpoints::new(head),
        steps: Steps::default(),
        postponed: VecDeque::new(),
        announced_checkpoint: CheckpointState::armed(),
        is_left_running: false,
        ended: None,
        pending_queries: PendingQueries::default(),
        spent_ms: 0.0,
        closing: None,
        borrowed,
        opened_listeners,
        network_access: NetworkAccess::default(),
        process_host,
        options,
        lineage,
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
    if !variables.is_empty() || !imports.is_empty() || !environment.is_empty() {
        let (reply, _) = actor
            .ask(
                Box::new(|seq| ToHead::Seed {
                    seq,
                    variables,
                    imports,
                    environment,
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
    let (result, fate) = actor.run(Cell::new(setup), 0, None).await;
    match (result.status, fate) {
        (Status::Success, Fate::Lives) => Ok(()),
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
