//! Errors of tools, and failures of calls.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// An error of a tool: a message for the caller.
///
/// Every [`std::error::Error`] converts to it, with its sources, so `?` works in
/// [`Tool::call`](crate::Tool::call). For that reason `ToolError` itself does not implement `Error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError(message.into())
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_message(self) -> String {
        self.0
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl<E: Error> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        ToolError(message)
    }
}

/// Why a call has no result. A failure is the answer of the call; it never ends a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No tool has this name.
    #[error("there is no tool `{name}`; the tools are {known}")]
    UnknownTool {
        /// The name in the call, shortened.
        name: String,
        /// The names of all tools, joined by commas.
        known: String,
    },
    /// The arguments are no JSON object.
    #[error("the arguments of `{tool}` are not a JSON object: {problem}")]
    NotJson {
        /// The name of the tool.
        tool: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The arguments do not fit to the schema. The message names each field, the expected value and the given
    /// one.
    #[error("the arguments of `{tool}` do not fit: {problems}")]
    Invalid {
        /// The name of the tool.
        tool: String,
        /// The problems, joined by semicolons.
        problems: String,
    },
    /// The arguments or the result are too large.
    #[error("the {what} of `{tool}` would be {bytes} bytes, and at most {limit} are allowed")]
    TooLarge {
        /// The name of the tool.
        tool: String,
        /// `arguments` or `result`.
        what: &'static str,
        /// The size in bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The cell has made too many calls.
    #[error(
        "this cell has made {limit} tool calls, and more are not allowed; continue in another cell"
    )]
    TooManyCalls {
        /// The limit.
        limit: usize,
    },
    /// The tool returned this error.
    #[error("{0}")]
    Failed(String),
    /// The tool's code panicked.
    #[error("`{tool}` broke down: {message}")]
    Panicked {
        /// The name of the tool.
        tool: String,
        /// The message of the panic.
        message: String,
    },
    /// The call did not end within its time limit.
    #[error("`{tool}` did not answer within {} s and was given up", seconds(limit))]
    TimedOut {
        /// The name of the tool.
        tool: String,
        /// The time limit.
        limit: Duration,
    },
    /// The result does not fit to the tool's own schema.
    #[error("`{tool}` returned something that its own schema forbids: {problems}")]
    BadResult {
        /// The name of the tool.
        tool: String,
        /// What is wrong with the result.
        problems: String,
    },
    /// A person or the policy refused the call.
    #[error("`{tool}` was not run: {reason}")]
    Refused {
        /// The name of the tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// A person answered the model instead of running the tool.
    #[error("`{tool}` was not run; the user answers: {text}")]
    Answered {
        /// The name of the tool.
        tool: String,
        /// The person's answer.
        text: String,
    },
    /// The call was stopped before its end.
    #[error("`{tool}` was cancelled")]
    Cancelled {
        /// The name of the tool.
        tool: String,
    },
    /// Results are replayed, and no result was recorded for this call.
    #[error("nothing is recorded for this call of `{tool}`: {arguments}")]
    NotRecorded {
        /// The name of the tool.
        tool: String,
        /// The arguments, shortened.
        arguments: String,
    },
}

fn seconds(limit: &Duration) -> f64 {
    limit.as_secs_f64()
}
