//! The events of a run. The terminal, a page and a log read the same events.

use super::{ActionResult, RunStatus};
use crate::format::Format;
use cellblock_model::{Reply, Request, Usage};
use cellblock_protocol::Event as CellEvent;
use cellblock_tools::RecordedCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// An event of a run. Its JSON is documented in `docs/agent.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// The run starts.
    Begun {
        /// The question.
        question: String,
        /// The name of the model.
        model: String,
        /// The action format.
        format: Format,
    },
    /// A run that was cut off is resumed.
    Resumed {
        /// The number of steps that were done before.
        steps: usize,
        /// The action format.
        format: Format,
    },
    /// The model is asked for a reply.
    Asked {
        /// The number of the step, from 1.
        step: usize,
        /// The estimated tokens of the request.
        tokens: u64,
        /// The request with its messages as they are sent. It is not part of the JSON, because it has the whole conversation; a
        /// [`RunWriter`](crate::RunWriter) keeps what is new in it.
        #[serde(skip)]
        request: Option<Arc<Request>>,
    },
    /// More of the model's reasoning before its reply.
    Reasoning {
        /// The text that is added.
        text: String,
    },
    /// More of the thought, while the reply is streamed.
    ThoughtPart {
        /// The text that is added.
        text: String,
    },
    /// More of the code, while the reply is streamed.
    CodePart {
        /// The text that is added.
        text: String,
    },
    /// The request failed and is sent again. Drop the parts of the reply that came before.
    Retrying {
        /// Why the request failed.
        reason: String,
    },
    /// The reply is complete. The event has all of it, so that the run can be resumed.
    Replied {
        /// The reply.
        reply: Box<Reply>,
        /// The milliseconds that the model took.
        ms: u64,
    },
    /// The best of several replies was chosen. It is the reply that [`Replied`](RunEvent::Replied) tells next.
    Candidates {
        /// The number of the step, from 1.
        step: usize,
        /// The index of the reply that was chosen.
        chosen: usize,
        /// The replies, in the order in which they were asked for.
        candidates: Vec<Candidate>,
    },
    /// The reply was read.
    Thought {
        /// The number of the step, from 1.
        step: usize,
        /// The thought of the model. May be empty.
        text: String,
    },
    /// The reply had to be repaired.
    Repaired {
        /// Descriptions of what was repaired.
        repairs: Vec<String>,
    },
    /// The reply could not be read, and the model is asked again.
    Malformed {
        /// The text that the model reads about it.
        problem: String,
    },
    /// Code is about to run.
    Code {
        /// The number of the step, from 1.
        step: usize,
        /// The code.
        code: String,
    },
    /// A tool is about to be called.
    Call {
        /// The number of the step, from 1.
        step: usize,
        /// The name of the tool.
        name: String,
        /// The arguments of the call.
        arguments: Value,
    },
    /// The running cell wrote or showed something, or called a tool.
    Cell {
        /// The event of the cell.
        #[serde(rename = "cell")]
        event: CellEvent,
    },
    /// A tool that the running cell called has answered.
    ToolAnswered {
        /// The name of the tool.
        name: String,
        /// Whether the call succeeded.
        ok: bool,
    },
    /// A tool outside the session has answered. The event has the call and its answer, so that a resumed run need not call it again.
    Recorded {
        /// The number of the step, from 1.
        step: usize,
        /// The number of the action in the step, from 0.
        #[serde(default)]
        action: usize,
        /// The call with its answer.
        call: Box<RecordedCall>,
    },
    /// A call waits for a person's approval.
    WaitingForApproval {
        /// The name of the tool.
        tool: String,
    },
    /// The plan changed.
    Plan {
        /// The number of the plan's version.
        version: usize,
        /// The tree as Markdown.
        markdown: String,
    },
    /// An action is over.
    Done {
        /// The number of the step, from 1.
        step: usize,
        /// The number of the action in the step, from 0.
        #[serde(default)]
        action: usize,
        /// The result of the action.
        done: Box<ActionResult>,
    },
    /// A note about the run, such as that the model repeats itself or that a tool is no longer offered.
    Note {
        /// The text.
        text: String,
    },
    /// The conversation was shortened to fit the model's context.
    Compacted {
        /// The estimated tokens before.
        before: u64,
        /// The estimated tokens after.
        after: u64,
    },
    /// The tokens that the run has used so far.
    Spent {
        /// The tokens of all replies together.
        usage: Usage,
    },
    /// There is an answer.
    Answer {
        /// The answer.
        answer: Value,
    },
    /// The run is over.
    Finished {
        /// How the run ended.
        status: RunStatus,
        /// Why there is no answer.
        message: Option<String>,
    },
    /// An event of the run of a template that this run called.
    Nested {
        /// The name of the template.
        name: String,
        /// The event of the nested run.
        inner: Box<RunEvent>,
    },
}

impl RunEvent {
    /// Whether it is a part of a reply or of output. The whole follows, so records leave it out.
    pub fn is_part(&self) -> bool {
        matches!(
            self,
            RunEvent::ThoughtPart { .. }
                | RunEvent::CodePart { .. }
                | RunEvent::Reasoning { .. }
                | RunEvent::Cell { .. }
        )
    }
}

/// One of several replies to the same request, and what became of it in its trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The thought of the model. May be empty.
    pub thought: String,
    /// The code of the reply. Empty if it has none.
    pub code: String,
    /// How the trial went.
    pub trial: Trial,
    /// What the last cell of the trial told the model, or the answer of a reply that answers. At most 2 000 characters.
    pub text: String,
}

/// How the trial of a reply went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// The reply cannot be read.
    Unreadable,
    /// The code failed.
    Failed,
    /// The code was not tried: there is none, or it calls a tool that a trial must not call.
    NotTried,
    /// The code succeeded.
    Succeeded,
}

/// Gets the events of a run. It is called while the run waits, so it must return quickly.
pub type Observer = Arc<dyn Fn(&RunEvent) + Send + Sync>;
