//! Running the tasks of a suite, some at a time.

use crate::plain::PlainAsking;
use crate::report::{Report, TaskReport};
use crate::suite::{Suite, Task, TaskFile};
use crate::task_run::{self, TaskRun};
use cellblock_agent::{AgentBuilder, CancellationToken};
use cellblock_model::{Model, ModelError};
use futures_util::{StreamExt as _, stream};
use std::fmt;
use std::sync::Arc;

/// A suite, and how it is to be run.
pub struct Evaluation {
    suite: Suite,
    models: Models,
    agents: Agents,
    sources: Sources,
    way: Way,
    jobs: usize,
}

/// How the model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Way {
    /// By an agent.
    #[default]
    Agent,
    /// Once and alone, with everything in the question.
    Plain(PlainAsking),
}

/// Something that happened in an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A task begins.
    Begun {
        /// The task.
        task: &'a str,
    },
    /// A task is over.
    Ended {
        /// What came of it.
        task: &'a TaskReport,
        /// Everything so far; tasks that are not over yet stand there as not run.
        so_far: &'a Report,
    },
}

type Models = Box<dyn Fn(&Task) -> Result<Arc<dyn Model>, ModelError> + Send + Sync>;
type Agents = Box<dyn Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync>;
type Sources = Box<dyn Fn(&Task) -> Option<String> + Send + Sync>;

impl Evaluation {
    /// Runs these tasks. `models` gives the model for a task, `agents` an agent whose sessions begin with the files of a task; model
    /// and tools are added to it.
    pub fn new(
        suite: Suite,
        models: impl Fn(&Task) -> Result<Arc<dyn Model>, ModelError> + Send + Sync + 'static,
        agents: impl Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync + 'static,
    ) -> Evaluation {
        Evaluation {
            suite,
            models: Box::new(models),
            agents: Box::new(agents),
            sources: Box::new(|_| None),
            way: Way::default(),
            jobs: 1,
        }
    }

    /// How the model is asked; by an agent, unless said otherwise.
    pub fn asked(mut self, way: Way) -> Evaluation {
        self.way = way;
        self
    }

    /// How many tasks run at a time; one, unless said otherwise.
    pub fn jobs(mut self, jobs: usize) -> Evaluation {
        self.jobs = jobs.max(1);
        self
    }

    /// Who answers, in more words than the model's name.
    pub fn sources(
        mut self,
        sources: impl Fn(&Task) -> Option<String> + Send + Sync + 'static,
    ) -> Evaluation {
        self.sources = Box::new(sources);
        self
    }

    /// Runs every task to its end. When the token is cancelled, tasks that run end at once, and no other begins; the report says so.
    pub async fn run(
        &self,
        progress: &(dyn Fn(Progress<'_>) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Report {
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
                progress(Progress::Begun { task: &task.name });
                (index, Some(task_run::run(self, task, cancel).await))
            });
        let mut runs = std::pin::pin!(stream::iter(runs).buffer_unordered(self.jobs));
        while let Some((index, run)) = runs.next().await {
            if let Some(run) = run {
                self.take_in(&mut report, index, run);
                progress(Progress::Ended {
                    task: &report.tasks[index],
                    so_far: &report,
                });
            }
        }
        report.complete = !cancel.is_cancelled();
        report
    }

    fn empty_report(&self) -> Report {
        let mut report = Report::new(&self.suite.name, None);
        let tasks = self.suite.tasks.iter();
        report.tasks = tasks
            .map(|task| TaskReport {
                name: task.name.clone(),
                message: Some("it was not run".to_owned()),
                problems: vec!["it was not run".to_owned()],
                ..TaskReport::default()
            })
            .collect();
        report.add_up();
        report
    }

    fn take_in(&self, report: &mut Report, index: usize, run: TaskRun) {
        if let (true, Some(model)) = (report.model.is_empty(), run.model) {
            report.model = model;
        }
        report.source = report.source.take().or(run.source);
        report.format = report.format.or(run.format);
        report.tasks[index] = run.report;
        report.add_up();
    }

    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    pub(crate) fn model_for(&self, task: &Task) -> Result<Arc<dyn Model>, ModelError> {
        (self.models)(task)
    }

    pub(crate) fn source_of(&self, task: &Task) -> Option<String> {
        (self.sources)(task)
    }

    pub(crate) fn agent_for(&self, task: &Task) -> AgentBuilder {
        (self.agents)(task.files.clone())
    }
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Evaluation")
            .field("suite", &self.suite.name)
            .field("way", &self.way)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}
