//! JSON values that are kept as text until they are needed.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json::memory::memory_when_parsed;

/// A JSON value that is kept as compact text, in one line.
///
/// What code in a session shows, or gives to a tool, is kept like this until it is asked for: parsed, it can take
/// fifty times as much memory. Cloning copies no text.
#[derive(Clone)]
pub(crate) struct JsonText(Arc<str>);

impl JsonText {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn parse(&self) -> Value {
        // The text was written from a value.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    pub(crate) fn memory_when_parsed(&self) -> usize {
        memory_when_parsed(&self.0)
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        // Not `Value::to_string`, which writes one character at a time.
        Self(serde_json::to_string(value).unwrap_or_default().into())
    }
}

/// Compares the values: the entries of an object have no order.
impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.parse() == other.parse()
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parse().serialize(serializer)
    }
}

/// The arguments of a tool call: a JSON object, kept as text until it is asked for.
///
/// Code in a session decides what is in it. Parsed, the arguments can take fifty times as much memory:
/// [`memory_when_parsed`](Self::memory_when_parsed) tells how much before [`to_map`](Self::to_map) parses them.
/// Cloning copies no text.
#[derive(Clone, PartialEq)]
pub struct ToolArguments(JsonText);

impl ToolArguments {
    /// The arguments by their names. Parses the text each time.
    pub fn to_map(&self) -> Map<String, Value> {
        match self.0.parse() {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The arguments as compact JSON.
    pub fn as_json(&self) -> &str {
        self.0.as_str()
    }

    /// About how many bytes of memory [`to_map`](Self::to_map) takes.
    pub fn memory_when_parsed(&self) -> usize {
        self.0.memory_when_parsed()
    }
}

impl Default for ToolArguments {
    fn default() -> Self {
        Map::new().into()
    }
}

impl From<Map<String, Value>> for ToolArguments {
    fn from(map: Map<String, Value>) -> Self {
        Self((&Value::Object(map)).into())
    }
}

impl fmt::Debug for ToolArguments {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Serialize for ToolArguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(map) => Ok(map.into()),
            _ => Err(D::Error::custom("the arguments are no object")),
        }
    }
}
