//! Running one task, by an agent, by the model alone or elsewhere, and checking the result.

use crate::check::{Check, ProducedFiles};
use crate::evaluation::{AskMode, Evaluation, LocalAgents, Runner};
use crate::remote;
use crate::report::TaskReport;
use crate::run_facts::{ReplyProblems, RunFacts};
use crate::suite::Task;
use crate::test_tools::{CallLog, TestTool};
use cellblock_agent::{AgentBuilder, AgentError, CancellationToken, Format, Observer, RunStatus};
use cellblock_model::{Message, Model, Request, complete};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The characters of an answer or an argument that a report keeps.
const MAX_TEXT_CHARS: usize = 2_000;

/// The calls of one task that a report keeps: the last ones.
const MAX_REPORTED_CALLS: usize = 20;

/// The result of a task, with the model that gave it.
pub(crate) struct TaskRun {
    pub(crate) report: TaskReport,
    pub(crate) model: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) format: Option<Format>,
}

/// Runs a task as often as the evaluation says, one try after the other, and puts the tries together.
pub(crate) async fn run(
    evaluation: &Evaluation,
    task: &Task,
    cancel: &CancellationToken,
) -> TaskRun {
    let mut all = run_once(evaluation, task, 1, cancel).await;
    for attempt in 2..=evaluation.tries_of_each() {
        if cancel.is_cancelled() {
            break;
        }
        let next = run_once(evaluation, task, attempt, cancel).await;
        all.report.add_try(next.report);
    }
    all
}

/// Runs a task to its end. Errors are part of its report.
async fn run_once(
    evaluation: &Evaluation,
    task: &Task,
    attempt: usize,
    cancel: &CancellationToken,
) -> TaskRun {
    let started = Instant::now();
    let mut run = match evaluation.runner() {
        Runner::Elsewhere(runner) => {
            let out = evaluation.out_directory();
            remote::run(runner.as_ref(), task, attempt, out, cancel).await
        }
        Runner::Here(agents) => run_here(evaluation, agents, task, cancel).await,
    };
    run.source = evaluation.source_of(task);
    let report = &mut run.report;
    report.ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.answer.as_mut().map(shorten).unwrap_or_default();
    let kept = report.calls.len().saturating_sub(MAX_REPORTED_CALLS);
    report.calls.drain(..kept);
    let arguments = report.calls.iter_mut();
    arguments
        .flat_map(|call| call.arguments.values_mut())
        .for_each(shorten);
    run
}

/// Runs a task in this process.
async fn run_here(
    evaluation: &Evaluation,
    agents: &LocalAgents,
    task: &Task,
    cancel: &CancellationToken,
) -> TaskRun {
    let opened = match agents.model_for(task) {
        Ok(opened) => opened,
        Err(error) => return TaskRun::failed(task, error.to_string()),
    };
    let name = opened.name().to_owned();
    let run = match evaluation.ask_mode() {
        AskMode::Plain(options) => {
            TaskRun::of(ask_plainly(task, opened.as_ref(), options, cancel).await)
        }
        AskMode::Agent => {
            let out = evaluation.out_directory();
            let builder = agents.agent_for(task).shared_model(opened);
            match run_with_agent(builder, task, out, cancel).await {
                Ok(run) => run,
                Err(error) => TaskRun::failed(task, error.to_string()),
            }
        }
    };
    TaskRun {
        model: Some(name),
        ..run
    }
}

async fn run_with_agent(
    mut builder: AgentBuilder,
    task: &Task,
    out: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<TaskRun, AgentError> {
    let log = CallLog::default();
    for tool in &task.tools {
        builder = tool.add_to(builder, task, &log);
    }
    if let Some(schema) = &task.schema {
        builder = builder.answer_schema(schema.clone());
    }
    let agent = builder.build()?;
    let problems: Arc<Mutex<ReplyProblems>> = Arc::default();
    let mut conversation = agent.conversation();
    let observer = collect_problems(&problems);
    let outcome = conversation
        .ask(&task.question, observer, cancel.clone())
        .await;
    let mut files = ProducedFiles::new();
    for path in task.checks.iter().filter_map(Check::file) {
        // A file that is not there fails its check.
        if let Ok(contents) = conversation.executor().get_file(path).await {
            files.insert(path.to_owned(), contents);
        }
    }
    conversation.executor().close().await;
    let outcome = outcome?;
    let unwritten = written_files(out, task, &files);
    let problems = std::mem::take(&mut *problems.lock().unwrap_or_else(PoisonError::into_inner));
    let facts = RunFacts::of_outcome(outcome, agent.format(), problems);
    let mut report = facts.report(task, log.calls(), files);
    report.message = report.message.or(unwritten);
    Ok(TaskRun {
        format: Some(agent.format()),
        ..TaskRun::of(report)
    })
}

/// Writes the files that a task's checks name, if there is a directory for them. Returns what went wrong.
pub(crate) fn written_files(
    out: Option<&Path>,
    task: &Task,
    files: &ProducedFiles,
) -> Option<String> {
    write_files(&out?.join(&task.name), files).err()
}

/// Writes the files of a run below a directory. The error names the file.
fn write_files(directory: &Path, files: &ProducedFiles) -> Result<(), String> {
    for (path, contents) in files {
        let target = directory.join(path);
        let folder = target.parent().unwrap_or(directory);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&target, contents))
            .map_err(|error| format!("{}: {error}", target.display()))?;
    }
    Ok(())
}

fn collect_problems(problems: &Arc<Mutex<ReplyProblems>>) -> Observer {
    let problems = Arc::clone(problems);
    Arc::new(move |event| {
        problems
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(event);
    })
}

impl TaskRun {
    pub(crate) fn of(report: TaskReport) -> TaskRun {
        TaskRun {
            report,
            model: None,
            source: None,
            format: None,
        }
    }

    pub(crate) fn failed(task: &Task, message: String) -> TaskRun {
        TaskRun::of(TaskReport {
            name: task.name.clone(),
            problems: vec!["it could not be run".to_owned()],
            message: Some(message),
            ..TaskReport::default()
        })
    }
}

/// Cuts a text that is too long for a report.
fn shorten(value: &mut Value) {
    if let Value::String(text) = value
        && let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS)
    {
        text.truncate(end);
        text.push('…');
    }
}

/// The options of a request without an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainOptions {
    /// The longest reply, in tokens.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The time limit of one reply.
    pub time_limit: Option<Duration>,
}

/// The time limit where there is none: about 30 years.
const NO_TIME_LIMIT: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The question of a task, with its secret and its files, for a model without an agent.
pub fn plain_question(task: &Task) -> String {
    let mut text = task.question.trim().to_owned();
    if let Some(secret) = &task.secret {
        let name = TestTool::GetSecret.name();
        text.push_str(&format!(
            "\n\nThe tool {name} was called for you. It gave: {secret}"
        ));
    }
    for file in &task.files {
        let contents = String::from_utf8_lossy(&file.contents);
        text.push_str(&format!(
            "\n\nThe file {}:\n```\n{}\n```",
            file.path,
            contents.trim_end()
        ));
    }
    text.push_str("\n\nYou cannot run code or call tools now. Reply with the answer alone.");
    text
}

/// Asks the model without an agent, and checks the reply.
async fn ask_plainly(
    task: &Task,
    model: &dyn Model,
    options: &PlainOptions,
    cancel: &CancellationToken,
) -> TaskReport {
    let request = Request {
        max_tokens: options.max_tokens,
        temperature: options.temperature,
        ..Request::new(vec![Message::user(plain_question(task))])
    };
    let (status, message, reply) = tokio::select! {
        biased;
        () = cancel.cancelled() => (RunStatus::Cancelled, Some("it was cancelled".to_owned()), None),
        () = tokio::time::sleep(options.time_limit.unwrap_or(NO_TIME_LIMIT)) => {
            (RunStatus::MaxTime, Some("there was no reply in time".to_owned()), None)
        }
        reply = complete(model, request) => match reply {
            Ok(reply) => (RunStatus::Answered, None, Some(reply)),
            Err(error) => (RunStatus::ModelError, Some(error.to_string()), None),
        },
    };
    let mut report = TaskReport {
        name: task.name.clone(),
        status: Some(status),
        message,
        ..TaskReport::default()
    };
    match reply {
        Some(reply) => {
            let checks = task.checks.iter();
            report.problems = checks
                .filter_map(|check| check.check_plain_reply(&reply.text).err())
                .collect();
            report.usage = reply.usage;
            let prices = model.capabilities().prices;
            report.cost = prices.map(|prices| prices.cost(&reply.usage));
            report.answer = Some(Value::String(reply.text));
        }
        None => report.problems.push("there is no answer".to_owned()),
    }
    report.passed = report.problems.is_empty();
    report
}
