//! What happens in a run, as it happens. The terminal, a page and a log are readers of the same events.

use super::{Done, RunStatus};
use crate::format::Format;
use cellblock_model::{Reply, Usage};
use cellblock_protocol::Event as CellEvent;
use cellblock_tools::RecordedCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Something that happened in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// The run begins.
    Begun {
        /// The question.
        question: String,
        /// The model.
        model: String,
        /// How it acts.
        format: Format,
    },
    /// A run that was cut off goes on.
    Resumed {
        /// The steps that were done before.
        steps: usize,
        /// How the model acts.
        format: Format,
    },
    /// The model is asked.
    Asked {
        /// For which step.
        step: usize,
        /// About how many tokens the request has.
        tokens: u64,
    },
    /// More of what the model reasons before its reply.
    Reasoning {
        /// The text.
        text: String,
    },
    /// More of the thought, while the reply still comes.
    ThoughtPart {
        /// The text.
        text: String,
    },
    /// More of the code, while the reply still comes.
    CodePart {
        /// The text.
        text: String,
    },
    /// What was shown of the reply so far is void: it is asked again.
    Retrying {
        /// Why.
        reason: String,
    },
    /// The reply is there, as it came: enough to take the conversation up again.
    Replied {
        /// The reply.
        reply: Box<Reply>,
        /// How long the model took.
        ms: u64,
    },
    /// The reply can be read.
    Thought {
        /// Of which step.
        step: usize,
        /// What the model thinks; may be empty.
        text: String,
    },
    /// The reply had to be repaired.
    Repaired {
        /// What was wrong, in words.
        repairs: Vec<String>,
    },
    /// The reply could not be read, and the model is asked again.
    Malformed {
        /// What it is told.
        problem: String,
    },
    /// Code is about to run.
    Code {
        /// In which step.
        step: usize,
        /// The code.
        code: String,
    },
    /// A tool is about to be called.
    Call {
        /// In which step.
        step: usize,
        /// The tool.
        name: String,
        /// What it is given.
        arguments: Value,
    },
    /// The running cell wrote or showed something, or called a tool.
    Cell {
        /// What.
        #[serde(rename = "cell")]
        event: CellEvent,
    },
    /// A tool that the running cell called has answered.
    ToolAnswered {
        /// The tool.
        name: String,
        /// Whether it has a result.
        ok: bool,
    },
    /// Something outside of the session was called and has answered: enough to give the answer again.
    Recorded {
        /// In which step.
        step: usize,
        /// By which action of it, from 0.
        #[serde(default)]
        action: usize,
        /// The call with its answer.
        call: Box<RecordedCall>,
    },
    /// Something waits for a person.
    WaitingForApproval {
        /// The tool.
        tool: String,
    },
    /// The plan changed.
    Plan {
        /// The number of its version.
        version: usize,
        /// The tree as Markdown.
        markdown: String,
    },
    /// An action is over.
    Done {
        /// In which step.
        step: usize,
        /// Which action of it, from 0.
        #[serde(default)]
        action: usize,
        /// What came of it.
        done: Box<Done>,
    },
    /// A remark: that the model was told it repeats itself, that a tool is no longer offered.
    Note {
        /// The text.
        text: String,
    },
    /// The conversation was shortened.
    Compacted {
        /// About how many tokens it had.
        before: u64,
        /// About how many it has.
        after: u64,
    },
    /// The tokens so far.
    Spent {
        /// Of all replies together.
        usage: Usage,
    },
    /// There is an answer.
    Answer {
        /// The answer.
        answer: Value,
    },
    /// The run is over.
    Finished {
        /// How it ended.
        status: RunStatus,
        /// Why, where it has no answer.
        message: Option<String>,
    },
    /// Something happened in a run that this run began.
    Nested {
        /// The template.
        name: String,
        /// What.
        inner: Box<RunEvent>,
    },
}

/// Who watches a run. It is called on the way and must be quick.
pub type Observer = Arc<dyn Fn(&RunEvent) + Send + Sync>;
