//! Tool calls that are streamed in pieces, put together.

use crate::{FinishReason, ReplyEvent, ReplyRepair, ToolCall};
use serde_json::Value;
use std::collections::HashSet;

/// The number of calls in one reply. More are dropped.
const MAX_CALLS: usize = 128;

/// The tool calls of one reply, while they are streamed.
#[derive(Default)]
pub(super) struct ToolCallBuilder {
    calls: Vec<PartialCall>,
}

/// A call as far as it was streamed.
#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    is_begun: bool,
}

impl ToolCallBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds an entry of `delta.tool_calls`. `offset` is the number of calls in the old form, which count before these.
    pub(super) fn push(&mut self, piece: &Value, offset: usize) -> Vec<ReplyEvent> {
        let function = piece.get("function").unwrap_or(piece);
        let id = text_of(piece.get("id"));
        let name = text_of(function.get("name"));
        let index = piece.get("index").and_then(Value::as_u64);
        let Some(position) = self.position(index, &id, &name) else {
            return Vec::new();
        };
        let call = &mut self.calls[position];
        if call.id.is_empty() {
            call.id = id;
        }
        // Some endpoints repeat the name with every piece, some send it in pieces.
        if call.name != name {
            call.name.push_str(&name);
        }
        let arguments = arguments_of(function.get("arguments"));
        call.arguments.push_str(&arguments);
        let index = position + offset;
        let mut events = Vec::new();
        if !call.is_begun && !call.name.is_empty() {
            call.is_begun = true;
            let name = call.name.clone();
            events.push(ReplyEvent::CallBegun { index, name });
        }
        if !arguments.is_empty() {
            let text = arguments;
            events.push(ReplyEvent::CallArguments { index, text });
        }
        events
    }

    /// The call that a piece belongs to, by its index. Some endpoints send no index, and some send 0 for every call.
    fn position(&mut self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let found = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        };
        let found = found.filter(|&position| {
            let known = &self.calls[position].id;
            let is_another = !known.is_empty() && !id.is_empty() && known != id;
            !is_another || name.is_empty()
        });
        if found.is_some() {
            return found;
        }
        if self.calls.len() == MAX_CALLS {
            return None;
        }
        self.calls.push(PartialCall {
            index,
            ..PartialCall::default()
        });
        Some(self.calls.len() - 1)
    }

    /// The finished calls, each with a name and a unique id.
    pub(super) fn finish(
        self,
        finish: &FinishReason,
        repairs: &mut Vec<ReplyRepair>,
    ) -> Vec<ToolCall> {
        let mut taken: HashSet<String> = HashSet::new();
        let mut finished = Vec::new();
        for (position, call) in self.calls.into_iter().enumerate() {
            let PartialCall {
                id,
                name,
                mut arguments,
                ..
            } = call;
            if name.is_empty() {
                let arguments = arguments.chars().take(80).collect();
                repairs.push(ReplyRepair::NamelessCall { arguments });
                continue;
            }
            // A tool without parameters. Where the reply was cut off, the arguments may be missing instead.
            if arguments.trim().is_empty() && *finish != FinishReason::Length {
                arguments = "{}".into();
            }
            let unique = if id.is_empty() || taken.contains(&id) {
                let new = (position..)
                    .map(|number| format!("call_{number}"))
                    .find(|new| !taken.contains(new))
                    .unwrap_or_default();
                repairs.push(if id.is_empty() {
                    let (name, id) = (name.clone(), new.clone());
                    ReplyRepair::MissingCallId { name, id }
                } else {
                    let new = new.clone();
                    ReplyRepair::DuplicateCallId { id, new }
                });
                new
            } else {
                id
            };
            taken.insert(unique.clone());
            finished.push(ToolCall {
                id: unique,
                name,
                arguments,
            });
        }
        finished
    }
}

/// The arguments as text. Some endpoints send them as JSON instead of a text that contains JSON.
pub(super) fn arguments_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A text, or a number as text.
pub(super) fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}
