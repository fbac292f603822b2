//! The tool calls and requests for input of one cell with their answers: a replay must answer the same.

use crate::journal::bounds::{self, MAX_CALLS, MAX_CALLS_BYTES};
use crate::journal::record::{CallOutcome, EndedRecord, InputAnswer, RecordedCall, RecordedInput};
use cellblock_protocol::guest::{FromHead, ToHead};
use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

/// What a journal has in the place of a password.
const PASSWORD_NOT_KEPT: &str = "the answer was a password, which is not recorded";

/// The notes on a cell that runs.
#[derive(Debug, Default)]
pub(super) struct CellNotes {
    calls: Vec<RecordedCall>,
    inputs: Vec<RecordedInput>,
    waiting: HashMap<String, UnansweredRequest>,
    bytes: usize,
    /// Calls and questions that there was no room for.
    missed: u64,
}

/// The call or request that an answer belongs to.
#[derive(Debug)]
enum UnansweredRequest {
    Call { index: usize, since: Instant },
    Input { index: usize },
}

impl CellNotes {
    /// The head said something.
    pub(super) fn note_frame(&mut self, frame: &FromHead) {
        match frame {
            FromHead::ToolCall {
                call,
                name,
                arguments,
            } => {
                if !self.has_room(call.len() + name.len() + arguments.as_json().len()) {
                    return;
                }
                let waiting = UnansweredRequest::Call {
                    index: self.calls.len(),
                    since: Instant::now(),
                };
                self.waiting.insert(call.clone(), waiting);
                self.calls.push(RecordedCall {
                    name: name.clone(),
                    arguments: arguments.clone(),
                    time: Duration::ZERO,
                    outcome: CallOutcome::Unanswered,
                });
            }
            FromHead::InputRequest {
                call,
                prompt,
                password,
            } => {
                if !self.has_room(prompt.len()) {
                    return;
                }
                let index = self.inputs.len();
                // A journal is read, exported and sent to other machines: a password does not belong there.
                let unanswered = match password {
                    true => PASSWORD_NOT_KEPT,
                    false => {
                        self.waiting
                            .insert(call.clone(), UnansweredRequest::Input { index });
                        "it was not answered"
                    }
                };
                self.inputs.push(RecordedInput {
                    prompt: prompt.clone(),
                    answer: InputAnswer::Error(unanswered.to_owned()),
                });
            }
            _ => {}
        }
    }

    /// The host answered something.
    pub(super) fn answered(&mut self, answer: &ToHead) {
        match answer {
            ToHead::ToolResult { call, outcome } => {
                let Some(UnansweredRequest::Call { index, since }) = self.waiting.remove(call)
                else {
                    return;
                };
                let size = match outcome {
                    Ok(value) => bounds::weight(value),
                    Err(message) => message.len(),
                };
                let fits = self.bytes + size <= MAX_CALLS_BYTES;
                let Some(call) = self.calls.get_mut(index) else {
                    return;
                };
                call.time = since.elapsed();
                call.outcome = match outcome {
                    _ if !fits => CallOutcome::NotKept(size as u64),
                    Ok(value) => CallOutcome::Result(value.clone()),
                    Err(message) => CallOutcome::Error(message.clone()),
                };
                if fits {
                    self.bytes += size;
                }
            }
            ToHead::Input { call, outcome } => {
                let Some(UnansweredRequest::Input { index }) = self.waiting.remove(call) else {
                    return;
                };
                if let Some(input) = self.inputs.get_mut(index) {
                    input.answer = match outcome {
                        Ok(text) => InputAnswer::Text(text.clone()),
                        Err(reason) => InputAnswer::Error(reason.clone()),
                    };
                }
            }
            _ => {}
        }
    }

    /// Why these are not all the answers that the cell got, if that is so.
    pub(super) fn gap(&self) -> Option<String> {
        if self.missed > 0 {
            return Some(format!(
                "{} of its calls and questions were not recorded",
                self.missed
            ));
        }
        let missing = self.calls.iter().find(|call| {
            matches!(
                call.outcome,
                CallOutcome::NotKept(_) | CallOutcome::Unanswered
            )
        });
        missing.map(|call| {
            format!(
                "it called the tool {}, and the answer is not recorded",
                call.name
            )
        })
    }

    /// Adds them to the record of the cell.
    pub(super) fn complete(self, ended: &mut EndedRecord) {
        let large = |call: &RecordedCall| match &call.outcome {
            CallOutcome::NotKept(bytes) => {
                Some(format!("the answer of {}, {bytes} bytes", call.name))
            }
            _ => None,
        };
        ended.left_out.extend(self.calls.iter().filter_map(large));
        if self.missed > 0 {
            let missed = self.missed;
            ended.left_out.push(format!("{missed} calls and questions"));
        }
        ended.calls = self.calls;
        ended.inputs = self.inputs;
    }

    fn has_room(&mut self, size: usize) -> bool {
        let fits = self.calls.len() + self.inputs.len() < MAX_CALLS
            && self.bytes + size <= MAX_CALLS_BYTES;
        if fits {
            self.bytes += size;
        } else {
            self.missed += 1;
        }
        fits
    }
}

/// About what the calls of a cell take in memory.
pub(super) fn weight(ended: &EndedRecord) -> usize {
    let of_call = |call: &RecordedCall| {
        let answer = match &call.outcome {
            CallOutcome::Result(value) => bounds::weight(value),
            CallOutcome::Error(message) => message.len(),
            _ => 0,
        };
        128 + call.arguments.as_json().len() + answer
    };
    let calls = ended.calls.iter().map(of_call).sum::<usize>();
    let inputs = ended.inputs.iter().map(|input| 128 + input.prompt.len());
    calls + inputs.sum::<usize>()
}
