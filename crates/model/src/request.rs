//! A request to a model.

use crate::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A conversation that the model should continue, with options. The name of the model is not part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools that may be called, in the form `{"type":"function","function":{…}}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// Whether the model must call a tool.
    #[serde(skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The form of the reply's text. Not sent to endpoints that do not take it: see
    /// [`Capabilities::json_schema`](crate::Capabilities::json_schema).
    #[serde(skip_serializing_if = "ResponseFormat::is_text")]
    pub response_format: ResponseFormat,
    /// Texts at which the reply ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The longest reply, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The probability mass for nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The seed for sampling, for endpoints that can repeat a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Whether the model may or must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool may be called.
    None,
    /// A tool must be called.
    Required,
    /// The tool with this name must be called.
    Named(String),
}

/// The form of a reply's text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any text.
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
    /// A request with these messages and default options.
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
