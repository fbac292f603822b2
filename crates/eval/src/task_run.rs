//! One task: its run, and what the checks say of it.

use crate::evaluation::{Evaluation, Way};
use crate::plain;
use crate::report::{Called, TaskReport};
use crate::suite::Task;
use crate::test_tools::{CallLog, TestTool};
use cellblock_agent::{
    Agent, AgentError, CancellationToken, Format, Observer, Outcome, RunEvent, RunStatus,
};
use cellblock_model::Model;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Characters of an answer or an argument that a report keeps.
const LONGEST_TEXT: usize = 2_000;

/// Calls of one task that a report keeps: the last ones, which count.
const MOST_CALLS: usize = 20;

/// What came of a task, and what is known about who did it.
pub(crate) struct TaskRun {
    pub(crate) report: TaskReport,
    pub(crate) model: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) format: Option<Format>,
}

/// What was said of replies on the way.
#[derive(Default)]
struct Noticed {
    repairs: Vec<String>,
    asked_again: usize,
}

/// Runs a task to its end. Whatever goes wrong is in the report.
pub(crate) async fn run(
    evaluation: &Evaluation,
    task: &Task,
    cancel: &CancellationToken,
) -> TaskRun {
    let begun = Instant::now();
    let mut run = match evaluation.model_for(task) {
        Err(error) => TaskRun::failed(task, error.to_string()),
        Ok(opened) => {
            let (name, source) = (opened.name().to_owned(), evaluation.source_of(task));
            let mut run = match evaluation.way() {
                Way::Plain(asking) => {
                    TaskRun::of(plain::ask(task, opened.as_ref(), asking, cancel).await)
                }
                Way::Agent => match with_agent(evaluation, task, opened, cancel).await {
                    Ok(run) => run,
                    Err(error) => TaskRun::failed(task, error.to_string()),
                },
            };
            (run.model, run.source) = (Some(name), source);
            run
        }
    };
    let report = &mut run.report;
    report.ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.answer.as_mut().map(shorten).unwrap_or_default();
    let kept = report.calls.len().saturating_sub(MOST_CALLS);
    report.calls.drain(..kept);
    let arguments = report.calls.iter_mut();
    arguments
        .flat_map(|call| call.arguments.values_mut())
        .for_each(shorten);
    run
}

async fn with_agent(
    evaluation: &Evaluation,
    task: &Task,
    model: Arc<dyn Model>,
    cancel: &CancellationToken,
) -> Result<TaskRun, AgentError> {
    let log = CallLog::default();
    let mut builder = evaluation.agent_for(task).shared_model(model);
    for tool in &task.tools {
        builder = tool.add(builder, task, &log);
    }
    if let Some(schema) = &task.schema {
        builder = builder.answer_schema(schema.clone());
    }
    let agent = builder.build()?;
    let noticed: Arc<Mutex<Noticed>> = Arc::default();
    let outcome = agent
        .run_watched(&task.question, noticing(&noticed), cancel.clone())
        .await?;
    let noticed = std::mem::take(&mut *noticed.lock().unwrap_or_else(PoisonError::into_inner));
    let calls = handed_in(task, &agent, &outcome, log.calls());
    let report = report(task, outcome, calls, noticed);
    Ok(TaskRun {
        format: Some(agent.format()),
        ..TaskRun::of(report)
    })
}

/// In the format `json` the action that answers is called `provide_answer`, like the tool. Whoever uses the one in place of the other
/// has done what the question says.
fn handed_in(task: &Task, agent: &Agent, outcome: &Outcome, mut calls: Vec<Called>) -> Vec<Called> {
    let tool = TestTool::ProvideAnswer;
    let is_open = task.tools.contains(&tool) && !calls.iter().any(|call| call.tool == tool.name());
    if let (Format::Json, true, Some(answer)) = (agent.format(), is_open, &outcome.answer) {
        let mut arguments = Map::new();
        arguments.insert("answer".to_owned(), answer.clone());
        calls.push(Called {
            tool: tool.name().to_owned(),
            arguments,
        });
    }
    calls
}

fn report(task: &Task, outcome: Outcome, calls: Vec<Called>, noticed: Noticed) -> TaskReport {
    let checks = task.checks.iter();
    let problems: Vec<String> = checks
        .filter_map(|check| check.of_run(outcome.answer.as_ref(), &calls).err())
        .collect();
    let gave_up = usize::from(outcome.status == RunStatus::MalformedReplies);
    let with_code = || {
        outcome
            .steps
            .iter()
            .filter(|step| step.actions.iter().any(|done| done.code.is_some()))
    };
    let actions = || outcome.steps.iter().flat_map(|step| &step.actions);
    TaskReport {
        name: task.name.clone(),
        passed: problems.is_empty(),
        status: Some(outcome.status),
        message: outcome.message.clone(),
        problems,
        calls,
        steps: outcome.steps.len(),
        code_actions: with_code().count() + gave_up,
        parsed_at_first_try: with_code()
            .filter(|step| step.repairs.is_empty() && step.malformed == 0)
            .count(),
        failed_cells: actions()
            .filter(|done| done.code.is_some() && !done.ok)
            .count(),
        repairs: noticed.repairs,
        asked_again: noticed.asked_again,
        usage: outcome.usage,
        answer: outcome.answer,
        ms: 0,
    }
}

fn noticing(noticed: &Arc<Mutex<Noticed>>) -> Observer {
    let noticed = Arc::clone(noticed);
    Arc::new(move |event| {
        let mut noticed = noticed.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RunEvent::Repaired { repairs } => noticed.repairs.extend(repairs.iter().cloned()),
            RunEvent::Malformed { .. } => noticed.asked_again += 1,
            _ => {}
        }
    })
}

impl TaskRun {
    fn of(report: TaskReport) -> TaskRun {
        TaskRun {
            report,
            model: None,
            source: None,
            format: None,
        }
    }

    fn failed(task: &Task, message: String) -> TaskRun {
        TaskRun::of(TaskReport {
            name: task.name.clone(),
            problems: vec!["it could not be run".to_owned()],
            message: Some(message),
            ..TaskReport::default()
        })
    }
}

/// Cuts a long text.
fn shorten(value: &mut Value) {
    if let Value::String(text) = value
        && let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT)
    {
        text.truncate(end);
        text.push('…');
    }
}
