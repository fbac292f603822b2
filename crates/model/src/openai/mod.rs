//! The client for any endpoint that speaks the OpenAI protocol.

mod attempt;
mod body;
mod client;
mod excerpt;
mod key;
mod lines;
mod merge;
mod refusal;
mod retry;
mod settings;
mod thinking;
mod tool_calls;

pub use client::OpenAi;
pub(crate) use key::without_secrets;
pub use key::{Key, KeyHeader};
pub use retry::Retries;
pub use settings::{Settings, TimeLimits};
