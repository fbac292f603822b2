//! The repair of a conversation, so that an endpoint accepts it: every tool call has one result, directly after it.

use crate::{AssistantMessage, Message, ToolCall};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Something that was wrong with a conversation, and how it was repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryRepair {
    /// A call had no result.
    #[error("the call `{id}` of `{name}` had no answer; it got one that says so")]
    Unanswered {
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A result had no call, or was the second result of a call.
    #[error("an answer to `{id}` belongs to no call before it; it was left out")]
    Stray {
        /// The id that the result names.
        id: String,
    },
    /// A result did not follow its call directly.
    #[error("the answer to `{id}` did not follow its call; it was moved there")]
    Moved {
        /// The id of the call.
        id: String,
    },
    /// A call had no id, or the id of another call in its message.
    #[error("a call had no id of its own (`{id}`); it got `{new}`")]
    Renamed {
        /// The id that the call had.
        id: String,
        /// The id that the call got.
        new: String,
    },
    /// The arguments of a call were no JSON object, which some endpoints refuse.
    #[error("the arguments of the call `{id}` were no JSON object; they are quoted in one")]
    Quoted {
        /// The id of the call.
        id: String,
    },
}

/// A conversation that endpoints accept, and what had to be changed for that.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairedHistory {
    /// The messages of the conversation.
    pub messages: Vec<Message>,
    /// The changes. Empty where nothing was wrong.
    pub repairs: Vec<HistoryRepair>,
}

/// The text in place of a result that is missing.
const NO_RESULT: &str = "(there is no result of this call)";

/// Repairs a conversation. One that is sound is returned as it is.
pub fn repair_history(messages: &[Message]) -> RepairedHistory {
    let mut repairs = Vec::new();
    let mut repaired = Vec::with_capacity(messages.len());
    let mut used = vec![false; messages.len()];
    for (position, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant(assistant) => {
                let results = results_of(assistant, position, messages, &mut used, &mut repairs);
                let assistant = with_valid_calls(assistant, &mut repairs);
                for (call, result) in assistant.tool_calls.iter().zip(&results) {
                    if result.is_none() {
                        let (id, name) = (call.id.clone(), call.name.clone());
                        repairs.push(HistoryRepair::Unanswered { id, name });
                    }
                }
                let calls = assistant.tool_calls.clone();
                repaired.push(Message::Assistant(assistant));
                for (call, result) in calls.into_iter().zip(results) {
                    repaired.push(Message::tool(
                        call.id,
                        result.unwrap_or_else(|| NO_RESULT.into()),
                    ));
                }
            }
            Message::Tool { tool_call_id, .. } => {
                if !used[position] {
                    let id = tool_call_id.clone();
                    repairs.push(HistoryRepair::Stray { id });
                }
            }
            other => repaired.push(other.clone()),
        }
    }
    RepairedHistory {
        messages: repaired,
        repairs,
    }
}

/// The result of each call of a message: the first one with its id before the model's next message with calls.
fn results_of(
    assistant: &AssistantMessage,
    position: usize,
    messages: &[Message],
    used: &mut [bool],
    repairs: &mut Vec<HistoryRepair>,
) -> Vec<Option<String>> {
    if assistant.tool_calls.is_empty() {
        return Vec::new();
    }
    let mut follows = true;
    let mut candidates = Vec::new();
    for (index, message) in messages.iter().enumerate().skip(position + 1) {
        match message {
            Message::Assistant(next) if !next.tool_calls.is_empty() => break,
            Message::Tool {
                tool_call_id,
                content,
            } => candidates.push((index, follows, tool_call_id, content)),
            _ => follows = false,
        }
    }
    let results = assistant.tool_calls.iter().map(|call| {
        let mut unused = candidates.iter().filter(|(index, ..)| !used[*index]);
        let (index, follows, id, content) = *unused.find(|(_, _, id, _)| **id == call.id)?;
        used[index] = true;
        if !follows {
            repairs.push(HistoryRepair::Moved { id: id.clone() });
        }
        Some(content.clone())
    });
    results.collect()
}

fn with_valid_calls(
    assistant: &AssistantMessage,
    repairs: &mut Vec<HistoryRepair>,
) -> AssistantMessage {
    let mut taken: HashSet<String> = HashSet::new();
    let mut valid = assistant.clone();
    for (position, call) in valid.tool_calls.iter_mut().enumerate() {
        if call.id.is_empty() || taken.contains(&call.id) {
            let new = format!("call_{position}_{}", taken.len());
            let id = std::mem::replace(&mut call.id, new.clone());
            repairs.push(HistoryRepair::Renamed { id, new });
        }
        taken.insert(call.id.clone());
        quote_arguments(call, repairs);
    }
    valid
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
