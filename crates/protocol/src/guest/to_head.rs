//! Messages from the host to the head.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::guest::codec::{CodecError, MAX_FRAME_TO_HEAD, encode};
use crate::{Detail, Script, Seed, ToolSpec};

/// A frame from the host to the head.
///
/// Operations with a `seq` are answered by [`FromHead::Reply`](super::FromHead::Reply) with the same `seq`;
/// `run` by [`FromHead::Done`](super::FromHead::Done) with the same `cell`; the rest by nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "the fields are the pipe's, which explains them"
)]
pub enum ToHead {
    /// Run a cell.
    Run {
        cell: u64,
        code: String,
        /// The script that this code is.
        #[serde(skip_serializing_if = "Option::is_none")]
        script: Option<Script>,
        /// Variables of the environment of this cell alone.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// The value of the last expression is not looked at.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        silent: bool,
        /// The value of the last expression is `_` from now on.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        keep_value: bool,
        /// The number of the cell in a notebook, where it has one of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// Answer questions while it runs.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        watched: bool,
    },
    /// Bind variables and modules.
    Seed {
        seq: u64,
        variables: Seed,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        imports: Vec<String>,
        /// Variables of the environment, where this session's differ from the zygote's.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        environment: Vec<(String, String)>,
        /// How the global generators of random numbers begin.
        #[serde(skip_serializing_if = "Option::is_none")]
        random: Option<u32>,
    },
    /// List the variables.
    Vars { seq: u64 },
    /// Look at one variable.
    Inspect { seq: u64, name: String },
    /// Say what can stand at a cursor. Positions are in code points.
    Complete { seq: u64, code: String, pos: u64 },
    /// Describe what stands at a cursor.
    InspectAt {
        seq: u64,
        code: String,
        pos: u64,
        detail: Detail,
    },
    /// Say whether source text needs more lines.
    IsComplete { seq: u64, code: String },
    /// Evaluate one expression in a throw-away fork.
    Compute {
        seq: u64,
        code: String,
        description: String,
        /// How long it may take.
        seconds: f64,
        /// How many bytes of memory it may add.
        memory: u64,
    },
    /// Offer these host tools, and no others.
    Tools { seq: u64, tools: Vec<ToolSpec> },
    /// Forget all variables.
    Reset { seq: u64 },
    /// The files are as they were when a standby, which was woken, was made: it puts right what leads to them.
    Settle {
        seq: u64,
        /// What an earlier one, which had the same state and left this one behind, could not put right.
        #[serde(skip_serializing_if = "NamedLosses::is_empty")]
        named: NamedLosses,
    },
    /// Run these cells again, which ran after the standby was made that this head was.
    Repeat {
        seq: u64,
        cells: Vec<RepeatableCell>,
    },
    /// Make a standby, which will serve the socket that comes along. The answer says which process it is.
    Arm {
        seq: u64,
        /// A cell is waiting for it.
        cell_waits: bool,
    },
    /// Makes the packages in these directories importable from now on.
    Paths { paths: Vec<String> },
    /// A signal comes that is meant for this cell.
    Interrupt { cell: u64 },
    /// Make a copy that becomes the head of a fork, which init has prepared. The copy greets on its own channel.
    Fork { seq: u64 },
    /// Answer a tool call: `{"result": …}` or `{"error": …}`.
    ToolResult {
        call: String,
        #[serde(flatten, serialize_with = "result_or_error")]
        outcome: Result<Value, String>,
    },
    /// Answer a tool call with what is no JSON: `{"content": [{"text": …}, {"id": …, "mime": …, "base64": …}]}`.
    ToolContent {
        call: String,
        content: Vec<ToolContent>,
    },
    /// Answer a request for input: `{"text": …}` or `{"error": …}`.
    Input {
        call: String,
        #[serde(flatten, serialize_with = "text_or_error")]
        outcome: Result<String, String>,
    },
}

/// A cell that does the same whenever it is run from the same state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatableCell {
    /// Its number.
    pub cell: u64,
    /// Its source.
    pub code: String,
    /// The value of the last expression is `_` from then on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_value: bool,
    /// The number of the cell in a notebook, where it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// What a head that was woken could not put right: a descriptor or a pool, and a mark that is the same as long as its state is. Only the guest
/// reads it.
pub type NamedLosses = BTreeMap<String, i64>;

/// One piece of the answer to a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ToolContent {
    /// A text: a `str` in Python.
    Text {
        /// The text.
        text: String,
    },
    /// Anything else: a handle in Python.
    Blob {
        /// The id that stands in the marker, which is the text form of the content.
        id: String,
        /// The MIME type.
        mime: String,
        /// The bytes, in base64.
        base64: String,
    },
}

impl ToHead {
    /// Returns the operation with another number, so that it can be asked once more. A frame without a number stays as it is.
    pub fn with_seq(&self, number: u64) -> ToHead {
        let mut again = self.clone();
        if let ToHead::Seed { seq, .. }
        | ToHead::Vars { seq }
        | ToHead::Inspect { seq, .. }
        | ToHead::Complete { seq, .. }
        | ToHead::InspectAt { seq, .. }
        | ToHead::IsComplete { seq, .. }
        | ToHead::Compute { seq, .. }
        | ToHead::Tools { seq, .. }
        | ToHead::Reset { seq }
        | ToHead::Arm { seq, .. }
        | ToHead::Fork { seq } = &mut again
        {
            *seq = number;
        }
        again
    }

    /// The frame, ready to be written.
    pub fn to_frame(&self) -> Result<Vec<u8>, CodecError> {
        // Maps with text keys and plain values: serialising them cannot fail. Were it to, the empty
        // body is refused below.
        let body = serde_json::to_vec(self).unwrap_or_default();
        encode(&body, MAX_FRAME_TO_HEAD)
    }
}

fn result_or_error<S: Serializer>(
    outcome: &Result<Value, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    one_entry("result", outcome, serializer)
}

fn text_or_error<S: Serializer>(
    outcome: &Result<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    one_entry("text", outcome, serializer)
}

fn one_entry<T: Serialize, S: Serializer>(
    good: &'static str,
    outcome: &Result<T, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    match outcome {
        Ok(value) => map.serialize_entry(good, value)?,
        Err(message) => map.serialize_entry("error", message)?,
    }
    map.end()
}
