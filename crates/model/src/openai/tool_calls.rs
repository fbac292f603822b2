//! Calls that come in pieces, merged.

use crate::{Event, FinishReason, Repair, ToolCall};
use serde_json::Value;
use std::collections::HashSet;

/// More calls in one reply than any honest model makes.
const MOST: usize = 128;

/// The calls of one reply so far.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Growing>,
}

#[derive(Default)]
struct Growing {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    begun: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// A piece of a call, as it stands in `delta.tool_calls`. `offset` is the number of calls before the first of these.
    pub(super) fn push(&mut self, piece: &Value, offset: usize) -> Vec<Event> {
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
        if !call.begun && !call.name.is_empty() {
            call.begun = true;
            let name = call.name.clone();
            events.push(Event::CallBegun { index, name });
        }
        if !arguments.is_empty() {
            let text = arguments;
            events.push(Event::CallArguments { index, text });
        }
        events
    }

    /// Which call a piece belongs to. By its index; but some endpoints send none, and some send 0 for every call.
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
        if self.calls.len() == MOST {
            return None;
        }
        self.calls.push(Growing {
            index,
            ..Growing::default()
        });
        Some(self.calls.len() - 1)
    }

    /// The calls, each with a name and an id of its own.
    pub(super) fn finish(self, finish: &FinishReason, repairs: &mut Vec<Repair>) -> Vec<ToolCall> {
        let mut taken: HashSet<String> = HashSet::new();
        let mut finished = Vec::new();
        for (position, call) in self.calls.into_iter().enumerate() {
            let Growing {
                id,
                name,
                mut arguments,
                ..
            } = call;
            if name.is_empty() {
                let arguments = arguments.chars().take(80).collect();
                repairs.push(Repair::NamelessCall { arguments });
                continue;
            }
            // A tool without parameters. Where the reply was cut off, they may just not have come.
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
                    Repair::MissingCallId { name, id }
                } else {
                    let new = new.clone();
                    Repair::DuplicateCallId { id, new }
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

/// Arguments are a text of JSON; some endpoints send the JSON itself.
pub(super) fn arguments_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

pub(super) fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}
