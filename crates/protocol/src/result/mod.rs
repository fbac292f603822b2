//! The result of a cell, and each part of it: displays, error, changes, state.

pub(crate) mod cell_error;
pub(crate) mod changes;
pub(crate) mod display;
pub(crate) mod mime;
pub(crate) mod state;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json::duration::milliseconds;
use crate::{
    CellError, FileChanges, MimeBundle, StateAfterCell, Strategy, ToolArguments, VariableChanges,
};

/// Everything that is known about a cell after it ran: one shape in Rust, JSON, HTTP and MCP.
///
/// `status`, `exit_code` and `signal` come from the host's own sight of the process, never from the
/// guest. What the guest says (value, error, variables) is true only as far as its code is honest.
///
/// ```
/// use cellblock_protocol::{CellResult, Status};
///
/// /// What a program tells its user about a cell.
/// fn in_words(result: &CellResult) -> String {
///     match (&result.status, &result.error) {
///         (Status::Success, _) => result.repr().unwrap_or("done").to_owned(),
///         (Status::Timeout, _) => format!("stopped after {:.0?}", result.usage.wall),
///         (_, Some(error)) => format!("{}: {}", error.type_, error.value),
///         (status, None) => format!("{status}; the state is {}", result.state.outcome),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The session it ran in.
    pub session: String,
    /// The number of the cell, from 1; 0 is the session's `setup` code. Never used twice.
    pub cell: u64,
    /// The status of the cell.
    pub status: Status,
    /// The exit code of the interpreter when it ended by itself; null while it lives.
    pub exit_code: Option<i32>,
    /// The signal that ended the interpreter; null while it lives.
    pub signal: Option<i32>,
    /// Where a cell was when its time was over, as its session says: `line 6 of <cell 3>`. Left out where it could not be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
    /// The text of standard output: all of it, or its beginning when `truncated` says so.
    pub stdout: String,
    /// The text of standard error, bounded in the same way.
    pub stderr: String,
    /// Both streams in the order in which they were written.
    pub output: String,
    /// How much was left out of which stream; null when everything is here.
    pub truncated: Option<Truncated>,
    /// The value of the last expression; null when there is none or it is `None`.
    pub value: Option<CellValue>,
    /// The displays of the cell, in order.
    pub displays: Vec<MimeBundle>,
    /// The exception that ended the cell.
    pub error: Option<CellError>,
    /// The variables that are new, changed or gone.
    pub variables: VariableChanges,
    /// The files of the workspace that are new, changed or gone.
    pub files: FileChanges,
    /// The session's state after the cell.
    pub state: StateAfterCell,
    /// The time and memory that the cell took.
    pub usage: Usage,
    /// The tools that the code called, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The strategy of the session.
    pub strategy: Strategy,
    /// The backend that the session runs on.
    pub backend: Backend,
    /// The walls of the session, in the words of [`Isolation`](crate::Isolation): `full`, or `full without seccomp`.
    pub isolation: String,
    /// A gap in that protection, in one sentence ([`Rung::caveat`](crate::Rung::caveat)). Left out where there is
    /// nothing to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_note: Option<String>,
}

impl CellResult {
    /// The `repr` of the last expression's value. `None` if the cell ended in a statement, in `None`, or failed.
    pub fn repr(&self) -> Option<&str> {
        self.value.as_ref().map(|value| value.repr.as_str())
    }
}

/// How a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The cell ran to its end.
    Success,
    /// A Python exception ended it; the session goes on.
    Failure,
    /// The cell did not end in time and was stopped.
    Timeout,
    /// The interpreter ended under it.
    Crashed,
    /// The user stopped it.
    Interrupted,
}

impl Status {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
            Self::Crashed => "crashed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// One of the texts that a cell writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Both in true order.
    Output,
}

impl Stream {
    /// Every stream, in the order of the result's fields.
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Output];

    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Output => "output",
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// The streams that are not whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Set when `stdout` is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Cut>,
    /// Set when `stderr` is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Cut>,
    /// Set when `output` is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Cut>,
}

impl Truncated {
    /// `Some` when at least one stream is cut: what goes into [`CellResult::truncated`].
    pub fn any(stdout: Option<Cut>, stderr: Option<Cut>, output: Option<Cut>) -> Option<Self> {
        (stdout.is_some() || stderr.is_some() || output.is_some()).then_some(Self {
            stdout,
            stderr,
            output,
        })
    }
}

/// A stream of which only the beginning is in the result. In bytes, as all sizes are;
/// `read_output` with `offset = kept` goes on where the text in the result ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// How many bytes from the beginning are in the result.
    pub kept: u64,
    /// How many bytes follow that are not.
    pub left_out: u64,
}

/// The value of a cell's last expression.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellValue {
    /// `repr(value)`.
    pub repr: String,
    /// The other forms of the value, such as the HTML of a DataFrame.
    #[serde(default)]
    pub mime: MimeBundle,
}

/// The time and memory that a cell took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Time on the wall clock, without the time that tools waited for a person. In JSON: `wall_ms`, milliseconds.
    #[serde(rename = "wall_ms", with = "milliseconds")]
    pub wall: Duration,
    /// CPU time, user and system. In JSON: `cpu_ms`, milliseconds.
    #[serde(rename = "cpu_ms", with = "milliseconds")]
    pub cpu: Duration,
    /// The most memory the session held while the cell ran.
    pub peak_bytes: u64,
    /// Bytes written to standard output, kept or not.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, kept or not.
    pub stderr_bytes: u64,
}

/// One call of a host tool from inside the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call, unique in the session.
    pub call: String,
    /// The tool.
    pub name: String,
    /// The arguments of the call.
    pub arguments: ToolArguments,
    /// The time from the call to its answer. In JSON: `ms`, milliseconds.
    #[serde(rename = "ms", with = "milliseconds")]
    pub time: Duration,
    /// The outcome of the call.
    pub outcome: ToolOutcome,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolOutcome {
    /// The tool gave a result.
    Ok,
    /// The tool gave an error, which was raised in Python.
    Error,
    /// The cell ended before the answer came.
    Unanswered,
}

impl ToolOutcome {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Unanswered => "unanswered",
        }
    }
}

impl fmt::Display for ToolOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// The backend that a session runs on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Processes of this machine.
    #[default]
    Local,
    /// A container.
    Docker,
}

impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Local => "local",
            Self::Docker => "docker",
        })
    }
}
