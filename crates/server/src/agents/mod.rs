//! Runs of the agent: questions of users, answered in sessions of theirs.

mod approvals;
mod chat;
mod client_tools;
mod events;
mod export;
mod given_files;
mod live_run;
mod queued;
mod setup;
mod start;

pub(crate) use chat::Chats;
pub(crate) use export::{ExportKind, export};
pub(crate) use given_files::{GivenFile, GivenFiles};
pub(crate) use live_run::{LiveRun, LiveRuns};
pub(crate) use queued::QueuedRun;
pub use setup::AgentSetup;
pub(crate) use start::{Question, QuestionTask, check_question};
