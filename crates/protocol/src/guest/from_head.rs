use serde::Deserialize;
use serde_json::{Map, Value};

use super::bounds::{self, Bound as _};
use super::reply::Reply;
use crate::mime::add_plain_text;
use crate::{CellError, CellValue, MimeBundle, Stream, VariableChanges};

/// What the head tells the host. A claim, not evidence: how a cell ended is the host's own to find out.
#[derive(Debug, Clone, PartialEq)]
pub enum FromHead {
    /// The interpreter is up.
    Ready {
        /// The frozen copy of itself that it left when it was woken.
        standby: Option<u32>,
    },
    /// The code shows something.
    Display {
        /// Its forms.
        mime: MimeBundle,
    },
    /// The code calls a host tool.
    ToolCall {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// What it is given.
        arguments: Map<String, Value>,
    },
    /// The code asks for a line of text.
    InputRequest {
        /// The id of the request.
        call: String,
        /// What to ask.
        prompt: String,
    },
    /// The code wants to read what an earlier cell wrote; answered like a tool call.
    OutputRequest {
        /// The id of the request.
        call: String,
        /// Which cell.
        cell: u64,
        /// Which of its texts.
        stream: Stream,
        /// From which byte on.
        offset: u64,
        /// How many bytes at most.
        length: u64,
    },
    /// A thread of an earlier cell wrote something.
    Log {
        /// What it wrote.
        text: String,
    },
    /// The answer to an operation.
    Reply(Reply),
    /// A cell has run to its end.
    Done(Box<Done>),
}

/// What the head says of a cell that has run to its end.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Done {
    /// The cell that was asked for.
    pub cell: u64,
    /// Whether it ended without an exception.
    pub ok: bool,
    /// The value of its last expression.
    #[serde(default)]
    pub value: Option<CellValue>,
    /// The exception that ended it.
    #[serde(default)]
    pub error: Option<CellError>,
    /// What it did to the variables.
    #[serde(default)]
    pub variables: VariableChanges,
    /// It cannot have changed anything, so a checkpoint from before it is as good as one from after.
    #[serde(default)]
    pub pure: bool,
    /// Milliseconds of CPU.
    #[serde(default)]
    pub cpu_ms: f64,
    /// The most memory it held.
    #[serde(default)]
    pub peak_bytes: u64,
}

impl FromHead {
    /// Reads the body of a frame and cuts every text and list in it down to its bound.
    ///
    /// Cut, not refused: a session with twenty thousand variables is no attack and must not end for it.
    /// Refused is what no honest guest sends.
    pub fn parse(body: &[u8]) -> Result<Self, HeadError> {
        bounds::check_nodes(body)?;
        let frame: Raw = serde_json::from_slice(body)
            .map_err(|error| HeadError::Malformed(error.to_string()))?;
        frame.checked()
    }
}

/// Why a frame from the head cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Not JSON, or not of the agreed shape.
    #[error("the head sent a malformed frame: {0}")]
    Malformed(String),
    /// So many small values that reading them would take far more memory than the frame itself.
    #[error("the head sent a frame of more than {max} values")]
    TooManyValues {
        /// The most that are read.
        max: usize,
    },
    /// An id that cannot be one.
    #[error("the head sent a frame whose `{field}` is no id")]
    BadId {
        /// The field.
        field: &'static str,
    },
    /// The operation itself failed, in the guest's words.
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
enum Raw {
    Ready {
        #[serde(default)]
        standby: u32,
    },
    Display {
        mime: MimeBundle,
    },
    ToolCall {
        call: String,
        name: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    },
    InputRequest {
        call: String,
        #[serde(default)]
        prompt: String,
    },
    OutputRequest {
        call: String,
        cell: u64,
        stream: Stream,
        offset: u64,
        length: u64,
    },
    Log {
        text: String,
    },
    Answer {
        seq: u64,
        #[serde(flatten)]
        fields: Map<String, Value>,
    },
    Done(Box<Done>),
}

impl Raw {
    fn checked(self) -> Result<FromHead, HeadError> {
        Ok(match self {
            Self::Ready { standby } => FromHead::Ready {
                standby: (standby > 0).then_some(standby),
            },
            Self::Display { mut mime } => {
                mime.bound();
                FromHead::Display { mime }
            }
            Self::ToolCall {
                call,
                name,
                arguments,
            } => FromHead::ToolCall {
                call: bounds::id("call", call)?,
                name: bounds::id("name", name)?,
                arguments,
            },
            Self::Log { mut text } => {
                bounds::cut(&mut text, bounds::REPR);
                FromHead::Log { text }
            }
            Self::OutputRequest {
                call,
                cell,
                stream,
                offset,
                length,
            } => FromHead::OutputRequest {
                call: bounds::id("call", call)?,
                cell,
                stream,
                offset,
                length,
            },
            Self::InputRequest { call, mut prompt } => {
                bounds::cut(&mut prompt, bounds::TEXT);
                FromHead::InputRequest {
                    call: bounds::id("call", call)?,
                    prompt,
                }
            }
            Self::Answer { seq, fields } => FromHead::Reply(Reply::new(seq, fields)),
            Self::Done(mut done) => {
                done.bound();
                if let Some(value) = &mut done.value {
                    add_plain_text(&mut value.mime, &value.repr);
                }
                FromHead::Done(done)
            }
        })
    }
}
