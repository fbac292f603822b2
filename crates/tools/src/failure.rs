//! What can go wrong in a call.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a tool could not do what it was asked: a message for whoever called.
///
/// Every error of the standard kind turns into one, so `?` works in [`call`](crate::Tool::call).
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

/// Not for `ToolError` itself, which is no `Error` for that reason.
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

/// Why a call has no output. It is the answer of the call, never the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// There is no such tool.
    #[error("there is no tool `{name}`; the tools are {known}")]
    UnknownTool {
        /// What was asked for, shortened.
        name: String,
        /// The names of all tools, joined by commas.
        known: String,
    },
    /// The arguments are no JSON object.
    #[error("the arguments of `{tool}` are not a JSON object: {problem}")]
    NotJson {
        /// Of which tool.
        tool: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The arguments do not fit the schema: names each field, what was expected and what came.
    #[error("the arguments of `{tool}` do not fit: {problems}")]
    Invalid {
        /// Of which tool.
        tool: String,
        /// One or more, joined by semicolons.
        problems: String,
    },
    /// More bytes than one call may carry.
    #[error("the {what} of `{tool}` would be {bytes} bytes, and at most {limit} are allowed")]
    TooLarge {
        /// Of which tool.
        tool: String,
        /// `arguments` or `result`.
        what: &'static str,
        /// How many.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// More calls than one cell may make.
    #[error(
        "this cell has made {limit} tool calls, and more are not allowed; continue in another cell"
    )]
    TooManyCalls {
        /// The most.
        limit: usize,
    },
    /// The tool said so itself.
    #[error("{0}")]
    Failed(String),
    /// The tool's own code broke.
    #[error("`{tool}` broke down: {message}")]
    Panicked {
        /// Which tool.
        tool: String,
        /// What the panic said.
        message: String,
    },
    /// It did not end in time.
    #[error("`{tool}` did not answer within {} s and was given up", seconds(limit))]
    TimedOut {
        /// Which tool.
        tool: String,
        /// How long it had.
        limit: Duration,
    },
    /// The result does not fit what the tool promises.
    #[error("`{tool}` returned something that its own schema forbids: {problems}")]
    BadResult {
        /// Which tool.
        tool: String,
        /// What is wrong with it.
        problems: String,
    },
    /// A person, or the policy, did not let it run.
    #[error("`{tool}` was not run: {reason}")]
    Refused {
        /// Which tool.
        tool: String,
        /// Why not.
        reason: String,
    },
    /// A person answered instead of letting it run.
    #[error("`{tool}` was not run; the user answers: {text}")]
    Answered {
        /// Which tool.
        tool: String,
        /// What the person says to the model.
        text: String,
    },
    /// It was stopped before its end.
    #[error("`{tool}` was cancelled")]
    Cancelled {
        /// Which tool.
        tool: String,
    },
    /// A run that replays recorded results made a call that was not recorded.
    #[error("nothing is recorded for this call of `{tool}`: {arguments}")]
    NotRecorded {
        /// Which tool.
        tool: String,
        /// What it was given, shortened.
        arguments: String,
    },
}

fn seconds(limit: &Duration) -> f64 {
    limit.as_secs_f64()
}
