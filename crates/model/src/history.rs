//! A conversation that an endpoint will accept: every call has its one answer, directly after it.

use crate::{AssistantMessage, Message, ToolCall};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What was wrong with a conversation, and what was made of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryRepair {
    /// A call without an answer.
    #[error("the call `{id}` of `{name}` had no answer; it got one that says so")]
    Unanswered {
        /// The call.
        id: String,
        /// The tool.
        name: String,
    },
    /// An answer without a call, or the second one to a call.
    #[error("an answer to `{id}` belongs to no call before it; it was left out")]
    Stray {
        /// The call that it names.
        id: String,
    },
    /// An answer that stood further down.
    #[error("the answer to `{id}` did not follow its call; it was moved there")]
    Moved {
        /// The call.
        id: String,
    },
    /// A call without an id, or with the id of another one in its message.
    #[error("a call had no id of its own (`{id}`); it got `{new}`")]
    Renamed {
        /// The id that it had.
        id: String,
        /// The id that it has now.
        new: String,
    },
    /// Arguments that are no JSON object, which some endpoints refuse in a history.
    #[error("the arguments of the call `{id}` were no JSON object; they are quoted in one")]
    Quoted {
        /// The call.
        id: String,
    },
}

/// What stands in place of an answer that is not there.
const NO_ANSWER: &str = "(there is no result of this call)";

/// The conversation as it should be, and what had to be changed. A sound one comes back as it was.
pub fn mend(messages: &[Message]) -> (Vec<Message>, Vec<HistoryRepair>) {
    let mut repairs = Vec::new();
    let mut mended = Vec::with_capacity(messages.len());
    let mut used = vec![false; messages.len()];
    for (position, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant(assistant) => {
                let answers = answers_to(assistant, position, messages, &mut used, &mut repairs);
                let assistant = with_sound_calls(assistant, &mut repairs);
                for (call, answer) in assistant.tool_calls.iter().zip(&answers) {
                    if answer.is_none() {
                        let (id, name) = (call.id.clone(), call.name.clone());
                        repairs.push(HistoryRepair::Unanswered { id, name });
                    }
                }
                let calls = assistant.tool_calls.clone();
                mended.push(Message::Assistant(assistant));
                for (call, answer) in calls.into_iter().zip(answers) {
                    mended.push(Message::tool(
                        call.id,
                        answer.unwrap_or_else(|| NO_ANSWER.into()),
                    ));
                }
            }
            Message::Tool { tool_call_id, .. } => {
                if !used[position] {
                    let id = tool_call_id.clone();
                    repairs.push(HistoryRepair::Stray { id });
                }
            }
            other => mended.push(other.clone()),
        }
    }
    (mended, repairs)
}

/// The answer to each call of a message: the first ones with its id between here and the next message of the model's.
fn answers_to(
    assistant: &AssistantMessage,
    position: usize,
    messages: &[Message],
    used: &mut [bool],
    repairs: &mut Vec<HistoryRepair>,
) -> Vec<Option<String>> {
    let mut follows = true;
    let mut candidates = Vec::new();
    for (place, message) in messages.iter().enumerate().skip(position + 1) {
        match message {
            Message::Assistant(next) if !next.tool_calls.is_empty() => break,
            Message::Tool {
                tool_call_id,
                content,
            } => candidates.push((place, follows, tool_call_id, content)),
            _ => follows = false,
        }
    }
    let answers = assistant.tool_calls.iter().map(|call| {
        let mut unused = candidates.iter().filter(|(place, ..)| !used[*place]);
        let (place, follows, id, content) = *unused.find(|(_, _, id, _)| **id == call.id)?;
        used[place] = true;
        if !follows {
            repairs.push(HistoryRepair::Moved { id: id.clone() });
        }
        Some(content.clone())
    });
    answers.collect()
}

fn with_sound_calls(
    assistant: &AssistantMessage,
    repairs: &mut Vec<HistoryRepair>,
) -> AssistantMessage {
    let mut taken: HashSet<String> = HashSet::new();
    let mut sound = assistant.clone();
    for (position, call) in sound.tool_calls.iter_mut().enumerate() {
        if call.id.is_empty() || taken.contains(&call.id) {
            let new = format!("call_{position}_{}", taken.len());
            let id = std::mem::replace(&mut call.id, new.clone());
            repairs.push(HistoryRepair::Renamed { id, new });
        }
        taken.insert(call.id.clone());
        quote_arguments(call, repairs);
    }
    sound
}

fn quote_arguments(call: &mut ToolCall, repairs: &mut Vec<HistoryRepair>) {
    let is_object = |text: &str| matches!(serde_json::from_str(text), Ok(Value::Object(_)));
    if is_object(&call.arguments) {
        return;
    }
    let quoted = if call.arguments.trim().is_empty() {
        json!({})
    } else {
        json!({"not_json": call.arguments})
    };
    call.arguments = quoted.to_string();
    let id = call.id.clone();
    repairs.push(HistoryRepair::Quoted { id });
}
