//! A finished reply of a model.

use crate::{AssistantMessage, FunctionCall, Message, ToolCall, Usage};
use serde::{Deserialize, Serialize};

/// A finished reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The text. Empty where there is none.
    pub text: String,
    /// The reasoning before the answer, where the endpoint sends it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// A call in the old form, `function_call`. It counts before `tool_calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionCall>,
    /// The tool calls, in order. Every id is unique and not empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// The tokens that the request and the reply took.
    pub usage: Usage,
    /// What was wrong with the reply as it was sent, and has been repaired.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<ReplyRepair>,
    /// The name of the model that answered, as the endpoint reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Why a reply ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its reply.
    #[default]
    Stop,
    /// The reply reached a token limit and was cut off, maybe in the middle of a word.
    Length,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The provider's content filter stopped the reply.
    ContentFilter,
    /// Another reason, as the endpoint names it.
    Other(String),
}

/// Something that was wrong with a reply as it was sent, and how it was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyRepair {
    /// A call had no id.
    #[error("the call of `{name}` had no id; it got `{id}`")]
    MissingCallId {
        /// The name of the tool.
        name: String,
        /// The id that the call got.
        id: String,
    },
    /// Two calls had the same id.
    #[error("two calls had the id `{id}`; the second one got `{new}`")]
    DuplicateCallId {
        /// The id of both calls.
        id: String,
        /// The id that the second call got.
        new: String,
    },
    /// A call had no name and was left out.
    #[error("a call without a name was left out; its arguments began with {arguments:?}")]
    NamelessCall {
        /// The beginning of its arguments.
        arguments: String,
    },
    /// The reply was longer than allowed and was cut off.
    #[error("the reply was longer than {limit} bytes and was cut off")]
    TooLong {
        /// The longest reply, in bytes.
        limit: usize,
    },
    /// The reply had bytes that are not UTF-8.
    #[error("the reply had bytes that are not UTF-8; U+FFFD stands in their place")]
    NotUtf8,
    /// A part of the stream could not be read.
    #[error("a part of the stream was not readable and was left out: {excerpt:?}")]
    UnreadableChunk {
        /// The beginning of that part.
        excerpt: String,
    },
    /// The stream was complete, but gave no reason for its end.
    #[error("the endpoint gave no reason for the end of the reply; `{taken:?}` was taken")]
    NoFinishReason {
        /// The reason that was assumed.
        taken: FinishReason,
    },
}

impl Reply {
    /// A reply that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A reply that is only tool calls.
    pub fn calls(tool_calls: Vec<ToolCall>) -> Self {
        Self {
            tool_calls,
            finish: FinishReason::ToolCalls,
            ..Self::default()
        }
    }

    /// The reply as an assistant message, for the next request of the conversation.
    pub fn message(&self) -> Message {
        Message::Assistant(AssistantMessage {
            content: self.text.clone(),
            reasoning: self.reasoning.clone(),
            function_call: self.function_call.clone(),
            tool_calls: self.tool_calls.clone(),
        })
    }
}
