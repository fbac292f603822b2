//! The frames of the head while a cell runs: displays, tool calls, requests for input, pages of earlier output.

use crate::actor::Actor;
use crate::actor::cell_run::CellRun;
use crate::journal::{Answer, Answers};
use cellblock_protocol::guest::{FromHead, ToHead};
use cellblock_protocol::{Event, MimeBundle, ToolArguments};

/// Displays of one cell, in number and together.
const MAX_DISPLAYS: usize = 1000;
const MAX_DISPLAY_BYTES: usize = 64 << 20;
/// Questions of a cell that runs again and asks them in other words: as many as this are told.
const MAX_ODDITIES: usize = 10;

/// What a cell displayed, bounded.
#[derive(Default)]
pub(crate) struct Displays {
    kept: Vec<MimeBundle>,
    bytes: usize,
}

impl Displays {
    /// Keeps a display, and says whether there was room for it.
    fn keep(&mut self, mime: &MimeBundle) -> bool {
        self.bytes += mime.bytes();
        let has_room = self.kept.len() < MAX_DISPLAYS && self.bytes <= MAX_DISPLAY_BYTES;
        if has_room {
            self.kept.push(mime.clone());
        }
        has_room
    }

    /// The displays of the result.
    pub(crate) fn into_list(self) -> Vec<MimeBundle> {
        self.kept
    }
}

/// The recorded answers of a cell that runs again, and how it asks for others.
pub(crate) struct Recorded {
    answers: Answers,
    /// The first call or question that there is no recorded answer to.
    unrecorded: Option<String>,
    oddities: Vec<String>,
}

/// How a cell that ran again used its recorded answers.
#[derive(Default)]
pub(crate) struct AnswerUse {
    /// Recorded answers that the cell did not ask for.
    pub(crate) left: Vec<String>,
    /// The first question without a recorded answer.
    pub(crate) unrecorded: Option<String>,
    /// Questions that were asked in other words.
    pub(crate) oddities: Vec<String>,
}

impl Recorded {
    pub(crate) fn new(answers: Answers) -> Recorded {
        Recorded {
            answers,
            unrecorded: None,
            oddities: Vec::new(),
        }
    }

    pub(crate) fn into_use(self) -> AnswerUse {
        AnswerUse {
            left: self.answers.left(),
            unrecorded: self.unrecorded,
            oddities: self.oddities,
        }
    }

    fn call(&mut self, name: &str, arguments: &ToolArguments) -> Result<serde_json::Value, String> {
        let answer = self.answers.call(name, arguments);
        self.give(answer)
    }

    fn input(&mut self, prompt: &str) -> Result<String, String> {
        let answer = self.answers.input(prompt);
        self.give(answer)
    }

    fn give<T>(&mut self, answer: Answer<T>) -> Result<T, String> {
        match (answer.oddity, &answer.outcome) {
            (Some(oddity), Err(_)) => _ = self.unrecorded.get_or_insert(oddity),
            (Some(oddity), Ok(_)) if self.oddities.len() < MAX_ODDITIES => {
                self.oddities.push(oddity);
            }
            _ => {}
        }
        answer.outcome
    }
}

impl CellRun {
    /// Takes a frame of the head; returns an answer, when the host has one at once.
    pub(crate) fn take_frame(&mut self, actor: &mut Actor, frame: FromHead) -> Option<ToHead> {
        match frame {
            FromHead::Display { mime } => {
                if self.displays.keep(&mime) {
                    self.events.emit(Event::Display { mime });
                }
                None
            }
            FromHead::ToolCall {
                call,
                name,
                arguments,
            } => {
                let outcome = self.take_tool_call(&call, name, arguments)?;
                Some(ToHead::ToolResult { call, outcome })
            }
            FromHead::InputRequest { call, prompt } => {
                let outcome = self.take_input_request(&call, prompt)?;
                Some(ToHead::Input { call, outcome })
            }
            FromHead::Log { text } => {
                actor.shared.log(text);
                None
            }
            FromHead::OutputRequest {
                call,
                cell,
                stream,
                offset,
                length,
            } => {
                let page = actor.cells.outputs.read(cell, stream, offset, length);
                let outcome = page
                    .map(serde_json::Value::String)
                    .map_err(|error| error.to_string());
                Some(ToHead::ToolResult { call, outcome })
            }
            FromHead::Reply(reply) => {
                actor.head.pending_queries.answer(reply);
                None
            }
            // Left over from earlier, or a lie: a wrong cell number.
            FromHead::Ready { .. } | FromHead::Done(_) => None,
        }
    }

    /// Passes a tool call on to the reader of the events, and stops the clock. Returns the outcome where the host has it at once.
    fn take_tool_call(
        &mut self,
        call: &str,
        name: String,
        arguments: ToolArguments,
    ) -> Option<Result<serde_json::Value, String>> {
        if let Some(recorded) = &mut self.recorded {
            return Some(recorded.call(&name, &arguments));
        }
        if !self.events.has_reader() {
            self.calls.refuse(call, &name, &arguments);
            let reason = format!("nobody answers tool calls here, so `{name}` cannot be called");
            return Some(Err(reason));
        }
        if let Err(reason) = self.calls.call(call, &name, &arguments) {
            return Some(Err(reason));
        }
        self.clock.stop();
        self.events.emit(Event::ToolCall {
            call: call.to_owned(),
            name,
            arguments,
        });
        None
    }

    /// Passes a request for input on to the reader of the events, and stops the clock. Returns the outcome where the host has it at once.
    fn take_input_request(&mut self, call: &str, prompt: String) -> Option<Result<String, String>> {
        if let Some(recorded) = &mut self.recorded {
            return Some(recorded.input(&prompt));
        }
        if !self.events.has_reader() {
            let reason = "input() cannot be answered: no person can type here; pass the value in as a variable";
            return Some(Err(reason.to_owned()));
        }
        if let Err(reason) = self.calls.question(call, &prompt) {
            return Some(Err(reason));
        }
        self.clock.stop();
        self.events.emit(Event::InputRequest {
            call: call.to_owned(),
            prompt,
        });
        None
    }
}
