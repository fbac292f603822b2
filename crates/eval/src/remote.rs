//! Tasks whose runs are elsewhere, such as on the nodes of a cluster.

use crate::check::{Check, ProducedFiles};
use crate::run_facts::{RunEnding, RunFacts};
use crate::suite::Task;
use crate::task_run::{TaskRun, written_files};
use crate::test_tools::{CallLog, TaskTools};
use cellblock_agent::{BoxFuture, CancellationToken, RunEvent};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs the questions of tasks elsewhere.
///
/// The checks and the report are the evaluation's, so that a task passes or fails by the same rules wherever it runs.
pub trait RemoteRunner: Send + Sync {
    /// Runs the question of a task to its end. When `cancel` is cancelled, the run must be ended and what is known of it returned. The
    /// error says why nothing is known.
    fn run<'a>(
        &'a self,
        question: RemoteQuestion<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<RemoteRun, String>>;
}

/// A question that is to run elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct RemoteQuestion<'a> {
    /// The task of the question.
    pub task: &'a Task,
    /// The number of the try, from 1.
    pub attempt: usize,
    /// The tools of the task. The runner answers their calls with them.
    pub tools: &'a TaskTools,
}

impl<'a> RemoteQuestion<'a> {
    /// The paths of the files that the checks of the task are about.
    pub fn checked_files(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.task.checks.iter().filter_map(Check::file)
    }
}

/// A run that has ended elsewhere.
#[derive(Clone, Debug)]
pub struct RemoteRun {
    /// The name of the model.
    pub model: String,
    /// How the run ended.
    pub ending: RunEnding,
    /// What happened in the run, in order. Parts of replies and of output may be left out.
    pub events: Vec<RunEvent>,
    /// The files that the checks of the task name, by their path, as far as they are there.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Runs a task elsewhere and checks the result. Errors are part of its report.
pub(crate) async fn run(
    runner: &dyn RemoteRunner,
    task: &Task,
    attempt: usize,
    out: Option<&Path>,
    cancel: &CancellationToken,
) -> TaskRun {
    let log = CallLog::default();
    let tools = TaskTools::new(task, &log);
    let question = RemoteQuestion {
        task,
        attempt,
        tools: &tools,
    };
    let run = match runner.run(question, cancel).await {
        Ok(run) => run,
        Err(message) => return TaskRun::failed(task, message),
    };
    let files: ProducedFiles = run.files;
    let unwritten = written_files(out, task, &files);
    let facts = RunFacts::of_events(run.ending, run.events);
    let format = facts.format;
    let mut report = facts.report(task, log.calls(), files);
    report.message = report.message.or(unwritten);
    TaskRun {
        model: Some(run.model),
        format,
        ..TaskRun::of(report)
    }
}
