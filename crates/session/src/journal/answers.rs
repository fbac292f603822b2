//! What a replayed cell is answered: what it was answered the first time.

use super::record::{CallOutcome, Ended, InputAnswer, RecordedCall, RecordedInput};
use cellblock_protocol::ToolArguments;
use serde_json::Value;
use std::collections::VecDeque;

/// The recorded answers of one cell that were not given yet.
#[derive(Debug)]
pub struct Answers {
    calls: VecDeque<RecordedCall>,
    inputs: VecDeque<RecordedInput>,
}

/// An answer, and what is odd about it.
#[derive(Debug)]
pub struct Answer<T> {
    /// What the code is answered.
    pub outcome: Result<T, String>,
    /// In which way the call or the question is another one than was recorded, if it is.
    pub oddity: Option<String>,
}

impl<T> Answer<T> {
    fn plain(outcome: Result<T, String>) -> Answer<T> {
        Answer {
            outcome,
            oddity: None,
        }
    }

    fn odd(text: String) -> Answer<T> {
        Answer {
            outcome: Err(format!("replayed: {text}")),
            oddity: Some(text),
        }
    }
}

impl Answers {
    /// All that a cell was answered.
    pub fn new(ended: &Ended) -> Answers {
        Answers {
            calls: ended.calls.iter().cloned().collect(),
            inputs: ended.inputs.iter().cloned().collect(),
        }
    }

    /// The first recorded call with this name and these arguments: calls at the same time may come in another order.
    pub fn call(&mut self, name: &str, arguments: &ToolArguments) -> Answer<Value> {
        let same = |call: &RecordedCall| call.name == name && call.arguments == *arguments;
        let found = self.calls.iter().position(same);
        let Some(call) = found.and_then(|at| self.calls.remove(at)) else {
            return Answer::odd(format!(
                "no call of {name} with {} was recorded",
                arguments.as_json()
            ));
        };
        match call.outcome {
            CallOutcome::Result(value) => Answer::plain(Ok(value)),
            CallOutcome::Error(message) => Answer::plain(Err(message)),
            CallOutcome::NotKept(bytes) => Answer::odd(format!(
                "the answer of {name} was too large for the journal ({bytes} bytes)"
            )),
            CallOutcome::Unanswered => Answer::odd(format!("{name} was not answered then")),
        }
    }

    /// The next recorded answer to a question.
    pub fn input(&mut self, prompt: &str) -> Answer<String> {
        match self.inputs.pop_front() {
            Some(input) => {
                let changed = (input.prompt != prompt)
                    .then(|| format!("the question was {:?}, is {prompt:?}", input.prompt));
                Answer {
                    outcome: match input.answer {
                        InputAnswer::Text(text) => Ok(text),
                        InputAnswer::Error(reason) => Err(reason),
                    },
                    oddity: changed,
                }
            }
            None => Answer::odd(format!("no answer to {prompt:?} was recorded")),
        }
    }

    /// What was recorded and not asked for.
    pub fn left(&self) -> Vec<String> {
        let calls = self
            .calls
            .iter()
            .map(|call| format!("the recorded call of {} was not made", call.name));
        let inputs = self
            .inputs
            .iter()
            .map(|input| format!("the recorded question {:?} was not asked", input.prompt));
        calls.chain(inputs).collect()
    }
}
