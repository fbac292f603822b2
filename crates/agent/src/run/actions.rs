//! Executing the actions of a turn: code, tool calls, packages.

use super::conversation::milliseconds_since;
use super::texts;
use super::unfinished::CompletedActions;
use super::{ActionResult, Observer, RunEvent};
use crate::executor::{CellOutcome, MAX_OBSERVATION_CHARS, OpenExecutor, attachments};
use crate::format::{Action, FormatContext, Observation, ToolUse, Turn};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_model::Image;
use cellblock_protocol::{Cell, CellResult, Event as CellEvent, Status, signal_name};
use cellblock_tools::names::{
    CODE_ARGUMENT, COMPUTE, EXECUTE_PYTHON_CODE, INSTALL_PACKAGES, TIMEOUT_ARGUMENT,
};
use cellblock_tools::{
    Answer, Arguments, Call, Failure, OnToolEvent, PURPOSE_FIELD, Part, ToolEvent,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tracing::Instrument as _;

/// The live output of one action that is passed on as events. The result has all of it.
const MAX_LIVE_OUTPUT_BYTES: usize = 1 << 20;

/// The pictures of one action that the model gets.
const MAX_IMAGES: usize = 8;

/// What the actions of a step need to know.
pub(crate) struct ActionContext<'a> {
    pub(crate) executor: &'a dyn OpenExecutor,
    /// The number of the step, from 1.
    pub(crate) step: usize,
    pub(crate) format_context: &'a FormatContext,
    pub(crate) observer: &'a Observer,
    /// The actions that were completed before the run was cut off. They are not executed again.
    pub(crate) completed: &'a CompletedActions,
}

/// The result of an action, and what the model reads of it.
pub(crate) type Executed = (ActionResult, Observation);

/// Executes all actions of a turn, and returns their results in order. Tool calls run at the same time; code runs in order, and the rest
/// is skipped after a failure.
pub(crate) async fn run_actions(context: &ActionContext<'_>, turn: &Turn) -> Vec<Executed> {
    let is_call = |action: &Action| matches!(action, Action::Call(_));
    if turn.actions.iter().all(is_call) {
        // Calls that use the interpreter still run in order: the tool runner takes care of that.
        let calls = turn.actions.iter().enumerate();
        let calls = calls.filter_map(|(index, action)| match action {
            Action::Call(call) => Some(call_tool(context, index, call)),
            _ => None,
        });
        return join_all(calls).await;
    }
    let mut all = Vec::new();
    let mut has_failed = false;
    for (index, action) in turn.actions.iter().enumerate() {
        let completed = context.completed.get(context.step, index);
        let is_new = completed.is_none();
        let (result, observation) = match (completed, action) {
            (Some(completed), _) => completed,
            (None, Action::Code(code)) if has_failed => skip_code(code, context.format_context),
            (None, Action::Code(code)) => run_code(context, index, code).await,
            (None, Action::Dependencies(names)) => {
                install_dependencies(context, index, names).await
            }
            // No format mixes these with code.
            (None, Action::Call(_) | Action::Answer(_)) => continue,
        };
        has_failed |= !result.ok && result.code.is_some();
        if is_new {
            context.report_done(index, &result);
        }
        all.push((result, observation));
    }
    all
}

impl ActionContext<'_> {
    fn report_done(&self, action: usize, result: &ActionResult) {
        (self.observer)(&RunEvent::Done {
            step: self.step,
            action,
            done: Box::new(result.clone()),
        });
    }
}

/// Runs code as a cell.
pub(crate) async fn run_code(context: &ActionContext<'_>, index: usize, code: &str) -> Executed {
    let step = context.step;
    (context.observer)(&RunEvent::Code {
        step,
        code: code.to_owned(),
    });
    let started = Instant::now();
    let span = tracing::info_span!("cell", step, code, outcome = tracing::field::Empty);
    let cell = context
        .executor
        .run(Cell::new(code), Some(on_event(context, index)))
        .instrument(span.clone())
        .await;
    let result = code_result(code, &cell, started);
    span.record("outcome", trace_outcome(&result));
    let observation = observation(cell.text, &cell.attachments, context.format_context);
    (result, observation)
}

/// The code of a call of the tool that runs code. `None` for other tools, and where the arguments have no code.
pub(super) fn code_of_call(call: &ToolUse) -> Option<String> {
    if call.name != EXECUTE_PYTHON_CODE {
        return None;
    }
    let arguments = arguments_json(&call.arguments);
    Some(arguments.get(CODE_ARGUMENT)?.as_str()?.to_owned())
}

async fn call_tool(context: &ActionContext<'_>, index: usize, call: &ToolUse) -> Executed {
    if let Some(completed) = context.completed.get(context.step, index) {
        return completed;
    }
    let step = context.step;
    let arguments = arguments_json(&call.arguments);
    let code = code_of_call(call);
    (context.observer)(&match &code {
        Some(code) => RunEvent::Code {
            step,
            code: code.clone(),
        },
        None => RunEvent::Call {
            step,
            name: call.name.clone(),
            arguments: arguments.clone(),
        },
    });
    let started = Instant::now();
    let span = match &code {
        Some(code) => tracing::info_span!("cell", step, code, outcome = tracing::field::Empty),
        None => {
            tracing::info_span!("tool_call", step, tool = %call.name, %arguments, outcome = tracing::field::Empty)
        }
    };
    let request = Call::by_model(call.id.clone(), call.name.clone(), call.arguments.clone());
    let outcome = context
        .executor
        .call(request, Some(on_event(context, index)))
        .instrument(span.clone())
        .await;
    let locale = context.format_context.locale;
    let text = outcome.answer.for_model(locale, MAX_OBSERVATION_CHARS);
    let attachments = attachments(&outcome.answer);
    let result = match code {
        Some(code) => ActionResult {
            timeout: arguments
                .get(TIMEOUT_ARGUMENT)
                .and_then(Value::as_f64)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            ..code_result(&code, &CellOutcome::new(outcome, locale), started)
        },
        None => call_result(call, arguments, &outcome.answer, text.clone(), started),
    };
    span.record("outcome", trace_outcome(&result));
    context.report_done(index, &result);
    (
        result,
        observation(text, &attachments, context.format_context),
    )
}

/// The field `outcome` of an action's span.
fn trace_outcome(result: &ActionResult) -> &str {
    match (&result.error, result.ok) {
        (_, true) => "ok",
        (Some(error), false) => error,
        (None, false) => "failed",
    }
}

fn code_result(code: &str, cell: &CellOutcome, started: Instant) -> ActionResult {
    let ok = match &cell.result {
        Some(result) => result.status == Status::Success,
        // An executor that runs no code returns no text. A refusal has one.
        None => cell.text.is_empty(),
    };
    ActionResult {
        name: EXECUTE_PYTHON_CODE.to_owned(),
        code: Some(code.to_owned()),
        timeout: None,
        arguments: None,
        ok,
        text: cell.text.clone(),
        error: (!ok).then(|| cell_error(cell)),
        result: cell.result.clone().map(Box::new),
        ms: milliseconds_since(started),
    }
}

fn call_result(
    call: &ToolUse,
    arguments: Value,
    answer: &Answer,
    text: String,
    started: Instant,
) -> ActionResult {
    // `compute` answers with a field `error` of its own.
    let compute_error = answer.outcome.as_ref().ok().and_then(|output| {
        let error = output.structured.as_ref()?.get("error")?.as_str()?;
        (call.name.starts_with(COMPUTE)).then(|| error.to_owned())
    });
    let error = match &answer.outcome {
        Err(failure) => Some(failure.to_string()),
        Ok(_) => compute_error,
    };
    ActionResult {
        name: call.name.clone(),
        code: None,
        timeout: None,
        arguments: Some(arguments),
        ok: error.is_none(),
        text,
        error,
        result: None,
        ms: milliseconds_since(started),
    }
}

/// The result of code that does not run, because the code before it failed.
fn skip_code(code: &str, context: &FormatContext) -> Executed {
    let text = texts::not_run(context.locale).to_owned();
    let result = ActionResult {
        name: EXECUTE_PYTHON_CODE.to_owned(),
        code: Some(code.to_owned()),
        timeout: None,
        arguments: None,
        ok: false,
        text: text.clone(),
        error: None,
        result: None,
        ms: 0,
    };
    (result, observation(text, &[], context))
}

/// Installs the packages that are missing, if there is a tool for that. Otherwise the model reads which packages are there.
async fn install_dependencies(
    context: &ActionContext<'_>,
    index: usize,
    names: &[String],
) -> Executed {
    let format_context = context.format_context;
    let bare = |name: &str| {
        let end = name
            .find(['=', '<', '>', '!', '~', '[', ';', ' '])
            .unwrap_or(name.len());
        name[..end].to_lowercase().replace(['_', '.'], "-")
    };
    let known: Vec<String> = format_context
        .dependencies
        .iter()
        .map(|name| bare(name))
        .collect();
    let (here, missing): (Vec<String>, Vec<String>) = names
        .iter()
        .cloned()
        .partition(|name| known.contains(&bare(name)));
    let started = Instant::now();
    let (text, ok) = match install(context, index, &missing).await {
        Some(Ok(text)) => (text, true),
        Some(Err(text)) => (text, false),
        None => (
            texts::packages(&here, &missing, format_context.locale),
            true,
        ),
    };
    let result = ActionResult {
        name: "dependencies".to_owned(),
        code: None,
        timeout: None,
        arguments: Some(names.iter().cloned().map(Value::from).collect()),
        ok,
        text: text.clone(),
        error: (!ok).then(|| texts::single_line(&text, 300)),
        result: None,
        ms: milliseconds_since(started),
    };
    (result, observation(text, &[], format_context))
}

/// The text of the tool that installs packages. `None` where nothing is missing, or there is no such tool.
async fn install(
    context: &ActionContext<'_>,
    index: usize,
    missing: &[String],
) -> Option<Result<String, String>> {
    if missing.is_empty() {
        return None;
    }
    let step = context.step;
    let arguments =
        json!({ "packages": missing, PURPOSE_FIELD: "the code of this reply needs them" });
    let span = tracing::info_span!("install", step, %arguments, outcome = tracing::field::Empty);
    let call = Call::by_model(format!("install_{step}"), INSTALL_PACKAGES, arguments);
    let outcome = context
        .executor
        .call(call, Some(on_event(context, index)))
        .instrument(span.clone())
        .await;
    let answer = outcome.answer;
    if matches!(answer.outcome, Err(Failure::UnknownTool { .. })) {
        return None;
    }
    let text = answer.for_model(context.format_context.locale, MAX_OBSERVATION_CHARS);
    let ok = answer.outcome.is_ok();
    span.record("outcome", if ok { "ok" } else { "failed" });
    Some(if ok { Ok(text) } else { Err(text) })
}

fn observation(text: String, attachments: &[Part], context: &FormatContext) -> Observation {
    let pictures = attachments.iter().filter_map(|part| match part {
        Part::Blob { mime, data, .. } if mime.starts_with("image/") => {
            Some(Image::inline(mime, &STANDARD.encode(data)))
        }
        _ => None,
    });
    Observation {
        text,
        images: pictures
            .filter(|_| context.capabilities.images)
            .take(MAX_IMAGES)
            .collect(),
    }
}

/// The error of a cell in one line. The same error always has the same line, so that repetitions are noticed.
fn cell_error(cell: &CellOutcome) -> String {
    match &cell.result {
        None => texts::single_line(&cell.text, 300),
        Some(CellResult {
            error: Some(error), ..
        }) => {
            let value = texts::single_line(&error.value, 200);
            format!("{}: {value}", error.type_)
        }
        Some(result) => match (result.status, result.signal, result.exit_code) {
            (Status::Crashed, Some(signal), _) => format!("crashed with {}", signal_name(signal)),
            (Status::Crashed, None, Some(code)) => format!("ended with exit code {code}"),
            (status, ..) => status.name().to_owned(),
        },
    }
}

/// The arguments of a call as JSON, for events. A text that is not JSON stays a text.
fn arguments_json(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object(map) => Value::Object(map.clone()),
        Arguments::Text(text) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.clone()))
        }
    }
}

/// Passes on what happens while an action runs, up to [`MAX_LIVE_OUTPUT_BYTES`] of live output.
fn on_event(context: &ActionContext<'_>, action: usize) -> OnToolEvent {
    let (observer, step) = (Arc::clone(context.observer), context.step);
    let passed_on = AtomicUsize::new(0);
    Arc::new(move |happening| {
        let event = match happening {
            ToolEvent::Cell(event) => {
                let bytes = match &event {
                    CellEvent::Stdout { text } | CellEvent::Stderr { text } => text.len(),
                    _ => 256,
                };
                if passed_on.fetch_add(bytes, Ordering::Relaxed) > MAX_LIVE_OUTPUT_BYTES {
                    return;
                }
                RunEvent::Cell { event }
            }
            ToolEvent::Answered { name, ok, .. } => RunEvent::ToolAnswered { name, ok },
            ToolEvent::Recorded(call) => RunEvent::Recorded { step, action, call },
            ToolEvent::AwaitingApproval { tool } => RunEvent::WaitingForApproval { tool },
            ToolEvent::PlanChanged { version, markdown } => RunEvent::Plan { version, markdown },
            _ => return,
        };
        observer(&event);
    })
}
