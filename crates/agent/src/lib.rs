//! From a question to a checked answer: the loop of a model that acts through code and tools.
//!
//! An [`Agent`] has a [model](cellblock_model::Model), an [`Executor`] and tools. The executor runs code and calls tools; the agent knows
//! sessions only through it. An [`ActionFormat`] is how the model says what to do. Every run ends with an [`Outcome`], and reports what
//! happens as [`RunEvent`]s. A [`RunStore`] keeps runs in files.
#![forbid(unsafe_code)]

mod agent;
mod builder;
mod executor;
mod format;
mod prompt;
pub mod repair;
mod run;
mod run_store;
mod template;
mod verify;

pub use agent::{Agent, AgentError, TemplateRun};
pub use builder::{AgentBuilder, CodeExecution, ToolOffer, Verify};
pub use executor::{
    BoxFuture, CellOutcome, CodeEnvironment, Executor, ExecutorOptions, ForkKind, LocalExecutor,
    NetworkWall, NoopExecutor, OpenExecutor, SessionRequest, WorkspaceChoice,
};
pub use format::{
    Action, ActionFormat, CallKind, Format, FormatContext, JsonFormat, MalformedReply,
    MarkdownFormat, NextStepFormat, Observation, PartialCall, PartialReply, PartialTurn, ToolUse,
    ToolsFormat, Turn, UnknownFormat, XmlFormat,
};
pub use prompt::{Prompt, PromptPart, UnknownPrompt};
pub use run::{
    ActionResult, Candidate, CompletedCell, Conversation, ConversationMemory, Observer, Outcome,
    RunBudget, RunEvent, RunLimits, RunStatus, Scorer, Step, Trial, UnfinishedRun,
};
pub use run_store::{
    ResumedRun, RunEnd, RunProgress, RunStart, RunStore, RunStoreError, RunWriter, StoredEvent,
    StoredRequest, StoredRun,
};
pub use template::{Template, TemplateError};
pub use tokio_util::sync::CancellationToken;
pub use verify::{Difference, Verification};
