//! A run as a person sees it: the thought, the code, the result, while they come.

use super::labels::{Heading, Labels};
use crate::terminal::{
    CheckpointNotice, Console, HintPlace, LiveText, Spinner, Style, WorkspaceKind, highlight,
    next_crash, print_restored, remedy,
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
    place: HintPlace,
    workspace: WorkspaceKind,
    labels: Labels,
    is_live: bool,
    spinner: Spinner,
    printed: Mutex<PrintedReply>,
}

/// What was printed of the reply that is coming, and where the line stands.
#[derive(Default)]
struct PrintedReply {
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
    pub(crate) fn new(
        console: &Console,
        place: HintPlace,
        workspace: WorkspaceKind,
        labels: Labels,
    ) -> Arc<Display> {
        let is_live = console.err_is_terminal();
        let spinner = Spinner::new(console);
        Arc::new(Display {
            console: console.clone(),
            place,
            workspace,
            labels,
            is_live,
            spinner,
            printed: Mutex::default(),
        })
    }

    /// The reader of events.
    pub(crate) fn observer(self: &Arc<Display>) -> Observer {
        let display = Arc::clone(self);
        Arc::new(move |event| display.show(event))
    }

    /// Tells what a crash in the next cell would cost, once for each reason.
    pub(crate) fn show_checkpoint(&self, checkpoint: &CheckpointState, replay: Replay) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.checkpoint_notice.is_needed(checkpoint) {
            self.clear();
            self.end_line(&mut printed);
            let label = self.console.on_err(Style::Warning, "not armed:");
            self.console.note(&label, &next_crash(checkpoint, replay));
        }
    }

    fn show(&self, event: &RunEvent) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RunEvent::Begun { format, .. } => {
                // A chat has one display for all its questions.
                printed.usage = Usage::default();
                printed.may_answer = answers_in_text(*format);
            }
            RunEvent::Asked { .. } => {
                let (usage, may_answer) = (printed.usage, printed.may_answer);
                let checkpoint_notice = std::mem::take(&mut printed.checkpoint_notice);
                *printed = PrintedReply {
                    usage,
                    may_answer,
                    checkpoint_notice,
                    ..PrintedReply::default()
                };
                self.wait(&format!("thinking · {} tokens ·", usage.total()));
            }
            RunEvent::ThoughtPart { text } if self.is_live && printed.may_answer => {
                printed.undecided.push_str(text);
                self.preview(&printed);
            }
            RunEvent::ThoughtPart { text } if self.is_live => self.thought(&mut printed, text),
            RunEvent::CodePart { text } if self.is_live => {
                self.decide(&mut printed);
                printed.code.push_str(text);
                self.code_lines(&mut printed, LastLine::Waits);
            }
            RunEvent::Retrying { reason } => {
                printed.undecided.clear();
                self.note(&mut printed, &self.labels.asked_again(reason))
            }
            RunEvent::Resumed { steps, format } => {
                printed.may_answer = answers_in_text(*format);
                let text = self.labels.resumed(*steps);
                self.note(&mut printed, &text);
            }
            RunEvent::Spent { usage } => printed.usage = *usage,
            RunEvent::Thought { text, .. } => {
                self.decide(&mut printed);
                if printed.thought.is_empty() && !text.is_empty() {
                    self.thought(&mut printed, text);
                }
                self.end_line(&mut printed);
            }
            RunEvent::Repaired { repairs } => {
                let text = self.labels.repaired(&repairs.join("; "));
                self.note(&mut printed, &text);
            }
            RunEvent::Malformed { problem } => {
                self.decide(&mut printed);
                self.note(&mut printed, problem);
            }
            RunEvent::Candidates {
                chosen, candidates, ..
            } => {
                let text = self.labels.chosen(*chosen, candidates);
                self.note(&mut printed, &text);
            }
            RunEvent::Code { code, .. } => self.code(&mut printed, code),
            RunEvent::Call {
                name, arguments, ..
            } => {
                self.label(&mut printed, &self.labels.calling(name));
                let text: String = arguments.to_string().chars().take(1_000).collect();
                self.say(&text);
            }
            RunEvent::Cell { event } => self.cell(&mut printed, event),
            RunEvent::WaitingForApproval { .. } => self.clear(),
            RunEvent::Plan { version, markdown } => {
                self.label(&mut printed, &self.labels.plan(version));
                self.say(markdown);
            }
            RunEvent::Done { done, .. } => self.done(&mut printed, done),
            RunEvent::Note { text } => self.note(&mut printed, text),
            RunEvent::Compacted { before, after } => {
                let text = self.labels.shortened(*before, *after);
                self.note(&mut printed, &text);
            }
            RunEvent::Nested { name, inner } => {
                if let RunEvent::Code { code, .. } = inner.as_ref() {
                    self.label(&mut printed, &self.labels.code_of(name));
                    self.console.say(&self.painted(code));
                }
            }
            RunEvent::Answer { .. } | RunEvent::Finished { .. } => {
                self.clear();
                self.end_line(&mut printed);
            }
            _ => {}
        }
    }

    /// Shows the end of the text beside the spinner, while it is not known whether it is a thought or the answer.
    fn preview(&self, printed: &PrintedReply) {
        let safe = self.console.safe_on_err(&printed.undecided);
        let line = safe.trim_end().lines().next_back().unwrap_or_default();
        let skipped = line.chars().count().saturating_sub(MAX_PREVIEW_CHARS);
        let end: String = line.chars().skip(skipped).collect();
        self.spinner.set_text(&format!("{end} ·"));
    }

    /// The text was a thought.
    fn decide(&self, printed: &mut PrintedReply) {
        let text = std::mem::take(&mut printed.undecided);
        if !text.is_empty() {
            self.thought(printed, &text);
        }
    }

    fn thought(&self, printed: &mut PrintedReply, text: &str) {
        if printed.thought.is_empty() {
            self.heading(printed, Heading::Thinking);
        }
        printed.thought.push_str(text);
        if self.is_live {
            self.console.say_live(&mut printed.line, text);
        } else {
            self.say(text);
        }
    }

    fn code(&self, printed: &mut PrintedReply, code: &str) {
        if printed.code.is_empty() {
            printed.code.push_str(code);
            self.code_lines(printed, LastLine::Too);
        } else if printed.code.starts_with(code) {
            self.code_lines(printed, LastLine::Too);
        } else {
            // What came is not what was printed coming.
            printed.code = code.to_owned();
            printed.code_lines = 0;
            self.code_lines(printed, LastLine::Too);
        }
        printed.code.clear();
        printed.code_lines = 0;
        printed.has_output = false;
        self.wait("running ·");
    }

    /// Prints the lines of code that are whole and were not printed yet.
    fn code_lines(&self, printed: &mut PrintedReply, last: LastLine) {
        let painted = self.painted(&printed.code);
        let all: Vec<&str> = painted.lines().collect();
        let is_whole = last == LastLine::Too || printed.code.ends_with('\n');
        let ready = if is_whole {
            all.len()
        } else {
            all.len().saturating_sub(1)
        };
        if ready > 0 && printed.code_lines == 0 {
            self.heading(printed, Heading::Code);
        }
        for line in all.iter().take(ready).skip(printed.code_lines) {
            self.console.say(line);
        }
        printed.code_lines = printed.code_lines.max(ready);
    }

    fn cell(&self, printed: &mut PrintedReply, event: &CellEvent) {
        let (CellEvent::Stdout { text } | CellEvent::Stderr { text }) = event else {
            return;
        };
        if !self.is_live {
            return;
        }
        if !printed.has_output {
            self.heading(printed, Heading::CodeResult);
            printed.has_output = true;
        }
        self.clear();
        self.console.say_live(&mut printed.line, text);
    }

    fn done(&self, printed: &mut PrintedReply, done: &ActionResult) {
        self.clear();
        let Some(result) = &done.result else {
            let heading = match done.code {
                Some(_) => Heading::CodeResult,
                None => Heading::ToolResult,
            };
            self.heading(printed, heading);
            self.say(&shortened(&done.text));
            return;
        };
        self.end_line(printed);
        if !printed.has_output {
            self.heading(printed, Heading::CodeResult);
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
        if let Some(remedy) = remedy(self.place, self.workspace, result) {
            self.console.hint(&remedy.text);
        }
        print_restored(&result.state, &self.console);
        let checkpoint = &result.state.checkpoint;
        if printed.checkpoint_notice.is_needed(checkpoint) {
            let reason = checkpoint
                .reason
                .as_deref()
                .unwrap_or("there is no checkpoint");
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
        printed.has_output = false;
    }

    fn heading(&self, printed: &mut PrintedReply, heading: Heading) {
        self.label(printed, self.labels.heading(heading));
    }

    fn label(&self, printed: &mut PrintedReply, text: &str) {
        self.clear();
        self.end_line(printed);
        self.console.say(&self.console.on_err(Style::Heading, text));
    }

    fn note(&self, printed: &mut PrintedReply, text: &str) {
        self.clear();
        self.end_line(printed);
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

    fn end_line(&self, printed: &mut PrintedReply) {
        if printed.line.is_mid_line() {
            self.console.say("");
        }
        printed.line.end_line();
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
