//! What a model can do.

use crate::Prices;
use serde::{Deserialize, Serialize};

/// What a model and its endpoint can do. Defaults suit an endpoint of which nothing is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Native tool calls.
    pub tools: bool,
    /// `response_format` with a JSON schema.
    pub json_schema: bool,
    /// Images in messages.
    pub images: bool,
    /// System messages after the first message.
    pub late_system_messages: bool,
    /// The model wants its own reasoning back in the history.
    pub reasoning_in_history: bool,
    /// Tokens of a request and its reply together.
    pub context_tokens: u64,
    /// What it costs, where it costs and someone told us.
    pub prices: Option<Prices>,
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
