//! The frames of the head while a cell runs: displays, tool calls, requests for input, pages of earlier output.

use crate::actor::Actor;
use crate::actor::cell_run::CellRun;
use crate::journal::{RecordedAnswers, ReplayedAnswer};
use cellblock_protocol::guest::{FromHead, ToHead};
use cellblock_protocol::{Display, Event, MimeBundle, ToolArguments};

/// Displays of one cell, in number and together.
const MAX_DISPLAYS: usize = 1000;
const MAX_DISPLAY_BYTES: usize = 64 << 20;
/// Questions of a cell that runs again and asks them in other words: as many as this are told.
const MAX_REPORTED_MISMATCHES: usize = 10;

/// The displays of a cell, bounded.
#[derive(Default)]
pub(crate) struct Displays {
    kept: Vec<KeptDisplay>,
    bytes: usize,
    /// The code took back what it showed, and that happens with the next display.
    is_clear_due: bool,
}

struct KeptDisplay {
    mime: MimeBundle,
    id: Option<String>,
}

impl Displays {
    /// Keeps a display, and says whether there was room for it. An update takes the place of the displays with its id; displays of
    /// earlier cells are left to the readers of the events.
    fn keep(&mut self, display: &Display) -> bool {
        if display.update {
            return self.replace(display);
        }
        if self.is_clear_due {
            self.clear();
        }
        self.bytes += display.mime.bytes();
        let has_room = self.kept.len() < MAX_DISPLAYS && self.bytes <= MAX_DISPLAY_BYTES;
        if has_room {
            self.kept.push(KeptDisplay {
                mime: display.mime.clone(),
                id: display.display_id.clone(),
            });
        }
        has_room
    }

    fn replace(&mut self, display: &Display) -> bool {
        let with_id = |kept: &&mut KeptDisplay| kept.id.is_some() && kept.id == display.display_id;
        for kept in self.kept.iter_mut().filter(with_id) {
            // Cloning copies no contents, so the same update in many places takes its bytes once for each at most.
            self.bytes += display.mime.bytes();
            self.bytes = self.bytes.saturating_sub(kept.mime.bytes());
            kept.mime = display.mime.clone();
        }
        self.bytes <= MAX_DISPLAY_BYTES
    }

    /// Takes back everything when something new is displayed.
    fn clear_with_next(&mut self) {
        self.is_clear_due = true;
    }

    /// Takes back everything.
    fn clear(&mut self) {
        *self = Displays::default();
    }

    /// The displays of the result.
    pub(crate) fn into_list(self) -> Vec<MimeBundle> {
        self.kept.into_iter().map(|kept| kept.mime).collect()
    }
}

/// The recorded answers of a cell that runs again, and how it asks for others.
pub(crate) struct Recorded {
    answers: RecordedAnswers,
    /// The first call or question that there is no recorded answer to.
    unrecorded: Option<String>,
    mismatches: Vec<String>,
}

/// How a cell that ran again used its recorded answers.
#[derive(Default)]
pub(crate) struct AnswerUse {
    /// Recorded answers that the cell did not ask for.
    pub(crate) left: Vec<String>,
    /// The first question without a recorded answer.
    pub(crate) unrecorded: Option<String>,
    /// Questions that were asked in other words.
    pub(crate) mismatches: Vec<String>,
}

impl Recorded {
    pub(crate) fn new(answers: RecordedAnswers) -> Recorded {
        Recorded {
            answers,
            unrecorded: None,
            mismatches: Vec::new(),
        }
    }

    pub(crate) fn into_use(self) -> AnswerUse {
        AnswerUse {
            left: self.answers.left(),
            unrecorded: self.unrecorded,
            mismatches: self.mismatches,
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

    fn give<T>(&mut self, answer: ReplayedAnswer<T>) -> Result<T, String> {
        match (answer.mismatch, &answer.outcome) {
            (Some(mismatch), Err(_)) => _ = self.unrecorded.get_or_insert(mismatch),
            (Some(mismatch), Ok(_)) if self.mismatches.len() < MAX_REPORTED_MISMATCHES => {
                self.mismatches.push(mismatch);
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
            FromHead::Display(display) => {
                if self.displays.keep(&display) {
                    self.events.emit(Event::Display(display));
                }
                None
            }
            FromHead::ClearOutput { wait } => {
                match wait {
                    true => self.displays.clear_with_next(),
                    false => self.displays.clear(),
                }
                self.events.emit(Event::ClearOutput { wait });
                None
            }
            FromHead::Comm(message) => {
                self.events.emit(Event::Comm(message));
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
            FromHead::InputRequest {
                call,
                prompt,
                password,
            } => match self.take_input_request(&call, &prompt) {
                Some(outcome) => Some(ToHead::Input { call, outcome }),
                None => {
                    self.events.emit(Event::InputRequest {
                        call,
                        prompt,
                        password,
                    });
                    None
                }
            },
            FromHead::Log { text } => {
                actor.live.base.logs.log(text);
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
                actor.live.head.pending_queries.answer(reply);
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

    /// Stops the clock for a request for input that goes to the reader of the events. Returns the outcome where the host has it at once.
    fn take_input_request(&mut self, call: &str, prompt: &str) -> Option<Result<String, String>> {
        if let Some(recorded) = &mut self.recorded {
            return Some(recorded.input(prompt));
        }
        if !self.events.has_reader() {
            let reason = "input() cannot be answered: no person can type here; pass the value in as a variable";
            return Some(Err(reason.to_owned()));
        }
        if let Err(reason) = self.calls.question(call, prompt) {
            return Some(Err(reason));
        }
        self.clock.stop();
        None
    }
}
