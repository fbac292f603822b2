//! A call, as it comes in.

use crate::output::json_size;
use crate::{Failure, PURPOSE};
use serde_json::{Map, Value};

/// The deepest arguments. `serde_json` reads no deeper text, and what walks them would use up its stack.
const MOST_DEPTH: usize = 128;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its id, given by the caller and returned with the answer.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it is given.
    pub arguments: Arguments,
    /// Who calls.
    pub caller: Caller,
}

/// What a tool is given, as it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// Text that should be a JSON object: what models send.
    Text(String),
    /// An object.
    Object(Map<String, Value>),
}

/// Who calls. It decides whether a purpose must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A language model: it must say why it calls.
    Model,
    /// Code in a session.
    Code,
    /// A client of ours over MCP.
    Mcp,
    /// A person or a program of the host's.
    User,
}

impl Call {
    /// A call by a model.
    pub fn by_model(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<Arguments>,
    ) -> Call {
        Call {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            caller: Caller::Model,
        }
    }

    /// A call by a person or a program, which need not say why.
    pub fn by_user(name: impl Into<String>, arguments: impl Into<Arguments>) -> Call {
        Call {
            id: String::new(),
            name: name.into(),
            arguments: arguments.into(),
            caller: Caller::User,
        }
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Arguments {
        Arguments::Text(text)
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Arguments {
        Arguments::Text(text.to_owned())
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(map: Map<String, Value>) -> Arguments {
        Arguments::Object(map)
    }
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Arguments {
        match value {
            Value::Object(map) => Arguments::Object(map),
            other => Arguments::Text(other.to_string()),
        }
    }
}

impl Arguments {
    /// The object, when it is one and not too large.
    pub(crate) fn read(self, tool: &str, limit: usize) -> Result<Map<String, Value>, Failure> {
        let bytes = match &self {
            Arguments::Text(text) => text.len(),
            Arguments::Object(map) => map_size(map),
        };
        if bytes > limit {
            return Err(Failure::TooLarge {
                tool: tool.to_owned(),
                what: "arguments",
                bytes,
                limit,
            });
        }
        let not_json = |problem: String| Failure::NotJson {
            tool: tool.to_owned(),
            problem,
        };
        match self {
            // Many models send nothing when there is nothing to say.
            Arguments::Text(text) if text.trim().is_empty() => Ok(Map::new()),
            Arguments::Text(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(map)) => Ok(map),
                Ok(other) => Err(not_json(format!("it is {}", kind_of(&other)))),
                Err(error) => Err(not_json(explain(&error))),
            },
            Arguments::Object(map) if map.values().any(|value| is_deeper(value, MOST_DEPTH)) => {
                Err(not_json(TOO_DEEP.to_owned()))
            }
            Arguments::Object(map) => Ok(map),
        }
    }
}

/// The arguments without the purpose, and the purpose.
pub(crate) fn take_purpose(map: &mut Map<String, Value>) -> Option<Value> {
    // Keeps the order of the rest.
    map.shift_remove(PURPOSE)
}

const TOO_DEEP: &str = "it is nested deeper than 128 levels";

fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.contains("recursion limit") {
        TOO_DEEP.to_owned()
    } else {
        text
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn map_size(map: &Map<String, Value>) -> usize {
    map.iter()
        .map(|(key, value)| key.len() + 4 + json_size_bounded(value))
        .sum()
}

/// `json_size` walks down: not before it is known how far.
fn json_size_bounded(value: &Value) -> usize {
    if is_deeper(value, MOST_DEPTH) {
        0
    } else {
        json_size(value)
    }
}

/// Whether a value is nested deeper than this; looks no further down than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|item| is_deeper(item, levels - 1)),
        _ => false,
    }
}
