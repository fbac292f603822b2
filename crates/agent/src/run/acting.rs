//! Doing what a model wants done.

use super::past::Before;
use super::words;
use super::{Done, Observer, RunEvent};
use crate::executor::{OBSERVATION, RUN_CODE, Ran, Room, ran};
use crate::format::{Action, Facts, Observation, ToolUse, Turn};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_model::Image;
use cellblock_protocol::{Cell, CellResult, Event as CellEvent, Status, signal_name};
use cellblock_tools::{Answer, Arguments, Call, Failure, Happening, PURPOSE, Part, Watcher};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tracing::Instrument as _;

/// The tool that installs packages, where there is one.
const INSTALL: &str = "install_packages";
/// Live output of one action that is passed on. All of it is in the result.
const MOST_LIVE: usize = 1 << 20;

/// Where something is done, for which reply, and who watches.
pub(crate) struct Stage<'a> {
    pub(crate) room: &'a dyn Room,
    pub(crate) step: usize,
    pub(crate) facts: &'a Facts,
    pub(crate) observer: &'a Observer,
    /// What was done before the run was cut off: it is not done again.
    pub(crate) before: &'a Before,
}

/// Does everything that a turn asks for; one observation for each action.
pub(crate) async fn act(stage: &Stage<'_>, turn: &Turn) -> Vec<(Done, Observation)> {
    if turn
        .actions
        .iter()
        .all(|action| matches!(action, Action::Call(_)))
    {
        // Side by side where they share no interpreter: the workbench keeps the order of the others.
        let calls = turn.actions.iter().enumerate();
        let calls = calls.filter_map(|(index, action)| match action {
            Action::Call(call) => Some(called(stage, index, call)),
            _ => None,
        });
        return join_all(calls).await;
    }
    let mut all = Vec::new();
    let mut has_failed = false;
    for (index, action) in turn.actions.iter().enumerate() {
        let before = stage.before.of(stage.step, index);
        let is_new = before.is_none();
        let (done, observation) = match (before, action) {
            (Some(before), _) => before,
            (None, Action::Code(code)) if has_failed => skipped(code, stage.facts),
            (None, Action::Code(code)) => run_code(stage, index, code).await,
            (None, Action::Dependencies(names)) => dependencies(stage, index, names).await,
            // No format mixes these with code.
            (None, Action::Call(_) | Action::Answer(_)) => continue,
        };
        has_failed |= !done.ok && done.code.is_some();
        if is_new {
            stage.tell_done(index, &done);
        }
        all.push((done, observation));
    }
    all
}

impl Stage<'_> {
    fn tell_done(&self, action: usize, done: &Done) {
        (self.observer)(&RunEvent::Done {
            step: self.step,
            action,
            done: Box::new(done.clone()),
        });
    }
}

/// Runs code as a cell.
pub(crate) async fn run_code(stage: &Stage<'_>, index: usize, code: &str) -> (Done, Observation) {
    let step = stage.step;
    (stage.observer)(&RunEvent::Code {
        step,
        code: code.to_owned(),
    });
    let begun = Instant::now();
    let span = tracing::info_span!("cell", step, code, outcome = tracing::field::Empty);
    let ran = stage
        .room
        .run(Cell::new(code), Some(watcher(stage, index)))
        .instrument(span.clone())
        .await;
    let done = done_code(code, &ran, begun);
    span.record("outcome", outcome_of(&done));
    (done, seen(ran.text, &ran.attachments, stage.facts))
}

async fn called(stage: &Stage<'_>, index: usize, call: &ToolUse) -> (Done, Observation) {
    if let Some(before) = stage.before.of(stage.step, index) {
        return before;
    }
    let (step, facts) = (stage.step, stage.facts);
    let arguments = shown(&call.arguments);
    let code = (call.name == RUN_CODE)
        .then(|| arguments.get("python_code_snippet")?.as_str())
        .flatten()
        .map(str::to_owned);
    (stage.observer)(&match &code {
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
    let begun = Instant::now();
    let span = match &code {
        Some(code) => tracing::info_span!("cell", step, code, outcome = tracing::field::Empty),
        None => {
            tracing::info_span!("tool_call", step, tool = %call.name, %arguments, outcome = tracing::field::Empty)
        }
    };
    let request = Call::by_model(call.id.clone(), call.name.clone(), call.arguments.clone());
    let answer = stage
        .room
        .call(request, Some(watcher(stage, index)))
        .instrument(span.clone())
        .await;
    let text = answer.for_model(facts.locale, OBSERVATION);
    let attachments: Vec<Part> = answer.attachments().cloned().collect();
    let done = match code {
        Some(code) => Done {
            timeout: arguments.get("timeout").and_then(Value::as_f64),
            ..done_code(&code, &ran(&answer, facts.locale), begun)
        },
        None => done_call(call, arguments, &answer, text.clone(), begun),
    };
    span.record("outcome", outcome_of(&done));
    stage.tell_done(index, &done);
    (done, seen(text, &attachments, facts))
}

/// What a trace says of it.
fn outcome_of(done: &Done) -> &str {
    match (&done.error, done.ok) {
        (_, true) => "ok",
        (Some(error), false) => error,
        (None, false) => "failed",
    }
}

fn done_code(code: &str, ran: &Ran, begun: Instant) -> Done {
    let ok = match &ran.result {
        Some(result) => result.status == Status::Success,
        // An executor of nothing, or a person who said no.
        None => ran.text.is_empty(),
    };
    Done {
        name: RUN_CODE.to_owned(),
        code: Some(code.to_owned()),
        timeout: None,
        arguments: None,
        ok,
        text: ran.text.clone(),
        error: (!ok).then(|| error_of(ran)),
        result: ran.result.clone().map(Box::new),
        ms: milliseconds(begun),
    }
}

fn done_call(
    call: &ToolUse,
    arguments: Value,
    answer: &Answer,
    text: String,
    begun: Instant,
) -> Done {
    // `compute` answers with an error field of its own.
    let inner = answer.outcome.as_ref().ok().and_then(|output| {
        let error = output.structured.as_ref()?.get("error")?.as_str()?;
        (call.name.starts_with("compute")).then(|| error.to_owned())
    });
    let error = match &answer.outcome {
        Err(failure) => Some(failure.to_string()),
        Ok(_) => inner,
    };
    Done {
        name: call.name.clone(),
        code: None,
        timeout: None,
        arguments: Some(arguments),
        ok: error.is_none(),
        text,
        error,
        result: None,
        ms: milliseconds(begun),
    }
}

fn skipped(code: &str, facts: &Facts) -> (Done, Observation) {
    let text = words::not_run(facts.locale).to_owned();
    let done = Done {
        name: RUN_CODE.to_owned(),
        code: Some(code.to_owned()),
        timeout: None,
        arguments: None,
        ok: false,
        text: text.clone(),
        error: None,
        result: None,
        ms: 0,
    };
    (done, seen(text, &[], facts))
}

/// Has the missing packages installed, where there is a tool for that; else says which are there.
async fn dependencies(stage: &Stage<'_>, index: usize, names: &[String]) -> (Done, Observation) {
    let facts = stage.facts;
    let bare = |name: &str| {
        let end = name
            .find(['=', '<', '>', '!', '~', '[', ';', ' '])
            .unwrap_or(name.len());
        name[..end].to_lowercase().replace(['_', '.'], "-")
    };
    let known: Vec<String> = facts.dependencies.iter().map(|name| bare(name)).collect();
    let (here, missing): (Vec<String>, Vec<String>) = names
        .iter()
        .cloned()
        .partition(|name| known.contains(&bare(name)));
    let begun = Instant::now();
    let installed = install(stage, index, &missing).await;
    let (text, ok) = match installed {
        Some(Ok(told)) => (told, true),
        Some(Err(told)) => (told, false),
        None => (words::packages(&here, &missing, facts.locale), true),
    };
    let done = Done {
        name: "dependencies".to_owned(),
        code: None,
        timeout: None,
        arguments: Some(names.iter().cloned().map(Value::from).collect()),
        ok,
        text: text.clone(),
        error: (!ok).then(|| words::short(&text, 300)),
        result: None,
        ms: milliseconds(begun),
    };
    (done, seen(text, &[], facts))
}

/// What the tool said; none where there is nothing to install, or no such tool.
async fn install(
    stage: &Stage<'_>,
    index: usize,
    missing: &[String],
) -> Option<Result<String, String>> {
    if missing.is_empty() {
        return None;
    }
    let step = stage.step;
    let arguments = json!({ "packages": missing, PURPOSE: "the code of this reply needs them" });
    let span = tracing::info_span!("install", step, %arguments, outcome = tracing::field::Empty);
    let call = Call::by_model(format!("install_{step}"), INSTALL, arguments);
    let answer = stage
        .room
        .call(call, Some(watcher(stage, index)))
        .instrument(span.clone())
        .await;
    if matches!(answer.outcome, Err(Failure::UnknownTool { .. })) {
        return None;
    }
    let text = answer.for_model(stage.facts.locale, OBSERVATION);
    let ok = answer.outcome.is_ok();
    span.record("outcome", if ok { "ok" } else { "failed" });
    Some(if ok { Ok(text) } else { Err(text) })
}

fn seen(text: String, attachments: &[Part], facts: &Facts) -> Observation {
    let pictures = attachments.iter().filter_map(|part| match part {
        Part::Blob { mime, data, .. } if mime.starts_with("image/") => {
            Some(Image::inline(mime, &STANDARD.encode(data)))
        }
        _ => None,
    });
    Observation {
        text,
        images: pictures
            .filter(|_| facts.capabilities.images)
            .take(8)
            .collect(),
    }
}

/// What went wrong with a cell, in one line that is the same whenever the same went wrong.
fn error_of(ran: &Ran) -> String {
    match &ran.result {
        None => words::short(&ran.text, 300),
        Some(CellResult {
            error: Some(error), ..
        }) => format!("{}: {}", error.type_, words::short(&error.value, 200)),
        Some(result) => match (result.status, result.signal, result.exit_code) {
            (Status::Crashed, Some(signal), _) => format!("crashed with {}", signal_name(signal)),
            (Status::Crashed, None, Some(code)) => format!("ended with exit code {code}"),
            (status, ..) => status.name().to_owned(),
        },
    }
}

fn shown(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object(map) => Value::Object(map.clone()),
        Arguments::Text(text) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.clone()))
        }
    }
}

/// Passes on what happens while something runs, up to a bound.
fn watcher(stage: &Stage<'_>, action: usize) -> Watcher {
    let (observer, step) = (Arc::clone(stage.observer), stage.step);
    let passed = AtomicUsize::new(0);
    Arc::new(move |happening| {
        let event = match happening {
            Happening::Cell(event) => {
                let bytes = match &event {
                    CellEvent::Stdout { text } | CellEvent::Stderr { text } => text.len(),
                    _ => 256,
                };
                if passed.fetch_add(bytes, Ordering::Relaxed) > MOST_LIVE {
                    return;
                }
                RunEvent::Cell { event }
            }
            Happening::Answered { name, ok, .. } => RunEvent::ToolAnswered { name, ok },
            Happening::Recorded(call) => RunEvent::Recorded { step, action, call },
            Happening::Waiting { tool } => RunEvent::WaitingForApproval { tool },
            Happening::Plan { version, markdown } => RunEvent::Plan { version, markdown },
            _ => return,
        };
        observer(&event);
    })
}

fn milliseconds(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
