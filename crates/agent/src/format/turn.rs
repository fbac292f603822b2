//! What a reply means: the thought and the actions of the model, also while the reply is still being streamed.

use crate::repair::{ReadJsonError, Repair, ReplyEnd};
use cellblock_tools::Arguments;
use serde_json::Value;

/// A reply that was read: the thought of the model, and the actions it wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The thought of the model.
    pub thought: String,
    /// The actions, in order. Never empty.
    pub actions: Vec<Action>,
    /// What had to be repaired to read the reply.
    pub repairs: Vec<Repair>,
    /// The reply as it stays in the conversation, where that is not its whole text: without what the model invented after its code, and
    /// with the actions in the form that was asked for.
    pub said: Option<String>,
    /// An answer beside code. It was written before the code ran.
    pub early_answer: Option<Value>,
    /// What the model must know of how its reply was read. It is added to the results.
    pub notes: Vec<String>,
}

/// One action that a model wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Run this code as a cell.
    Code(String),
    /// Install these packages, where they are missing.
    Dependencies(Vec<String>),
    /// Call a tool.
    Call(ToolUse),
    /// End the run with this answer.
    Answer(Value),
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The id of the call in the conversation. Empty where the model gave none.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them. They stay so in the conversation.
    pub raw: String,
    /// The arguments after repair.
    pub arguments: Arguments,
    /// The form of the call.
    pub kind: CallKind,
}

/// The form of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKind {
    /// One of `tool_calls`.
    #[default]
    Tool,
    /// The old form, `function_call`.
    Function,
}

/// Why a reply cannot be used, as a text for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedReply(pub String);

impl Turn {
    /// The answer, if the reply is one.
    pub fn answer(&self) -> Option<&Value> {
        match self.actions.as_slice() {
            [Action::Answer(answer)] => Some(answer),
            _ => None,
        }
    }

    /// A turn that is only an answer.
    pub(crate) fn answer_only(text: &str, repairs: Vec<Repair>) -> Turn {
        Turn {
            actions: vec![Action::Answer(Value::String(text.to_owned()))],
            repairs,
            ..Turn::default()
        }
    }
}

impl MalformedReply {
    /// For a reply that ended at the token limit.
    pub(crate) fn cut_off() -> MalformedReply {
        MalformedReply(
            "the reply was cut off at the token limit before it was complete; write a shorter one, with less code at a time"
                .to_owned(),
        )
    }

    /// For a reply that holds no object of JSON. `expected` says what the model should write.
    pub(crate) fn no_object(
        end: ReplyEnd,
        problem: &ReadJsonError,
        expected: &str,
    ) -> MalformedReply {
        match end {
            ReplyEnd::CutOff => MalformedReply::cut_off(),
            _ => MalformedReply(format!("{problem}. Reply with {expected}")),
        }
    }

    /// For an empty reply.
    pub(crate) fn empty() -> MalformedReply {
        MalformedReply("the reply is empty".to_owned())
    }

    /// For an empty reply that may have been cut off.
    pub(crate) fn nothing(end: ReplyEnd) -> MalformedReply {
        match end {
            ReplyEnd::CutOff => MalformedReply::cut_off(),
            ReplyEnd::Complete => MalformedReply::empty(),
        }
    }
}

/// A reply that is still being streamed.
#[derive(Clone, Debug, Default)]
pub struct PartialReply {
    /// The text so far.
    pub text: String,
    /// The tool calls so far.
    pub calls: Vec<PartialCall>,
}

/// A tool call that is still being streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments so far: the beginning of a JSON text.
    pub arguments: String,
}

/// The thought and the code of a reply that is still being streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialTurn {
    /// The thought so far.
    pub thought: String,
    /// The code so far.
    pub code: String,
}

/// Whether a value says nothing.
pub(super) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// The text of a field in JSON that is not complete yet. Empty where the field has not begun.
pub(super) fn partial_text(json: &str, field: &str) -> String {
    let quoted = format!("\"{field}\"");
    let Some(at) = json.find(&quoted) else {
        return String::new();
    };
    let rest = json[at + quoted.len()..].trim_start();
    let Some(value) = rest.strip_prefix(':').map(str::trim_start) else {
        return String::new();
    };
    let Some(body) = value.strip_prefix('"') else {
        return String::new();
    };
    decode_text(body)
}

/// Decodes a JSON text up to its closing quote, or as far as it came.
fn decode_text(body: &str) -> String {
    let mut text = String::new();
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => {}
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    text.extend(code.and_then(char::from_u32));
                }
                Some(other) => text.push(other),
                None => break,
            },
            c => text.push(c),
        }
    }
    text
}
