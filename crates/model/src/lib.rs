//! Language models: chat messages, a streaming client for any OpenAI-compatible endpoint, record and replay.
//!
//! A [`Model`] takes a [`Request`] and gives a stream of [`Event`]s, of which the last is the finished [`Reply`]. Who does not care for
//! the way there calls [`complete`].
#![forbid(unsafe_code)]

mod capabilities;
mod choice;
mod error;
mod event;
mod history;
mod message;
mod model;
pub mod openai;
mod played;
mod recording;
mod reply;
mod request;
mod scripted;
mod tokens;
mod usage;

pub use capabilities::{Capabilities, Overrides};
pub use choice::Choice;
pub use error::{ModelError, Waiting};
pub use event::Event;
pub use history::{HistoryRepair, mend};
pub use message::{AssistantMessage, Content, FunctionCall, Image, Message, Part, ToolCall};
pub use model::{Model, ReplyStream, complete};
pub use recording::{Compared, Header, Recorder, Replay};
pub use reply::{FinishReason, Repair, Reply};
pub use request::{Request, ResponseFormat, ToolChoice};
pub use scripted::Scripted;
pub use tokens::{estimate_messages, estimate_reply, estimate_request, estimate_tokens};
pub use usage::{Cost, Prices, Usage};

/// The code of the page about models, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct Page;
