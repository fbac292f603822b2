//! Events of a running cell.

use serde::{Deserialize, Serialize};

use crate::{
    CellResult, CheckpointState, CommMessage, Display, ProcessEnd, ProcessStream, ToolArguments,
    WatchedChange,
};

/// Something that happens while a cell runs, as it happens: `{"event":"stdout","text":"2\n"}`.
///
/// The last event of a cell is `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A cell begins. Only for readers of all events of a session: the caller that started the cell knows.
    Begun {
        /// Its number.
        cell: u64,
        /// Its source.
        code: String,
    },
    /// The code wrote to standard output.
    Stdout {
        /// The text.
        text: String,
    },
    /// The code wrote to standard error.
    Stderr {
        /// The text.
        text: String,
    },
    /// The code showed something.
    Display(Display),
    /// The code took back what it showed.
    ClearOutput {
        /// Whether that happens only when the code shows something new.
        #[serde(default)]
        wait: bool,
    },
    /// A widget of the code has a message for its front end.
    Comm(CommMessage),
    /// The code called a tool and waits for `tool_result` with the same `call`.
    ToolCall {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// The arguments of the call; not yet validated.
        arguments: ToolArguments,
    },
    /// The code asked for a line of text and waits for `input` with the same `call`.
    InputRequest {
        /// The id of the request.
        call: String,
        /// The prompt.
        prompt: String,
        /// Whether the answer must not be shown while a person types it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        password: bool,
    },
    /// A thread wrote something after its cell had ended.
    Log {
        /// The text.
        text: String,
    },
    /// The head died and the session is back at a checkpoint.
    Restored {
        /// The cell after which that checkpoint was made; 0 for the beginning.
        checkpoint: u64,
    },
    /// Between two cells: the checkpoint under the next cell is not as it was told last, in a result or by this event.
    Checkpoint {
        /// The checkpoint under the next cell, as it is now.
        checkpoint: CheckpointState,
    },
    /// A process beside the interpreter wrote something.
    ProcOutput {
        /// The process.
        proc: String,
        /// To which stream it wrote.
        stream: ProcessStream,
        /// How many bytes it had written before, to all its streams.
        offset: u64,
        /// What it wrote, as base64.
        base64: String,
    },
    /// A process wrote more than the host holds while there was no reader: so many bytes are not there any more.
    ProcDropped {
        /// The process.
        proc: String,
        /// How many bytes.
        bytes: u64,
    },
    /// A process ended.
    ProcEnd {
        /// The process.
        proc: String,
        /// How it ended.
        #[serde(flatten)]
        end: ProcessEnd,
    },
    /// Something changed in a watched directory.
    Fs {
        /// The watch.
        watch: String,
        /// What changed.
        #[serde(flatten)]
        change: WatchedChange,
    },
    /// A watch is over: it was ended, or its session was.
    FsEnd {
        /// The watch.
        watch: String,
    },
    /// The cell is over.
    Result {
        /// All about it.
        result: Box<CellResult>,
    },
    /// The request could not be done.
    Error {
        /// The kind of the error, for programs: `busy`, `invalid`, `ended`, …
        code: String,
        /// The error in words, for people: what happened, and what to do.
        message: String,
    },
}

/// An event of a session with its number: `{"seq":7,"cell":2,"event":"stdout","text":"2\n"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// The number of the event, from 1. Events of one session are numbered without a hole.
    pub seq: u64,
    /// The cell that the event belongs to; absent for what happens between cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
