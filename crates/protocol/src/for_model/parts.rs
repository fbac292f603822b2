//! The parts of a result's text for a model, in order.

use super::budget::{PartKind, TextPart};
use super::words::{Claim, Words};
use super::{ForModel, signal_name};
use crate::{CellError, CellResult, MimeBundle, StateOutcome, Status};

/// The parts of the text, in order, each whole.
pub(super) fn parts<'a>(
    result: &'a CellResult,
    code: &str,
    options: &ForModel,
) -> Vec<TextPart<'a>> {
    let words = Words::of(options.locale);
    let mut parts = vec![TextPart::line(heading(result, words))];
    parts.extend(output(result, words));
    match result.status {
        Status::Success => parts.extend(success(result, words)),
        Status::Failure => parts.extend(failure(result, code, words)),
        Status::Timeout => parts.extend(
            options
                .time_limit
                .map(|limit| TextPart::line(words.time_limit(limit))),
        ),
        Status::Crashed => {
            parts.extend(end_of_process(result, words).map(TextPart::line));
            // Only a limit that ended the process has words: the code itself raised nothing.
            parts.extend(
                result
                    .error
                    .iter()
                    .map(|error| TextPart::line(error.value.clone())),
            );
        }
        Status::Interrupted => {}
    }
    parts.extend(state(result, words).map(TextPart::line));
    parts.extend(replay(result, words));
    parts.extend(not_restored(result, words));
    parts
}

fn heading(result: &CellResult, words: &Words) -> String {
    let words = match claim(result.status, words) {
        Some(claim) if is_as_before(result) => claim.restored,
        Some(claim) => claim.plain,
        None if result.status == Status::Success => words.succeeded,
        None => words.failed,
    };
    words.to_owned()
}

fn claim(status: Status, words: &Words) -> Option<&Claim> {
    match status {
        Status::Success | Status::Failure => None,
        Status::Timeout => Some(&words.timed_out),
        Status::Crashed => Some(&words.crashed),
        Status::Interrupted => Some(&words.interrupted),
    }
}

/// Whether the heading may say that the state is the one from before the cell, and no line below it takes that back.
fn is_as_before(result: &CellResult) -> bool {
    result.state.has_variables_of_before() && result.state.not_restored.is_empty()
}

fn output<'a>(result: &'a CellResult, words: &'static Words) -> Vec<TextPart<'a>> {
    let output = result.output.trim_start_matches(['\r', '\n']);
    let skipped = result.output.len() - output.len();
    let output = output.trim_end_matches(['\r', '\n']);
    let mut parts = Vec::new();
    if !output.is_empty() {
        parts.push(TextPart::block(
            words.output,
            output,
            PartKind::Output {
                words,
                cell: result.cell,
                skipped,
            },
        ));
    }
    if let Some(cut) = result.truncated.as_ref().and_then(|streams| streams.output) {
        parts.push(TextPart::line(words.output_goes_on(
            cut.left_out,
            result.cell,
            cut.kept,
        )));
    }
    parts
}

fn success<'a>(result: &'a CellResult, words: &'static Words) -> Vec<TextPart<'a>> {
    let mut parts = Vec::new();
    if let Some(value) = &result.value {
        parts.push(TextPart::block(
            words.value,
            value.repr.trim_matches('\n'),
            PartKind::Value { words },
        ));
    }
    let list = |heading, lines: Vec<String>| {
        TextPart::block(heading, lines.join("\n"), PartKind::List { words })
    };
    if !result.displays.is_empty() {
        parts.push(list(
            words.shown,
            result.displays.iter().map(display_line).collect(),
        ));
    }
    if !result.files.created.is_empty() {
        let files = result.files.created.iter();
        let lines = files.map(|file| {
            words.file(
                &one_line(&file.path, 300),
                file.bytes,
                &one_line(&file.mime, 100),
            )
        });
        parts.push(list(words.new_files, lines.collect()));
    }
    if parts.is_empty() && result.output.trim_matches(['\r', '\n']).is_empty() {
        parts.push(TextPart::line(words.no_output.to_owned()));
    }
    parts
}

fn failure<'a>(result: &'a CellResult, code: &str, words: &'static Words) -> Vec<TextPart<'a>> {
    let mut parts = vec![TextPart::block(
        words.code,
        numbered(code),
        PartKind::Code { words },
    )];
    if let Some(error) = &result.error {
        parts.push(error_part(error, words));
        parts.extend(
            error
                .hint
                .as_deref()
                .map(|hint| TextPart::line(words.hint(&one_line(hint, 500)))),
        );
    }
    parts
}

fn numbered(code: &str) -> String {
    let lines = code
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{:>4} | {line}", at + 1));
    lines.collect::<Vec<_>>().join("\n")
}

fn error_part<'a>(error: &'a CellError, words: &'static Words) -> TextPart<'a> {
    let traceback = error.traceback.trim_matches('\n');
    if traceback.is_empty() {
        let line = if error.value.is_empty() {
            error.type_.clone()
        } else {
            format!("{}: {}", error.type_, error.value.trim_matches('\n'))
        };
        return TextPart::block(words.error, line, PartKind::Traceback { words, summary: 0 });
    }
    TextPart::block(
        words.error,
        traceback,
        PartKind::Traceback {
            words,
            summary: summary_start(traceback, &error.type_),
        },
    )
}

/// The offset of the `Type: message` line. That line is not always the last: a message can have several lines, and notes follow it.
fn summary_start(traceback: &str, type_: &str) -> usize {
    let mut start = 0;
    let mut last = 0;
    let mut named = None;
    for line in traceback.split_inclusive('\n') {
        // Python writes `json.decoder.JSONDecodeError: …`; the type may or may not come with its module.
        let head = line.trim_end().split(':').next().unwrap_or_default();
        let short = type_.rsplit('.').next().unwrap_or(type_);
        if !short.is_empty()
            && !line.starts_with([' ', '\t'])
            && head.rsplit('.').next() == Some(short)
        {
            named = Some(start);
        }
        if !line.trim().is_empty() {
            last = start;
        }
        start += line.len();
    }
    named.unwrap_or(last)
}

fn end_of_process(result: &CellResult, words: &Words) -> Option<String> {
    match (result.signal, result.exit_code) {
        (Some(signal), _) => Some(words.signal(&signal_name(signal))),
        (None, Some(code)) => Some(words.exit_code(code)),
        (None, None) => None,
    }
}

/// The line about the state, where the heading does not say it.
fn state(result: &CellResult, words: &Words) -> Option<String> {
    let stopped = claim(result.status, words);
    let state = &result.state;
    let line = match state.outcome {
        StateOutcome::Kept => stopped.map(|_| words.state_kept.to_owned())?,
        StateOutcome::Restored if !state.lost.is_empty() => {
            words.state_behind(state.lost.len() as u64, &state.lost)
        }
        StateOutcome::Restored if state.has_variables_of_before() => {
            let is_said = is_as_before(result) && stopped.is_some_and(|claim| claim.names_state);
            match (is_said, state.not_restored.is_empty()) {
                (true, _) => return None,
                (false, true) => return Some(words.state_as_before.to_owned()),
                (false, false) => return Some(words.state_as_before_but.to_owned()),
            }
        }
        StateOutcome::Restored if !state.differed.is_empty() => {
            return Some(words.state_made_again.to_owned());
        }
        StateOutcome::Restored => words.state_behind(state.checkpoint.behind, &[]),
        StateOutcome::Ended => words.state_ended.to_owned(),
    };
    Some(match &state.checkpoint.reason {
        Some(reason) if state.outcome == StateOutcome::Ended => {
            format!("{line}{}{}", words.because, one_line(reason, 500))
        }
        _ => line,
    })
}

/// The earlier cells that were run again, and how they differed. The time is left out: it differs between recordings.
fn replay<'a>(result: &'a CellResult, words: &'static Words) -> Vec<TextPart<'a>> {
    let state = &result.state;
    let mut parts = Vec::new();
    if !state.replayed.is_empty() {
        parts.push(TextPart::line(words.replayed(&state.replayed)));
    }
    if !state.differed.is_empty() {
        parts.push(list_of(words.differed, &state.differed, words));
    }
    parts
}

fn not_restored<'a>(result: &'a CellResult, words: &'static Words) -> Option<TextPart<'a>> {
    let texts = &result.state.not_restored;
    (!texts.is_empty()).then(|| list_of(words.not_restored, texts, words))
}

fn list_of<'a>(heading: &'static str, texts: &[String], words: &'static Words) -> TextPart<'a> {
    let lines: Vec<String> = texts.iter().map(|text| one_line(text, 500)).collect();
    TextPart::block(heading, lines.join("\n"), PartKind::List { words })
}

/// One line for one display: its types, then the beginning of its plain text.
fn display_line(display: &MimeBundle) -> String {
    let rich: Vec<&str> = display.types().filter(|mime| *mime != PLAIN).collect();
    let types = if rich.is_empty() {
        PLAIN.to_owned()
    } else {
        one_line(&rich.join(", "), 200)
    };
    match display.text(PLAIN) {
        Some(text) if !text.trim().is_empty() => format!("{types}: {}", one_line(text, 500)),
        _ => types,
    }
}

const PLAIN: &str = "text/plain";

/// Lines joined by ` / `, control characters gone, at most `longest` characters: what is one entry stays one line.
fn one_line(text: &str, longest: usize) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let joined = lines.take(longest).collect::<Vec<_>>().join(" / ");
    let mut plain: String = joined
        .chars()
        .filter(|c| !c.is_control())
        .take(longest)
        .collect();
    if joined.chars().nth(longest).is_some() {
        plain.push('…');
    }
    plain
}
