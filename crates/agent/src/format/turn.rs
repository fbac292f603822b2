//! What a reply means.

use crate::repair::Repair;
use cellblock_tools::Arguments;
use serde_json::Value;

/// A reply, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// What the model thinks.
    pub thought: String,
    /// What it wants done, in order. Never empty.
    pub actions: Vec<Action>,
    /// What had to be repaired to understand it.
    pub repairs: Vec<Repair>,
}

/// One thing that a model wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Run this code as a cell.
    Code(String),
    /// Make these packages available.
    Dependencies(Vec<String>),
    /// Call a tool.
    Call(ToolUse),
    /// The run is over; this is the answer.
    Answer(Value),
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// Its id in the conversation.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as they came: what goes into the history.
    pub raw: String,
    /// The arguments as they are used.
    pub arguments: Arguments,
    /// In which form it was made.
    pub kind: CallKind,
}

/// The form of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKind {
    /// One of `tool_calls`.
    #[default]
    Tool,
    /// The old `function_call`.
    Function,
}

/// Why a reply cannot be used: words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl Turn {
    /// The answer, where the reply is one.
    pub fn answer(&self) -> Option<&Value> {
        match self.actions.as_slice() {
            [Action::Answer(answer)] => Some(answer),
            _ => None,
        }
    }

    /// A turn that is only an answer.
    pub(crate) fn answered(text: &str, repairs: Vec<Repair>) -> Turn {
        Turn {
            thought: String::new(),
            actions: vec![Action::Answer(Value::String(text.to_owned()))],
            repairs,
        }
    }
}

impl Malformed {
    /// A reply that ended at the limit of tokens.
    pub(crate) fn cut_off() -> Malformed {
        Malformed(
            "the reply was cut off at the token limit before it was complete; write a shorter one, with less code at a time"
                .to_owned(),
        )
    }

    /// A reply with nothing in it.
    pub(crate) fn empty() -> Malformed {
        Malformed("the reply is empty".to_owned())
    }

    /// A reply of which there is nothing yet, or nothing at all.
    pub(crate) fn nothing(cut_off: bool) -> Malformed {
        if cut_off {
            Malformed::cut_off()
        } else {
            Malformed::empty()
        }
    }
}
