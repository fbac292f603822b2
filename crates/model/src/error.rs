//! Why there is no reply.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why there is no reply. No message contains a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelError {
    /// There is no key.
    #[error("there is no key for {url}: set the environment variable {variables}")]
    NoKey {
        /// The endpoint.
        url: String,
        /// The variables that were looked at.
        variables: String,
    },
    /// The key is not accepted (401).
    #[error("{url} does not accept the key from {source_of_key}: {message}")]
    WrongKey {
        /// The endpoint.
        url: String,
        /// Where the key came from: the name of a variable, or `the settings`.
        source_of_key: String,
        /// What the endpoint said.
        message: String,
    },
    /// The key is good, but not for this (403).
    #[error("{url} does not allow this: {message}")]
    Forbidden {
        /// The endpoint.
        url: String,
        /// What the endpoint said.
        message: String,
    },
    /// There is no such model there.
    #[error("{url} has no model `{model}`: {message}")]
    UnknownModel {
        /// The endpoint.
        url: String,
        /// The name that was asked for.
        model: String,
        /// What the endpoint said.
        message: String,
    },
    /// The conversation is too long for the model.
    #[error("the conversation is too long for `{model}`: {message}")]
    ContextOverflow {
        /// The model.
        model: String,
        /// How many tokens it can take, if the endpoint told.
        limit: Option<u64>,
        /// What the endpoint said.
        message: String,
    },
    /// The endpoint refuses the request as it is.
    #[error("{url} refused the request (status {status}): {message}")]
    Refused {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What the endpoint said.
        message: String,
    },
    /// Too many requests (429), still after all tries.
    #[error("{url} takes no more requests now (status 429): {message}")]
    RateLimited {
        /// The endpoint.
        url: String,
        /// What the endpoint said.
        message: String,
        /// How long it wants to be left alone, if it told.
        retry_after: Option<Duration>,
    },
    /// The endpoint has a problem of its own, still after all tries.
    #[error("{url} has a problem (status {status}): {message}")]
    Server {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What the endpoint said.
        message: String,
    },
    /// No connection.
    #[error("no connection to {url}: {problem}")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// Nothing came for too long.
    #[error("{url} did not answer: {waiting} took longer than {} s", .limit.as_secs_f64())]
    TimedOut {
        /// The endpoint.
        url: String,
        /// What was waited for.
        waiting: Waiting,
        /// For how long at most.
        limit: Duration,
    },
    /// The connection broke in the middle of a reply.
    #[error("the reply of {url} broke off: {problem}")]
    BrokenOff {
        /// The endpoint.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// What came is no reply of this protocol.
    #[error("{url} does not speak the OpenAI protocol: {problem}")]
    NotTheProtocol {
        /// The endpoint.
        url: String,
        /// What came instead.
        problem: String,
    },
    /// A reply with nothing in it.
    #[error("{url} sent an empty reply: {problem}")]
    EmptyReply {
        /// The endpoint.
        url: String,
        /// What was missing.
        problem: String,
    },
    /// The settings cannot be used.
    #[error("the settings of the model: {0}")]
    Settings(String),
    /// A recording cannot be read or written.
    #[error("the recording {path}: {problem}")]
    Recording {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The request is not the one that was recorded.
    #[error("{path}: exchange {exchange} was recorded for another request:\n{difference}")]
    ReplayMismatch {
        /// The file.
        path: String,
        /// Which one, from 1.
        exchange: usize,
        /// What differs.
        difference: String,
    },
    /// The recording or the script has no more replies.
    #[error("{source_of_replies} has only {replies} replies, and one more was asked for")]
    NoMoreReplies {
        /// The recording or the script.
        source_of_replies: String,
        /// How many there are.
        replies: usize,
    },
    /// A model that breaks its word: its stream ended without a reply and without an error.
    #[error("the model's stream ended without a reply")]
    Unfinished,
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// For the connection.
    Connection,
    /// For the first byte of the reply.
    FirstByte,
    /// For the next part of a reply that had begun.
    NextPart,
    /// For the whole reply.
    WholeReply,
}

impl ModelError {
    /// Whether the same request may well succeed a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::BrokenOff { .. }
            | Self::EmptyReply { .. } => true,
            Self::Server { status, .. } => *status != 501,
            _ => false,
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connection => "the connection",
            Self::FirstByte => "the first byte of the reply",
            Self::NextPart => "the next part of a reply that had begun",
            Self::WholeReply => "the whole reply",
        })
    }
}
