//! What a model is asked.

use crate::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A conversation to be continued, and how. Which model answers is not part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools that may be called, in the form `{"type":"function","function":{…}}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// Whether it must call one.
    #[serde(skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The form of the text. Left out where the endpoint does not take it, see [`Capabilities`](crate::Capabilities).
    #[serde(skip_serializing_if = "ResponseFormat::is_text")]
    pub response_format: ResponseFormat,
    /// Texts that end the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The longest reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How freely it chooses its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Cuts off the improbable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// For replies that can be had again, where the endpoint can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Whether a tool must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None may be called.
    None,
    /// One must be called.
    Required,
    /// This one must be called.
    Named(String),
}

/// The form of a reply's text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Anything.
    #[default]
    Text,
    /// One JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// A name for the schema, of letters, digits, `_` and `-`.
        name: String,
        /// The schema.
        schema: Value,
        /// Whether the schema fits the strict subset, so that the endpoint can enforce it.
        strict: bool,
    },
}

impl Request {
    /// A request with nothing but messages.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            ..Self::default()
        }
    }
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

impl ResponseFormat {
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}
