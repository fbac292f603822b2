//! What a model said, whole.

use crate::{AssistantMessage, FunctionCall, Message, ToolCall, Usage};
use serde::{Deserialize, Serialize};

/// A finished reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The text; empty where there is none.
    pub text: String,
    /// What it thought first, where the endpoint tells.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The call in the old form. It comes before `tool_calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionCall>,
    /// The calls, in order. Every id is unique and not empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: FinishReason,
    /// The tokens that it took.
    pub usage: Usage,
    /// What was wrong with it on the wire and is right now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// Which model answered, as the endpoint says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Why a reply ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    #[default]
    Stop,
    /// It reached a limit and was cut off, maybe in the middle of a word.
    Length,
    /// It waits for the answers to its calls.
    ToolCalls,
    /// The provider held it back.
    ContentFilter,
    /// Another reason.
    Other(String),
}

/// Something that was wrong with a reply on the wire, and what was made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repair {
    /// A call had no id.
    #[error("the call of `{name}` had no id; it got `{id}`")]
    MissingCallId {
        /// The tool.
        name: String,
        /// The id that it has now.
        id: String,
    },
    /// Two calls had the same id.
    #[error("two calls had the id `{id}`; the second one got `{new}`")]
    DuplicateCallId {
        /// The id of both.
        id: String,
        /// What the second one has now.
        new: String,
    },
    /// A call said not what it calls.
    #[error("a call without a name was left out; its arguments began with {arguments:?}")]
    NamelessCall {
        /// The beginning of its arguments.
        arguments: String,
    },
    /// More than was allowed.
    #[error("the reply was longer than {limit} bytes and was cut off")]
    TooLong {
        /// How long a reply may be.
        limit: usize,
    },
    /// Bytes that are no text.
    #[error("the reply had bytes that are not UTF-8; U+FFFD stands in their place")]
    NotUtf8,
    /// A part of the stream that could not be read.
    #[error("a part of the stream was not readable and was left out: {excerpt:?}")]
    UnreadableChunk {
        /// Its beginning.
        excerpt: String,
    },
    /// The stream was marked as complete, but said not why it ended.
    #[error("the endpoint gave no reason for the end of the reply; `{taken:?}` was taken")]
    NoFinishReason {
        /// What was taken for it.
        taken: FinishReason,
    },
}

impl Reply {
    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A reply of calls.
    pub fn calls(tool_calls: Vec<ToolCall>) -> Self {
        Self {
            tool_calls,
            finish: FinishReason::ToolCalls,
            ..Self::default()
        }
    }

    /// The reply as a message, to continue the conversation with.
    pub fn message(&self) -> Message {
        Message::Assistant(AssistantMessage {
            content: self.text.clone(),
            reasoning: self.reasoning.clone(),
            function_call: self.function_call.clone(),
            tool_calls: self.tool_calls.clone(),
        })
    }
}
