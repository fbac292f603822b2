//! Which endpoint, which model, and how long we wait.

use super::{Key, KeyHeader, Retries};
use crate::Capabilities;
use serde_json::{Map, Value};
use std::time::Duration;

/// All that the client must know about an endpoint.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address up to `/chat/completions`, which is added. A query (`?api-version=…`) is kept.
    pub base_url: String,
    /// The model, as the endpoint calls it.
    pub model: String,
    /// The key, where one is needed.
    pub key: Option<Key>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// What the model can do.
    pub capabilities: Capabilities,
    /// How long is waited.
    pub time_limits: TimeLimits,
    /// How often it is tried.
    pub retries: Retries,
    /// The longest reply: text, reasoning and calls together. What comes after that is not read.
    pub max_reply_bytes: usize,
    /// Fields to add to every request, for what only this endpoint knows.
    pub extra: Map<String, Value>,
}

/// How long is waited before something counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the connection.
    pub connect: Duration,
    /// From the request to the first byte. A model on this machine reads a long prompt for minutes.
    pub first_byte: Duration,
    /// Between two parts of a reply.
    pub next_part: Duration,
    /// For one reply from beginning to end, whatever comes.
    pub whole: Duration,
}

impl Settings {
    /// An endpoint and a model, with what is known about the model by its name. Without a key.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            base_url: base_url.into(),
            capabilities: Capabilities::of(&model),
            model,
            key: None,
            key_header: KeyHeader::default(),
            time_limits: TimeLimits::default(),
            retries: Retries::default(),
            max_reply_bytes: 1_000_000,
            extra: Map::new(),
        }
    }

    /// The same with a key.
    pub fn with_key(mut self, key: Option<Key>) -> Self {
        self.key = key;
        self
    }
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(180),
            next_part: Duration::from_secs(60),
            whole: Duration::from_secs(900),
        }
    }
}
