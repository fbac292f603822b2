//! Making a session again from its journal.

use crate::{Error, Host, Session};
use cellblock_protocol::{Event, Journaling, SessionOptions};
use cellblock_session::journal::{
    CellFate, CellSummary, Difference, Journal, JournalStep, RecordedAnswers, compare,
    copy_directory,
};
use cellblock_session::{Error as SessionError, KeptWorkspaces};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// How to restore.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    workspace: Option<PathBuf>,
    journal: Journaling,
    idle: Option<std::time::Duration>,
    max_disk: Option<u64>,
    checkpoints: Checkpoints,
}

/// Whether a replay makes a checkpoint before each cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// As the options of the session say: a cell of the replay that crashes takes no other with it.
    #[default]
    AsRecorded,
    /// Only after the replay, while the session is idle: cells replay many times faster.
    Afterwards,
}

/// A session that stands where the other stood.
#[derive(Debug)]
pub struct Restored {
    /// The new session.
    pub session: Session,
    /// How it was opened.
    pub options: SessionOptions,
    /// What came of the replay.
    pub report: RestoreReport,
}

/// What came of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The cells that were run, by their numbers.
    pub replayed: Vec<u64>,
    /// The cells that were not run, and why. Those that were undone are among them.
    pub left_out: Vec<LeftOutCell>,
    /// Where the new session differs from what was recorded.
    pub differences: Vec<Difference>,
    /// Why the journal holds less than happened, if that is so.
    pub incomplete: Option<String>,
}

/// A recorded cell that a replay does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOutCell {
    /// The number of the cell.
    pub cell: u64,
    /// The reason: the cell's effects are not part of the recorded state.
    pub fate: CellFate,
}

impl Restore {
    /// Works in this directory. Without it: in a fresh one where the session began in an empty one, else in a copy of the
    /// directory that it worked in, so that nothing of the user's is written to.
    pub fn workspace(mut self, path: impl Into<PathBuf>) -> Restore {
        self.workspace = Some(path.into());
        self
    }

    /// Whether the new session keeps a journal; as its host does it, unless told.
    pub fn journal(mut self, journal: impl Into<Journaling>) -> Restore {
        self.journal = journal.into();
        self
    }

    /// Ends the new session after this much silence, instead of what the other had.
    pub fn idle(mut self, idle: std::time::Duration) -> Restore {
        self.idle = Some(idle);
        self
    }

    /// Lets the new session write at most this much new data to disk, also where the other could write more.
    pub fn max_disk(mut self, bytes: u64) -> Restore {
        self.max_disk = Some(bytes);
        self
    }

    /// Whether a checkpoint is made before each cell.
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Restore {
        self.checkpoints = checkpoints;
        self
    }

    /// Replays the cells that were kept, in order, with the recorded answers to their calls.
    pub async fn run(&self, host: &Host, journal: &Journal) -> Result<Restored, Error> {
        self.run_with(host, journal, |_| {}).await
    }

    /// The same, and tells of each cell before it is run.
    pub async fn run_with(
        &self,
        host: &Host,
        journal: &Journal,
        mut on_cell: impl FnMut(&CellSummary),
    ) -> Result<Restored, Error> {
        let options = self.options(host, journal).await?;
        let session = host.open(options.clone()).await?;
        let summary = journal.summary();
        let mut report = RestoreReport {
            incomplete: journal.incomplete.clone(),
            ..RestoreReport::default()
        };
        // In a container it is the image's, and that is the same by its name.
        if options.container.is_none() {
            let runtime = host.runtime(&options.isolation).await?;
            let version = runtime.python().await?.version;
            let recorded = &journal.opened.python.version;
            if version != *recorded {
                report.note(None, "Python", recorded, &version);
            }
        }
        let left_out = summary
            .cells
            .iter()
            .filter(|cell| cell.fate != CellFate::Kept);
        report.left_out = left_out
            .map(|cell| LeftOutCell {
                cell: cell.number,
                fate: cell.fate,
            })
            .collect();
        for LeftOutCell { cell, fate } in report.left_out.clone() {
            if fate == CellFate::Interrupted {
                let what = "it was interrupted; what it had done by then is not there";
                report.note(Some(cell), what, "", "");
            }
        }
        session.set_replaying(self.checkpoints == Checkpoints::Afterwards);
        for step in summary.steps() {
            match step {
                JournalStep::Cell(cell) => {
                    on_cell(cell);
                    replay(&session, cell, &mut report).await?;
                }
                JournalStep::Seed(variables) => session.seed(variables.clone()).await?,
                JournalStep::Tools(tools) => session.set_tools(tools.to_vec()).await?,
                JournalStep::Reset => session.reset().await?,
                JournalStep::PutFile(path, _, Some(contents)) => {
                    session.put_file(path, contents.to_vec()).await?;
                }
                JournalStep::PutFile(path, bytes, None) => {
                    let what = format!("the file {path}, {bytes} bytes, was not kept");
                    report.note(None, &what, "", "");
                }
            }
        }
        session.set_replaying(false);
        Ok(Restored {
            session,
            options,
            report,
        })
    }

    async fn options(&self, host: &Host, journal: &Journal) -> Result<SessionOptions, Error> {
        let mut options = journal.opened.options.clone();
        options.session = Some(journal.session.clone());
        options.journal = self.journal.clone();
        options.limits.idle = self.idle.unwrap_or(options.limits.idle);
        options.limits.disk = options.limits.disk.min(self.max_disk.unwrap_or(u64::MAX));
        options.workspace = match &self.workspace {
            Some(path) => Some(path.clone()),
            None if journal.opened.workspace_was_empty => None,
            None => Some(self.copy(host, journal).await?),
        };
        Ok(options)
    }

    async fn copy(&self, host: &Host, journal: &Journal) -> Result<PathBuf, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!("{}-{}", journal.id, now.unwrap_or_default().as_millis());
        let kept = KeptWorkspaces::new(host.state_directory());
        let from = journal.workspace.clone();
        let copied = tokio::task::spawn_blocking(move || {
            let made = kept.make(&name);
            let target = made.map_err(|source| SessionError::Storage {
                what: "making the workspace",
                path: name.into(),
                source,
            })?;
            copy_directory(&from, &target).inspect_err(|_| {
                let _ = kept.remove(&target);
            })?;
            Ok::<PathBuf, Error>(target)
        });
        copied.await?
    }
}

impl RestoreReport {
    /// Whether everything is as it was.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty()
    }

    fn note(&mut self, cell: Option<u64>, what: &str, was: &str, is: &str) {
        self.differences.push(Difference {
            cell,
            what: what.to_owned(),
            was: was.to_owned(),
            is: is.to_owned(),
        });
    }
}

/// Runs one cell again and compares.
async fn replay(
    session: &Session,
    cell: &CellSummary,
    report: &mut RestoreReport,
) -> Result<(), Error> {
    let Some(recorded) = &cell.ended else {
        return Ok(());
    };
    let mut answers = RecordedAnswers::new(recorded);
    let mut running = session.start_again(cell.cell.clone(), cell.number)?;
    let mut mismatches = Vec::new();
    while let Some(event) = running.next().await {
        match event {
            Event::ToolCall {
                call,
                name,
                arguments,
            } => {
                let answer = answers.call(&name, &arguments);
                mismatches.extend(answer.mismatch);
                running.tool_result(&call, answer.outcome);
            }
            Event::InputRequest { call, prompt, .. } => {
                let answer = answers.input(&prompt);
                mismatches.extend(answer.mismatch);
                running.input(&call, answer.outcome);
            }
            Event::Result { result } => {
                report.replayed.push(cell.number);
                report.differences.extend(compare(recorded, &result));
            }
            Event::Error { message, .. } => {
                return Err(SessionError::Ended {
                    session: session.id().to_owned(),
                    reason: format!("while cell {} was replayed: {message}", cell.number),
                }
                .into());
            }
            _ => {}
        }
    }
    for mismatch in mismatches.into_iter().chain(answers.left()) {
        report.note(Some(cell.number), &mismatch, "", "");
    }
    Ok(())
}
