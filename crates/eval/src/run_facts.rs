//! What is known of a run that has ended, wherever it ran, and the report that is made of it.

use crate::check::{ProducedFiles, RunTraces};
use crate::report::{TaskReport, TestToolCall};
use crate::suite::Task;
use crate::test_tools::TestTool;
use cellblock_agent::{ActionResult, Format, Outcome, RunEvent, RunStatus};
use cellblock_model::{Cost, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Clone, Debug, Deserialize)]
pub struct RunEnding {
    /// How the run ended.
    pub status: RunStatus,
    /// The answer: a text, or a value that fits the schema.
    #[serde(default)]
    pub answer: Option<Value>,
    /// Why there is no answer.
    #[serde(default)]
    pub message: Option<String>,
    /// The tokens that the run used.
    #[serde(default)]
    pub usage: Usage,
    /// The cost of the tokens, where prices are known.
    #[serde(default)]
    pub cost: Option<Cost>,
}

impl RunEnding {
    /// The end of a run of which nothing is known but its status.
    pub fn of(status: RunStatus) -> RunEnding {
        RunEnding {
            status,
            answer: None,
            message: None,
            usage: Usage::default(),
            cost: None,
        }
    }
}

/// What happened in a run.
pub(crate) struct RunFacts {
    pub(crate) ending: RunEnding,
    pub(crate) format: Option<Format>,
    steps: Vec<StepFacts>,
    problems: ReplyProblems,
}

/// One step: the results of its actions, and whether its reply could be read at the first try.
#[derive(Default)]
struct StepFacts {
    actions: Vec<ActionResult>,
    has_problems: bool,
}

/// What the events of a run say about its replies.
#[derive(Default)]
pub(crate) struct ReplyProblems {
    /// Descriptions of what was repaired.
    repairs: Vec<String>,
    /// The replies that could not be read.
    asked_again: usize,
}

impl ReplyProblems {
    pub(crate) fn add(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Repaired { repairs } => self.repairs.extend(repairs.iter().cloned()),
            RunEvent::Malformed { .. } => self.asked_again += 1,
            _ => {}
        }
    }
}

impl RunFacts {
    /// The facts of a run of this process.
    pub(crate) fn of_outcome(
        outcome: Outcome,
        format: Format,
        problems: ReplyProblems,
    ) -> RunFacts {
        let steps = outcome.steps.into_iter().map(|step| StepFacts {
            has_problems: !step.repairs.is_empty() || step.malformed > 0,
            actions: step.actions,
        });
        RunFacts {
            steps: steps.collect(),
            ending: RunEnding {
                status: outcome.status,
                answer: outcome.answer,
                message: outcome.message,
                usage: outcome.usage,
                cost: outcome.cost,
            },
            format: Some(format),
            problems,
        }
    }

    /// The facts of a run by its events. A run that lost its machine has the events of each machine, one after the other.
    pub(crate) fn of_events(ending: RunEnding, events: Vec<RunEvent>) -> RunFacts {
        let mut facts = RunFacts {
            ending,
            format: None,
            steps: Vec::new(),
            problems: ReplyProblems::default(),
        };
        let mut steps: BTreeMap<usize, EventStep> = BTreeMap::new();
        // Problems of replies come before the step that is read in the end.
        let (mut has_problems, mut was_read) = (false, false);
        for event in events {
            facts.problems.add(&event);
            match event {
                RunEvent::Begun { format, .. } | RunEvent::Resumed { format, .. } => {
                    facts.format = Some(format);
                }
                RunEvent::Asked { .. } => was_read = false,
                RunEvent::Repaired { .. } => has_problems = true,
                // An answer that does not fit the schema was read.
                RunEvent::Malformed { .. } if !was_read => has_problems = true,
                RunEvent::Thought { step, .. } => {
                    was_read = true;
                    let step = steps.entry(step).or_default();
                    step.has_problems |= std::mem::take(&mut has_problems);
                }
                RunEvent::Done { step, action, done } => {
                    steps.entry(step).or_default().actions.insert(action, *done);
                }
                _ => {}
            }
        }
        let steps = steps.into_values().map(|step| StepFacts {
            actions: step.actions.into_values().collect(),
            has_problems: step.has_problems,
        });
        facts.steps = steps.collect();
        facts
    }

    /// The report of a task whose run this was.
    pub(crate) fn report(
        self,
        task: &Task,
        calls: Vec<TestToolCall>,
        files: ProducedFiles,
    ) -> TaskReport {
        let calls = self.with_json_answer(task, calls);
        let RunFacts {
            ending,
            steps,
            problems: replies,
            ..
        } = self;
        let actions = || steps.iter().flat_map(|step| &step.actions);
        let cells = actions().filter(|done| done.code.is_some());
        let results = cells.filter_map(|cell| cell.result.as_deref());
        let traces = RunTraces {
            answer: ending.answer.as_ref(),
            calls: &calls,
            files,
            printed: results.map(|result| result.stdout.as_str()).collect(),
        };
        let checks = task.checks.iter();
        let problems: Vec<String> = checks
            .filter_map(|check| check.check_run(&traces).err())
            .collect();
        let unreadable_end = usize::from(ending.status == RunStatus::MalformedReplies);
        let has_code = |step: &&StepFacts| step.actions.iter().any(|done| done.code.is_some());
        let with_code = || steps.iter().filter(has_code);
        TaskReport {
            name: task.name.clone(),
            passed: problems.is_empty(),
            status: Some(ending.status),
            message: ending.message,
            problems,
            calls,
            steps: steps.len(),
            code_actions: with_code().count() + unreadable_end,
            parsed_at_first_try: with_code().filter(|step| !step.has_problems).count(),
            failed_cells: actions()
                .filter(|done| done.code.is_some() && !done.ok)
                .count(),
            repairs: replies.repairs,
            asked_again: replies.asked_again,
            usage: ending.usage,
            cost: ending.cost,
            answer: ending.answer,
            ..TaskReport::default()
        }
    }

    /// The calls of the task's tools. In the format `json` the action that answers has the name `provide_answer`, like the tool: where the
    /// tool was not called, that action counts as a call.
    fn with_json_answer(&self, task: &Task, mut calls: Vec<TestToolCall>) -> Vec<TestToolCall> {
        let tool = TestTool::ProvideAnswer;
        let is_uncalled =
            task.tools.contains(&tool) && !calls.iter().any(|call| call.tool == tool.name());
        if let (Some(Format::Json), true, Some(answer)) =
            (self.format, is_uncalled, &self.ending.answer)
        {
            let mut arguments = Map::new();
            arguments.insert("answer".to_owned(), answer.clone());
            calls.push(TestToolCall {
                tool: tool.name().to_owned(),
                arguments,
            });
        }
        calls
    }
}

/// A step while its events are read. An action that is told twice, because its machine was lost, counts once.
#[derive(Default)]
struct EventStep {
    actions: BTreeMap<usize, ActionResult>,
    has_problems: bool,
}
