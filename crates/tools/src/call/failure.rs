//! Errors of tools, and failures of calls.

use cellblock_protocol::Locale;
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

impl Failure {
    /// The message in a language. What tools and people say themselves stays as it is.
    pub fn message(&self, locale: Locale) -> String {
        match locale {
            Locale::En => self.to_string(),
            Locale::Zh => self.in_chinese(),
        }
    }

    fn in_chinese(&self) -> String {
        match self {
            Failure::UnknownTool { name, known } => {
                format!("没有工具 `{name}`; 可用的工具是 {known}")
            }
            Failure::NotJson { tool, problem } => {
                format!("`{tool}` 的参数不是 JSON 对象: {problem}")
            }
            Failure::Invalid { tool, problems } => format!("`{tool}` 的参数不符合要求: {problems}"),
            Failure::TooLarge {
                tool, bytes, limit, ..
            } => format!("`{tool}` 的参数或结果有 {bytes} 字节, 最多允许 {limit} 字节"),
            Failure::TooManyCalls { limit } => {
                format!("此单元已调用工具 {limit} 次, 不能更多; 请在另一个单元中继续")
            }
            Failure::Failed(message) => message.clone(),
            Failure::Panicked { tool, message } => format!("`{tool}` 出现故障: {message}"),
            Failure::TimedOut { tool, limit } => {
                format!("`{tool}` 在 {} 秒内没有回答, 已放弃", seconds(limit))
            }
            Failure::BadResult { tool, problems } => {
                format!("`{tool}` 返回的结果不符合它自己的模式: {problems}")
            }
            Failure::Refused { tool, reason } => {
                format!("`{tool}` 没有运行: {}", reason_in_chinese(reason))
            }
            Failure::Answered { tool, text } => format!("`{tool}` 没有运行; 用户回答: {text}"),
            Failure::Cancelled { tool } => format!("`{tool}` 已取消"),
            Failure::NotRecorded { tool, arguments } => {
                format!("没有记录 `{tool}` 的这次调用: {arguments}")
            }
        }
    }
}

/// The reasons of the approval in Chinese. The words of a person stay as they are.
fn reason_in_chinese(reason: &str) -> String {
    match reason {
        FORBIDDEN => "配置禁止它".to_owned(),
        NO_PERSON => "它需要用户批准, 而这里无法询问用户".to_owned(),
        NOT_FROM_CODE => "会话中的代码不能调用它".to_owned(),
        REJECTED => "用户拒绝了".to_owned(),
        other => match other.strip_prefix(REJECTED) {
            Some(words) => format!("用户拒绝了{words}"),
            None => other.to_owned(),
        },
    }
}

/// Why a call is refused: the configuration has a rule.
pub(crate) const FORBIDDEN: &str = "the configuration forbids it";
/// Why a call is refused: a person would have to be asked.
pub(crate) const NO_PERSON: &str = "it needs a person's approval, and no person can be asked here";
/// Why a call is refused: the call would wait for the very cell that makes it.
pub(crate) const NOT_FROM_CODE: &str = "code in a session cannot call it";
/// Why a call is refused: a person said so. The reason of the person may follow.
pub(crate) const REJECTED: &str = "the user rejected it";

fn seconds(limit: &Duration) -> f64 {
    limit.as_secs_f64()
}
