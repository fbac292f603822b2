//! The putting together of a session that was born, and what it has before its first cell.

use crate::Error;
use crate::actor::outputs::Outputs;
use crate::actor::pending_queries::Looks;
use crate::actor::{Actor, Fate};
use crate::checkpoint::Checkpoints;
use crate::checkpoint::steps::Steps;
use crate::files::disk::Disk;
use crate::files::session_files::Files;
use crate::files::workspace::Workspace;
use crate::journal::{Recorder, SessionJournal};
use crate::network::WaysOut;
use crate::packages::Packages;
use crate::session::Shared;
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::Home;
use crate::spawn::sockets::Born;
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Cell, CheckpointState, Rung, SessionOptions, Status};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

/// How a session is walled in, and what runs in it.
pub(crate) struct Standing {
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
    standing: Standing,
    home: Home,
    born: Born,
    files: Files,
    (workspace, directory): (Arc<Workspace>, PathBuf),
    lineage: Lineage,
) -> Actor {
    let Born {
        channel,
        init,
        pipes,
        cgroup,
        processes,
        head,
        loan,
        opened,
        ..
    } = born;
    let Files {
        tracker,
        temporary,
        history,
        keeping,
        ..
    } = files;
    let (_, nobody) = mpsc::unbounded_channel();
    let (logs, _) = broadcast::channel(1);
    Actor {
        shared: Arc::new(Shared {
            id: id.to_owned(),
            workspace,
            rung: standing.rung,
            logs,
            connections: broadcast::channel(1).0,
            end: OnceLock::new(),
            journal: Recorder::default(),
            python: standing.python,
            packages: Packages::default(),
            wall: options.limits.wall,
        }),
        isolation: standing.isolation,
        channel,
        init,
        pipes,
        disk: Disk::new(tracker, temporary, processes),
        history,
        keeping,
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
        told: CheckpointState::armed(),
        is_left_running: false,
        ended: None,
        looks: Looks::default(),
        spent_ms: 0.0,
        closing: None,
        loan,
        opened,
        ways_out: WaysOut::default(),
        home,
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
