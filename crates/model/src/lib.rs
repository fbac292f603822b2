//! Language models: chat messages, a streaming client for any OpenAI-compatible endpoint, record and replay.
//!
//! A [`Model`] takes a [`Request`] and returns a stream of [`ReplyEvent`]s. The last event holds the finished [`Reply`]. [`complete`]
//! waits for it.
#![forbid(unsafe_code)]

mod capabilities;
mod error;
mod history_repair;
mod message;
mod model;
mod model_choice;
pub mod openai;
mod recording;
mod reply;
mod request;
mod scripted;
mod tokens;

pub use capabilities::{Capabilities, CapabilityOverrides};
pub use error::{ModelError, TimeoutPhase};
pub use history_repair::{HistoryRepair, RepairedHistory, repair_history};
pub use message::{AssistantMessage, Content, FunctionCall, Image, Message, Part, ToolCall};
pub use model::{Model, ReplyEvent, ReplyStream, complete};
pub use model_choice::ModelChoice;
pub use recording::{RecordingHeader, RecordingModel, ReplayModel, RequestMatch};
pub use reply::{FinishReason, Reply, ReplyRepair};
pub use request::{Request, ResponseFormat, ToolChoice};
pub use scripted::ScriptedModel;
pub use tokens::{
    Cost, Prices, Usage, estimate_message, estimate_messages, estimate_reply, estimate_request,
    estimate_tokens,
};

/// The code of the page about models, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct Page;
