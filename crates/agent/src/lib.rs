//! From a question to a checked answer: the loop of a model that acts through code and tools.
//!
//! An [`Executor`] is where code runs and tools are called; the loop knows nothing else of them. An [`ActionFormat`] is how a model
//! says what it wants done.
#![forbid(unsafe_code)]

mod executor;
mod format;
mod prompt;
pub mod repair;

pub use executor::{Doing, Executor, LocalExecutor, NothingExecutor, RUN_CODE, Ran, Room, Setting};
pub use format::{
    Action, ActionFormat, CallKind, Facts, Format, Glimpse, Growing, JsonFormat, Malformed,
    MarkdownFormat, NextStepFormat, Observation, ToolUse, ToolsFormat, Turn, XmlFormat,
};
pub use prompt::{Part, Prompt, fill};
