//! The records of a journal, one a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{
    CellResult, Seed, SessionOptions, ToolArguments, ToolSpec,
    duration_json::{milliseconds, optional_seconds},
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The form of the records. A reader refuses what is newer than itself.
pub const VERSION: u32 = 1;

/// One line of a journal.
pub type JournalLine = cellblock_records::RecordLine<JournalRecord>;

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum JournalRecord {
    /// The session began. Always the first.
    Opened(Box<OpenedRecord>),
    /// A cell began. When no `ended` follows, the host died while it ran.
    Begun {
        /// The number of the cell.
        cell: u64,
        /// The source of the cell.
        code: String,
        /// The cell's own time limit. In JSON: seconds.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            with = "optional_seconds"
        )]
        timeout: Option<Duration>,
        /// Whether the cell is atomic, where it says so itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        atomic: Option<bool>,
        /// Variables of the environment of this cell alone.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// Whether its value was not looked at.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        silent: bool,
        /// Whether its value was kept as `_`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep_value: bool,
        /// The idempotency key of the request for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A cell ended.
    Ended(Box<EndedRecord>),
    /// Variables were bound.
    Seeded {
        /// The variables.
        variables: Seed,
    },
    /// Other tools were offered.
    Tools {
        /// All of them.
        tools: Vec<ToolSpec>,
    },
    /// All variables were forgotten.
    Reset,
    /// The host wrote a file of the workspace.
    PutFile {
        /// Relative to the workspace.
        path: String,
        /// How long it is.
        bytes: u64,
        /// The bytes of the file; absent where they were too many to be kept.
        #[serde(with = "base64_text", default, rename = "base64")]
        contents: Option<Arc<Vec<u8>>>,
    },
    /// Cells were taken back.
    Undone {
        /// How many.
        count: u64,
        /// The cell after which the state stood then; 0 for the beginning.
        stands: u64,
    },
    /// The head died between two cells, and the session went back to a checkpoint.
    Restored {
        /// The cell after which the state stood then.
        stands: u64,
    },
    /// All that is above happened in another session, of which this one is a fork.
    Forked {
        /// The id of this session.
        session: String,
        /// The id of the other.
        from: String,
        /// The cell after which they parted.
        cell: u64,
        /// The workspace of the fork.
        workspace: PathBuf,
    },
    /// The journal stopped: later records could not be written.
    Stopped {
        /// Why.
        reason: String,
    },
    /// The session is over.
    Closed {
        /// Why.
        reason: String,
    },
}

/// How a session began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenedRecord {
    /// The form of the records.
    pub version: u32,
    /// The version of Cellblock.
    pub cellblock: String,
    /// The session's id.
    pub session: String,
    /// The options of the session.
    pub options: SessionOptions,
    /// The workspace, as the host calls it.
    pub workspace: PathBuf,
    /// Whether nothing was there then: such a workspace can be made again.
    pub workspace_was_empty: bool,
    /// The Python that it ran on.
    pub python: PythonUsed,
    /// Behind which walls, in the words of a result.
    pub isolation: String,
    /// The process id of the host.
    pub pid: u32,
}

/// The Python of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonUsed {
    /// The path of the interpreter.
    pub executable: PathBuf,
    /// The version, such as `3.12.1`.
    pub version: String,
    /// Whether the Python had packages besides the standard library.
    pub packages: bool,
}

/// How a cell ended, with all that came to it from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedRecord {
    /// The number of the cell.
    pub cell: u64,
    /// The cell after which the state stood then: this one, when it was kept.
    pub stands: u64,
    /// The result. Long texts are cut; `tool_calls` are below instead, and put back when a journal is read.
    pub result: CellResult,
    /// The tools that the code called, in order, with what they answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RecordedCall>,
    /// The requests for input of the code, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<RecordedInput>,
    /// The parts that were too large to be kept, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The tool.
    pub name: String,
    /// The arguments of the call.
    pub arguments: ToolArguments,
    /// The time from the call to its answer. In JSON: `ms`, milliseconds.
    #[serde(rename = "ms", with = "milliseconds")]
    pub time: Duration,
    /// The answer.
    pub outcome: CallOutcome,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The tool gave this value.
    Result(Value),
    /// The tool failed with this message.
    Error(String),
    /// The tool gave a value that was too large to be kept: about this many bytes.
    NotKept(u64),
    /// The cell ended before the answer came.
    Unanswered,
}

/// One question of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedInput {
    /// The prompt.
    pub prompt: String,
    /// The answer.
    pub answer: InputAnswer,
}

/// The answer to a request for input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputAnswer {
    /// The text.
    Text(String),
    /// Nothing, and why.
    Error(String),
}

mod base64_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        contents: &Option<Arc<Vec<u8>>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = contents
            .as_ref()
            .map(|contents| STANDARD.encode(&**contents));
        text.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Vec<u8>>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let decode = |text: String| {
            STANDARD
                .decode(text)
                .map(Arc::new)
                .map_err(D::Error::custom)
        };
        text.map(decode).transpose()
    }
}
