//! Running the tasks of a suite, several at a time.

use crate::remote::RemoteRunner;
use crate::report::{EvalReport, TaskReport};
use crate::suite::{Suite, Task, TaskFile};
use crate::task_run::{self, PlainOptions, TaskRun};
use cellblock_agent::{AgentBuilder, CancellationToken};
use cellblock_model::{Model, ModelError};
use futures_util::{StreamExt as _, stream};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A suite with what runs it: a model and agents, or machines elsewhere.
pub struct Evaluation {
    suite: Suite,
    runner: Runner,
    source_of: SourceOf,
    mode: AskMode,
    jobs: usize,
    tries: usize,
    out: Option<PathBuf>,
}

/// How the model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AskMode {
    /// By an agent, which runs code and calls tools.
    #[default]
    Agent,
    /// Once and without an agent, with everything in the question.
    Plain(PlainOptions),
}

/// An event of an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A task begins.
    Started {
        /// The name of the task.
        task: &'a str,
    },
    /// A task is over.
    Finished {
        /// The result of the task.
        task: &'a TaskReport,
        /// The report so far. Tasks that are not over yet are in it as not run.
        so_far: &'a EvalReport,
    },
}

/// What runs the tasks.
pub(crate) enum Runner {
    Here(LocalAgents),
    Elsewhere(Box<dyn RemoteRunner>),
}

/// The models and agents of this process.
pub(crate) struct LocalAgents {
    open_model: OpenModel,
    make_agent: MakeAgent,
}

impl LocalAgents {
    pub(crate) fn model_for(&self, task: &Task) -> Result<Arc<dyn Model>, ModelError> {
        (self.open_model)(task)
    }

    pub(crate) fn agent_for(&self, task: &Task) -> AgentBuilder {
        (self.make_agent)(task.files.clone())
    }
}

type OpenModel = Box<dyn Fn(&Task) -> Result<Arc<dyn Model>, ModelError> + Send + Sync>;
type MakeAgent = Box<dyn Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync>;
type SourceOf = Box<dyn Fn(&Task) -> Option<String> + Send + Sync>;

impl Evaluation {
    /// An evaluation of this suite. `open_model` opens the model for a task. `make_agent` sets up an agent whose sessions begin with the
    /// files of a task; the model and the tools are added to it.
    pub fn new(
        suite: Suite,
        open_model: impl Fn(&Task) -> Result<Arc<dyn Model>, ModelError> + Send + Sync + 'static,
        make_agent: impl Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync + 'static,
    ) -> Evaluation {
        let agents = LocalAgents {
            open_model: Box::new(open_model),
            make_agent: Box::new(make_agent),
        };
        Evaluation::with_runner(suite, Runner::Here(agents))
    }

    /// An evaluation of this suite whose tasks run elsewhere. The [mode](Evaluation::mode) does not count.
    pub fn elsewhere(suite: Suite, runner: impl RemoteRunner + 'static) -> Evaluation {
        Evaluation::with_runner(suite, Runner::Elsewhere(Box::new(runner)))
    }

    fn with_runner(suite: Suite, runner: Runner) -> Evaluation {
        Evaluation {
            suite,
            runner,
            source_of: Box::new(|_| None),
            mode: AskMode::default(),
            jobs: 1,
            tries: 1,
            out: None,
        }
    }

    /// Sets how the model is asked. The default is by an agent.
    pub fn mode(mut self, mode: AskMode) -> Evaluation {
        self.mode = mode;
        self
    }

    /// Sets how many tasks run at the same time. The default is one.
    pub fn jobs(mut self, jobs: usize) -> Evaluation {
        self.jobs = jobs.max(1);
        self
    }

    /// Sets how often each task is run. The default is once. A task passes if every try did; the score counts tries.
    pub fn tries(mut self, tries: usize) -> Evaluation {
        self.tries = tries.max(1);
        self
    }

    /// Sets a directory for the files that the checks of tasks name: those of a task are written below the task's name. Of several
    /// tries, the files of the last one stay.
    pub fn out(mut self, directory: impl Into<PathBuf>) -> Evaluation {
        self.out = Some(directory.into());
        self
    }

    /// Sets how the source of a task's replies is described in the report, beside the name of the model.
    pub fn sources(
        mut self,
        source_of: impl Fn(&Task) -> Option<String> + Send + Sync + 'static,
    ) -> Evaluation {
        self.source_of = Box::new(source_of);
        self
    }

    /// Runs every task to its end. When `cancel` is cancelled, running tasks end at once and no other task begins; the report is then
    /// marked as not complete.
    pub async fn run(
        &self,
        progress: &(dyn Fn(Progress<'_>) + Send + Sync),
        cancel: &CancellationToken,
    ) -> EvalReport {
        let mut report = self.empty_report();
        let runs = self
            .suite
            .tasks
            .iter()
            .enumerate()
            .map(async |(index, task)| {
                if cancel.is_cancelled() {
                    return (index, None);
                }
                progress(Progress::Started { task: &task.name });
                (index, Some(task_run::run(self, task, cancel).await))
            });
        let mut runs = std::pin::pin!(stream::iter(runs).buffer_unordered(self.jobs));
        while let Some((index, run)) = runs.next().await {
            if let Some(run) = run {
                self.add_result(&mut report, index, run);
                progress(Progress::Finished {
                    task: &report.tasks[index],
                    so_far: &report,
                });
            }
        }
        report.complete = !cancel.is_cancelled();
        report
    }

    fn empty_report(&self) -> EvalReport {
        let mut report = EvalReport::new(&self.suite.name, None);
        let tasks = self.suite.tasks.iter();
        report.tasks = tasks
            .map(|task| TaskReport {
                name: task.name.clone(),
                message: Some("it was not run".to_owned()),
                problems: vec!["it was not run".to_owned()],
                ..TaskReport::default()
            })
            .collect();
        report.update_totals();
        report
    }

    fn add_result(&self, report: &mut EvalReport, index: usize, run: TaskRun) {
        if let (true, Some(model)) = (report.model.is_empty(), run.model) {
            report.model = model;
        }
        report.source = report.source.take().or(run.source);
        report.format = report.format.or(run.format);
        report.tasks[index] = run.report;
        report.update_totals();
    }

    pub(crate) fn tries_of_each(&self) -> usize {
        self.tries
    }

    pub(crate) fn out_directory(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    pub(crate) fn ask_mode(&self) -> &AskMode {
        &self.mode
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    pub(crate) fn source_of(&self, task: &Task) -> Option<String> {
        (self.source_of)(task)
    }
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Evaluation")
            .field("suite", &self.suite.name)
            .field("mode", &self.mode)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}
