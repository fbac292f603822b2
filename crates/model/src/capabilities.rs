//! What a model and its endpoint can do.

use crate::Prices;
use serde::{Deserialize, Serialize};

/// What a model and its endpoint can do. The default is for an endpoint of which nothing is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Whether the model makes native tool calls.
    pub tools: bool,
    /// Whether the endpoint takes `response_format` with a JSON schema.
    pub json_schema: bool,
    /// Whether messages may have images.
    pub images: bool,
    /// Whether system messages may come after the first message.
    pub late_system_messages: bool,
    /// Whether the model wants its own reasoning back in the conversation.
    pub reasoning_in_history: bool,
    /// The tokens of a request and its reply together.
    pub context_tokens: u64,
    /// The prices of tokens, where they are known.
    pub prices: Option<Prices>,
}

/// Capabilities that a user sets. A field that is `None` keeps what is known by the model's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CapabilityOverrides {
    /// See [`Capabilities::tools`].
    pub tools: Option<bool>,
    /// See [`Capabilities::json_schema`].
    pub json_schema: Option<bool>,
    /// See [`Capabilities::images`].
    pub images: Option<bool>,
    /// See [`Capabilities::late_system_messages`].
    pub late_system_messages: Option<bool>,
    /// See [`Capabilities::reasoning_in_history`].
    pub reasoning_in_history: Option<bool>,
    /// See [`Capabilities::context_tokens`].
    pub context_tokens: Option<u64>,
    /// See [`Capabilities::prices`].
    pub prices: Option<Prices>,
}

/// What is known of models by their names: the beginning of the name, context tokens, tools, JSON schema, images. The first row that
/// matches counts.
const KNOWN_MODELS: &[(&str, u64, bool, bool, bool)] = &[
    ("gpt-5", 400_000, true, true, true),
    ("gpt-4.1", 1_000_000, true, true, true),
    ("gpt-4o", 128_000, true, true, true),
    ("gpt-oss", 128_000, true, true, false),
    ("o3", 200_000, true, true, true),
    ("o4-mini", 200_000, true, true, true),
    ("claude", 200_000, true, false, true),
    ("gemini", 1_000_000, true, true, true),
    ("deepseek-reasoner", 64_000, true, false, false),
    ("deepseek", 64_000, true, false, false),
    ("qwen-vl", 32_000, false, false, true),
    ("qwen3-coder", 256_000, true, false, false),
    ("qwen3", 32_000, true, false, false),
    ("qwen-max", 32_000, true, false, false),
    ("qwen-plus", 128_000, true, false, false),
    ("qwen-turbo", 128_000, true, false, false),
    ("qwen2.5-coder", 32_000, false, true, false),
    ("qwen2.5", 32_000, true, false, false),
    ("llama3", 128_000, true, false, false),
    ("llama-3", 128_000, true, false, false),
    ("mistral-large", 128_000, true, true, false),
    ("mistral", 32_000, true, false, false),
];

impl Capabilities {
    /// The capabilities of a model by its name. A name that is not known has the default.
    pub fn of_model(model: &str) -> Self {
        let name = model.to_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        let known = KNOWN_MODELS
            .iter()
            .find(|(start, ..)| name.starts_with(start));
        let Some(&(_, context_tokens, tools, json_schema, images)) = known else {
            return Self::default();
        };
        Self {
            tools,
            json_schema,
            images,
            context_tokens,
            // Anthropic's endpoint moves such messages to the beginning, away from their place.
            late_system_messages: !name.starts_with("claude"),
            ..Self::default()
        }
    }

    /// These capabilities with the user's own settings in place of what is known.
    pub fn with_overrides(self, overrides: &CapabilityOverrides) -> Self {
        Self {
            tools: overrides.tools.unwrap_or(self.tools),
            json_schema: overrides.json_schema.unwrap_or(self.json_schema),
            images: overrides.images.unwrap_or(self.images),
            late_system_messages: overrides
                .late_system_messages
                .unwrap_or(self.late_system_messages),
            reasoning_in_history: overrides
                .reasoning_in_history
                .unwrap_or(self.reasoning_in_history),
            context_tokens: overrides.context_tokens.unwrap_or(self.context_tokens),
            prices: overrides.prices.or(self.prices),
        }
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            tools: true,
            json_schema: false,
            images: false,
            late_system_messages: true,
            reasoning_in_history: false,
            context_tokens: 8_192,
            prices: None,
        }
    }
}
