//! A run as a person sees it: the thought, the code, the result, while they come.

use super::labels::{Heading, Labels};
use crate::terminal::{
    CheckpointNotice, Console, LiveText, Place, Spinner, Style, highlight, next_crash,
    print_restored, remedy,
};
use cellblock::agent::{ActionResult, Format, Observer, RunEvent};
use cellblock::model::Usage;
use cellblock::{CheckpointState, Event as CellEvent, Replay, Status};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest piece of a result that a person is shown; the model may read more.
const MAX_SHOWN_RESULT_CHARS: usize = 4_000;

/// The most characters of a text that are shown beside the spinner.
const MAX_PREVIEW_CHARS: usize = 60;

/// Prints what happens to standard error: live on a terminal, else in whole pieces.
pub(crate) struct Display {
    console: Console,
    place: Place,
    labels: Labels,
    is_live: bool,
    spinner: Spinner,
    seen: Mutex<Seen>,
}

/// What was printed of the reply that is coming, and where the line stands.
#[derive(Default)]
struct Seen {
    thought: String,
    code: String,
    code_lines: usize,
    has_output: bool,
    line: LiveText,
    usage: Usage,
    /// Text that is a thought if something follows, and else the answer, which is printed elsewhere.
    undecided: String,
    /// Whether text may turn out to be the answer.
    may_answer: bool,
    /// The notice about checkpoints that was printed last.
    checkpoint_notice: CheckpointNotice,
}

impl Display {
    pub(crate) fn new(console: &Console, place: Place, labels: Labels) -> Arc<Display> {
        let is_live = console.err_is_terminal();
        let spinner = Spinner::new(console);
        Arc::new(Display {
            console: console.clone(),
            place,
            labels,
            is_live,
            spinner,
            seen: Mutex::default(),
        })
    }

    /// The reader of events.
    pub(crate) fn observer(self: &Arc<Display>) -> Observer {
        let display = Arc::clone(self);
        Arc::new(move |event| display.show(event))
    }

    /// Tells what a crash in the next cell would cost, once for each reason. For a session that waits for a person.
    pub(crate) fn show_checkpoint(&self, net: &CheckpointState, replay: Replay) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.checkpoint_notice.is_needed(net) {
            let label = self.console.on_err(Style::Warning, "not armed:");
            self.console.note(&label, &next_crash(net, replay));
        }
    }

    fn show(&self, event: &RunEvent) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RunEvent::Begun { format, .. } => {
                // A chat has one display for all its questions.
                seen.usage = Usage::default();
                seen.may_answer = answers_in_text(*format);
            }
            RunEvent::Asked { .. } => {
                let (usage, may_answer) = (seen.usage, seen.may_answer);
                let checkpoint_notice = std::mem::take(&mut seen.checkpoint_notice);
                *seen = Seen {
                    usage,
                    may_answer,
                    checkpoint_notice,
                    ..Seen::default()
                };
                self.wait(&format!("thinking · {} tokens ·", usage.total()));
            }
            RunEvent::ThoughtPart { text } if self.is_live && seen.may_answer => {
                seen.undecided.push_str(text);
                self.preview(&seen);
            }
            RunEvent::ThoughtPart { text } if self.is_live => self.thought(&mut seen, text),
            RunEvent::CodePart { text } if self.is_live => {
                self.decide(&mut seen);
                seen.code.push_str(text);
                self.code_lines(&mut seen, LastLine::Waits);
            }
            RunEvent::Retrying { reason } => {
                seen.undecided.clear();
                self.note(&mut seen, &self.labels.asked_again(reason))
            }
            RunEvent::Resumed { steps, format } => {
                seen.may_answer = answers_in_text(*format);
                let text = self.labels.resumed(*steps);
                self.note(&mut seen, &text);
            }
            RunEvent::Spent { usage } => seen.usage = *usage,
            RunEvent::Thought { text, .. } => {
                self.decide(&mut seen);
                if seen.thought.is_empty() && !text.is_empty() {
                    self.thought(&mut seen, text);
                }
                self.end_line(&mut seen);
            }
            RunEvent::Repaired { repairs } => {
                let text = self.labels.repaired(&repairs.join("; "));
                self.note(&mut seen, &text);
            }
            RunEvent::Malformed { problem } => {
                self.decide(&mut seen);
                self.note(&mut seen, problem);
            }
            RunEvent::Code { code, .. } => self.code(&mut seen, code),
            RunEvent::Call {
                name, arguments, ..
            } => {
                self.label(&mut seen, &self.labels.calling(name));
                let text: String = arguments.to_string().chars().take(1_000).collect();
                self.say(&text);
            }
            RunEvent::Cell { event } => self.cell(&mut seen, event),
            RunEvent::WaitingForApproval { .. } => self.clear(),
            RunEvent::Plan { version, markdown } => {
                self.label(&mut seen, &self.labels.plan(version));
                self.say(markdown);
            }
            RunEvent::Done { done, .. } => self.done(&mut seen, done),
            RunEvent::Note { text } => self.note(&mut seen, text),
            RunEvent::Compacted { before, after } => {
                let text = self.labels.shortened(*before, *after);
                self.note(&mut seen, &text);
            }
            RunEvent::Nested { name, inner } => {
                if let RunEvent::Code { code, .. } = inner.as_ref() {
                    self.label(&mut seen, &self.labels.code_of(name));
                    self.console.say(&self.painted(code));
                }
            }
            RunEvent::Answer { .. } | RunEvent::Finished { .. } => {
                self.clear();
                self.end_line(&mut seen);
            }
            _ => {}
        }
    }

    /// Shows the end of the text beside the spinner, while it is not known whether it is a thought or the answer.
    fn preview(&self, seen: &Seen) {
        let safe = self.console.safe_on_err(&seen.undecided);
        let line = safe.trim_end().lines().next_back().unwrap_or_default();
        let skipped = line.chars().count().saturating_sub(MAX_PREVIEW_CHARS);
        let end: String = line.chars().skip(skipped).collect();
        self.spinner.set_text(&format!("{end} ·"));
    }

    /// The text was a thought.
    fn decide(&self, seen: &mut Seen) {
        let text = std::mem::take(&mut seen.undecided);
        if !text.is_empty() {
            self.thought(seen, &text);
        }
    }

    fn thought(&self, seen: &mut Seen, text: &str) {
        if seen.thought.is_empty() {
            self.heading(seen, Heading::Thinking);
        }
        seen.thought.push_str(text);
        if self.is_live {
            self.console.say_live(&mut seen.line, text);
        } else {
            self.say(text);
        }
    }

    fn code(&self, seen: &mut Seen, code: &str) {
        if seen.code.is_empty() {
            seen.code.push_str(code);
            self.code_lines(seen, LastLine::Too);
        } else if seen.code.starts_with(code) {
            self.code_lines(seen, LastLine::Too);
        } else {
            // What came is not what was seen coming.
            seen.code = code.to_owned();
            seen.code_lines = 0;
            self.code_lines(seen, LastLine::Too);
        }
        seen.code.clear();
        seen.code_lines = 0;
        seen.has_output = false;
        self.wait("running ·");
    }

    /// Prints the lines of code that are whole and were not printed yet.
    fn code_lines(&self, seen: &mut Seen, last: LastLine) {
        let painted = self.painted(&seen.code);
        let all: Vec<&str> = painted.lines().collect();
        let is_whole = last == LastLine::Too || seen.code.ends_with('\n');
        let ready = if is_whole {
            all.len()
        } else {
            all.len().saturating_sub(1)
        };
        if ready > 0 && seen.code_lines == 0 {
            self.heading(seen, Heading::Code);
        }
        for line in all.iter().take(ready).skip(seen.code_lines) {
            self.console.say(line);
        }
        seen.code_lines = seen.code_lines.max(ready);
    }

    fn cell(&self, seen: &mut Seen, event: &CellEvent) {
        let (CellEvent::Stdout { text } | CellEvent::Stderr { text }) = event else {
            return;
        };
        if !self.is_live {
            return;
        }
        if !seen.has_output {
            self.heading(seen, Heading::CodeResult);
            seen.has_output = true;
        }
        self.clear();
        self.console.say_live(&mut seen.line, text);
    }

    fn done(&self, seen: &mut Seen, done: &ActionResult) {
        self.clear();
        let Some(result) = &done.result else {
            let heading = match done.code {
                Some(_) => Heading::CodeResult,
                None => Heading::ToolResult,
            };
            self.heading(seen, heading);
            self.say(&shortened(&done.text));
            return;
        };
        self.end_line(seen);
        if !seen.has_output {
            self.heading(seen, Heading::CodeResult);
            if !result.output.is_empty() {
                self.say(&shortened(result.output.trim_end_matches('\n')));
            }
        }
        if let Some(value) = &result.value {
            self.say(&shortened(&value.repr));
        }
        match (result.status, &done.error) {
            (Status::Success, _) if result.output.is_empty() && result.value.is_none() => {
                self.console
                    .say(&self.console.on_err(Style::Dim, self.labels.no_output()));
            }
            (Status::Success, _) => {}
            (status, error) => {
                let words = error.clone().unwrap_or_else(|| status.name().to_owned());
                self.console.say(
                    &self
                        .console
                        .on_err(Style::Error, &self.console.safe_on_err(&words)),
                );
            }
        }
        if let Some(remedy) = remedy(self.place, result) {
            self.console.hint(&remedy.text);
        }
        print_restored(&result.state, &self.console);
        let net = &result.state.checkpoint;
        if seen.checkpoint_notice.is_needed(net) {
            let reason = net.reason.as_deref().unwrap_or("there is no checkpoint");
            let label = self.console.on_err(Style::Warning, "not armed:");
            self.console.note(
                &label,
                &format!("this code ran without a checkpoint of its own ({reason})"),
            );
        }
        for file in &result.files.created {
            let line = self.labels.new_file(&file.path, file.bytes);
            self.console.say(
                &self
                    .console
                    .on_err(Style::Dim, &self.console.safe_on_err(&line)),
            );
        }
        seen.has_output = false;
    }

    fn heading(&self, seen: &mut Seen, heading: Heading) {
        self.label(seen, self.labels.heading(heading));
    }

    fn label(&self, seen: &mut Seen, text: &str) {
        self.clear();
        self.end_line(seen);
        self.console.say(&self.console.on_err(Style::Heading, text));
    }

    fn note(&self, seen: &mut Seen, text: &str) {
        self.clear();
        self.end_line(seen);
        self.console
            .note(&self.console.on_err(Style::Dim, self.labels.note()), text);
    }

    fn say(&self, text: &str) {
        let text = self.console.safe_on_err(text).into_owned();
        self.console.say(&text);
    }

    fn painted(&self, code: &str) -> String {
        let code = self.console.safe_on_err(code);
        if self.console.err_is_coloured() {
            highlight(&code)
        } else {
            code.into_owned()
        }
    }

    fn end_line(&self, seen: &mut Seen) {
        if seen.line.is_mid_line() {
            self.console.say("");
        }
        seen.line.end_line();
    }

    fn wait(&self, words: &str) {
        self.spinner.show(words, Duration::ZERO);
    }

    fn clear(&self) {
        self.spinner.clear();
    }
}

/// Whether a reply of plain text is the answer.
fn answers_in_text(format: Format) -> bool {
    matches!(format, Format::Tools | Format::Markdown | Format::Xml)
}

/// What is done about a line of code that has no end yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLine {
    /// More of it may come.
    Waits,
    /// It is printed too.
    Too,
}

fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_SHOWN_RESULT_CHARS {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(MAX_SHOWN_RESULT_CHARS).collect();
    format!(
        "{beginning}\n[… {} more characters]",
        length - MAX_SHOWN_RESULT_CHARS
    )
}
