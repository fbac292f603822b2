//! From a question to a checked answer: the loop of a model that acts through code and tools.
//!
//! An [`Agent`] has a [model](cellblock_model::Model), an [`Executor`] and tools. An executor is where code runs and tools are
//! called; the loop knows nothing else of them. An [`ActionFormat`] is how the model says what it wants done. A run ends with an
//! [`Outcome`], always; what happens on the way is told as [`RunEvent`]s.
#![forbid(unsafe_code)]

mod agent;
mod executor;
mod format;
mod nest;
mod prompt;
pub mod repair;
mod run;
mod run_store;
mod template;
mod verify;

pub use agent::{Agent, AgentBuilder, AgentError, CodeUse, Offer};
pub use executor::{
    Doing, Executor, ForkKind, LocalExecutor, NothingExecutor, RUN_CODE, Ran, Room, Setting, Wanted,
};
pub use format::{
    Action, ActionFormat, CallKind, Facts, Format, Glimpse, Growing, JsonFormat, Malformed,
    MarkdownFormat, NextStepFormat, Observation, ToolUse, ToolsFormat, Turn, XmlFormat,
};
pub use prompt::{Part, Prompt, fill};
pub use run::{
    Conversation, Done, Observer, Outcome, Past, PastCell, RunEvent, RunLimits, RunStatus, Scorer,
    Step,
};
pub use run_store::{
    ResumedRun, RunEnd, RunProgress, RunStart, RunStore, RunStoreError, RunWriter, StoredEvent,
    StoredRun,
};
pub use template::{Template, TemplateError};
pub use tokio_util::sync::CancellationToken;
pub use verify::{Difference, Verification};
