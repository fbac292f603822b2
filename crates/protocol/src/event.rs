//! Events of a running cell.

use serde::{Deserialize, Serialize};

use crate::{CellResult, CheckpointState, MimeBundle, ProcessEnd, ProcessStream, ToolArguments};

/// Something that happens while a cell runs, as it happens: `{"event":"stdout","text":"2\n"}`.
///
/// The last event of a cell is `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
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
    Display {
        /// The forms of the display.
        mime: MimeBundle,
    },
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
    /// Between two cells: the safety net that the next cell has is another one than was told last, in a result or by this event.
    Checkpoint {
        /// The safety net as it is now.
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
