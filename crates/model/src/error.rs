//! The errors of asking a model.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why there is no reply. No message contains an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelError {
    /// No API key was found.
    #[error("there is no key for {url}: set the environment variable {variables}")]
    NoKey {
        /// The URL of the endpoint.
        url: String,
        /// The environment variables that were read.
        variables: String,
    },
    /// The endpoint does not accept the key (status 401).
    #[error("{url} does not accept the key from {source_of_key}: {message}")]
    WrongKey {
        /// The URL of the endpoint.
        url: String,
        /// Where the key came from, such as `the variable OPENAI_API_KEY`.
        source_of_key: String,
        /// The endpoint's own message.
        message: String,
    },
    /// The key is valid, but does not allow this request (status 403).
    #[error("{url} does not allow this: {message}")]
    Forbidden {
        /// The URL of the endpoint.
        url: String,
        /// The endpoint's own message.
        message: String,
    },
    /// The endpoint has no model of this name.
    #[error("{url} has no model `{model}`: {message}")]
    UnknownModel {
        /// The URL of the endpoint.
        url: String,
        /// The name of the model in the request.
        model: String,
        /// The endpoint's own message.
        message: String,
    },
    /// The conversation is longer than the context of the model.
    #[error("the conversation is too long for `{model}`: {message}")]
    ContextOverflow {
        /// The name of the model.
        model: String,
        /// The tokens that the model takes, if the endpoint said so.
        limit: Option<u64>,
        /// The endpoint's own message.
        message: String,
    },
    /// The endpoint refuses the request.
    #[error("{url} refused the request (status {status}): {message}")]
    Refused {
        /// The URL of the endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The endpoint's own message.
        message: String,
    },
    /// Too many requests (status 429), still after all attempts.
    #[error("{url} takes no more requests now (status 429): {message}")]
    RateLimited {
        /// The URL of the endpoint.
        url: String,
        /// The endpoint's own message.
        message: String,
        /// The time that the endpoint asks to wait, if it does.
        retry_after: Option<Duration>,
    },
    /// The endpoint reports an error of its own, still after all attempts.
    #[error("{url} has a problem (status {status}): {message}")]
    Server {
        /// The URL of the endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The endpoint's own message.
        message: String,
    },
    /// No connection to the endpoint.
    #[error("no connection to {url}: {problem}")]
    Unreachable {
        /// The URL of the endpoint.
        url: String,
        /// The cause.
        problem: String,
    },
    /// The endpoint sent nothing for too long.
    #[error("{url} did not answer: {phase} took longer than {} s", .limit.as_secs_f64())]
    TimedOut {
        /// The URL of the endpoint.
        url: String,
        /// What the client waited for.
        #[serde(rename = "waiting")]
        phase: TimeoutPhase,
        /// The time limit.
        limit: Duration,
    },
    /// The connection ended in the middle of a reply.
    #[error("the reply of {url} broke off: {problem}")]
    #[serde(rename = "broken_off")]
    Interrupted {
        /// The URL of the endpoint.
        url: String,
        /// The cause.
        problem: String,
    },
    /// The response is not one of the OpenAI protocol.
    #[error("{url} does not speak the OpenAI protocol: {problem}")]
    #[serde(rename = "not_the_protocol")]
    InvalidResponse {
        /// The URL of the endpoint.
        url: String,
        /// What the endpoint sent instead.
        problem: String,
    },
    /// The reply is empty.
    #[error("{url} sent an empty reply: {problem}")]
    EmptyReply {
        /// The URL of the endpoint.
        url: String,
        /// What is missing.
        problem: String,
    },
    /// The settings of the model cannot be used.
    #[error("the settings of the model: {0}")]
    Settings(String),
    /// A recording cannot be read or written.
    #[error("the recording {path}: {problem}")]
    Recording {
        /// The path of the recording.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No recorded exchange matches the request.
    #[error("{path}: exchange {exchange} was recorded for another request:\n{difference}")]
    ReplayMismatch {
        /// The path of the recording.
        path: String,
        /// The number of the exchange that is nearest to the request, from 1.
        exchange: usize,
        /// Where that exchange differs from the request.
        difference: String,
    },
    /// The recording or the script has no more replies.
    #[error("{source_of_replies} has only {replies} replies, and one more was asked for")]
    NoMoreReplies {
        /// The recording or the script, for the message.
        source_of_replies: String,
        /// The number of replies it has.
        replies: usize,
    },
    /// The stream of a model ended without a reply and without an error, against the rules of [`ReplyStream`](crate::ReplyStream).
    #[error("the model's stream ended without a reply")]
    Unfinished,
}

/// What a client waited for when a time limit ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutPhase {
    /// The connection to the endpoint.
    Connection,
    /// The first byte of the reply.
    FirstByte,
    /// The next part of a reply that had begun.
    NextPart,
    /// The whole reply.
    WholeReply,
}

impl ModelError {
    /// Whether the same request may succeed a moment later, so that a retry makes sense.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::EmptyReply { .. } => true,
            Self::Server { status, .. } => *status != 501,
            _ => false,
        }
    }
}

impl fmt::Display for TimeoutPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connection => "the connection",
            Self::FirstByte => "the first byte of the reply",
            Self::NextPart => "the next part of a reply that had begun",
            Self::WholeReply => "the whole reply",
        })
    }
}
