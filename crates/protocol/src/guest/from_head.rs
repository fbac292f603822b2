//! Messages from the head to the host.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;

use crate::json::duration::milliseconds;

use super::bounds::{self, Bound as _};
use super::reply::Reply;
use crate::result::mime::add_plain_text;
use crate::{CellError, CellValue, CommMessage, Display, Stream, ToolArguments, VariableChanges};

/// A frame from the head to the host. A claim, not evidence: how a cell ended is the host's own to find out.
#[derive(Debug, Clone, PartialEq)]
pub enum FromHead {
    /// The interpreter is up.
    Ready {
        /// The frozen copy of itself that it left when it was woken.
        standby: Option<u32>,
        /// In a fork: what it does not have of its parent, each with its reason.
        not_copied: Vec<String>,
    },
    /// The code shows something.
    Display(Display),
    /// The code takes back what it showed.
    ClearOutput {
        /// Whether only when it shows something new.
        wait: bool,
    },
    /// A widget has a message for its front end.
    Comm(CommMessage),
    /// The code calls a host tool.
    ToolCall {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// The arguments of the call.
        arguments: ToolArguments,
    },
    /// The code asks for a line of text.
    InputRequest {
        /// The id of the request.
        call: String,
        /// The prompt.
        prompt: String,
        /// Whether the answer is a secret.
        password: bool,
    },
    /// The code wants to read what an earlier cell wrote; answered like a tool call.
    OutputRequest {
        /// The id of the request.
        call: String,
        /// The cell whose output is asked for.
        cell: u64,
        /// The stream that is asked for.
        stream: Stream,
        /// From which byte on.
        offset: u64,
        /// How many bytes at most.
        length: u64,
    },
    /// A thread of an earlier cell wrote something.
    Log {
        /// The text.
        text: String,
    },
    /// The answer to an operation.
    Reply(Reply),
    /// A cell has run to its end.
    Done(Box<Done>),
}

/// The head's report of a cell that has run to its end.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Done {
    /// The cell that was asked for.
    pub cell: u64,
    /// Whether the cell ended without an exception.
    pub ok: bool,
    /// The value of its last expression.
    #[serde(default)]
    pub value: Option<CellValue>,
    /// The exception that ended it.
    #[serde(default)]
    pub error: Option<CellError>,
    /// The variables that the cell changed.
    #[serde(default)]
    pub variables: VariableChanges,
    /// Whether the cell cannot have changed anything, so that a checkpoint from before it is as good as one from after.
    #[serde(default)]
    pub pure: bool,
    /// Whether the cell does the same when it is run again from the same state, and takes next to no time.
    #[serde(default)]
    pub repeatable: bool,
    /// CPU time. In JSON: `cpu_ms`, milliseconds.
    #[serde(rename = "cpu_ms", default, with = "milliseconds")]
    pub cpu: Duration,
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
        let text = bounds::frame_text(body)?;
        Ok(match kind_of(text)? {
            FrameKind::Ready => {
                let ReadyFrame {
                    standby,
                    mut not_copied,
                } = read(text)?;
                bounds::bound_reasons(&mut not_copied);
                Self::Ready {
                    standby: (standby > 0).then_some(standby),
                    not_copied,
                }
            }
            FrameKind::Display => {
                let mut display: Display = read(text)?;
                display.mime.bound();
                let id = display.display_id.take();
                display.display_id = id.map(|id| bounds::id("display_id", id)).transpose()?;
                Self::Display(display)
            }
            FrameKind::ClearOutput => {
                let ClearOutputFrame { wait } = read(text)?;
                Self::ClearOutput { wait }
            }
            FrameKind::Comm => {
                let mut message: CommMessage = read(text)?;
                message.comm = bounds::id("comm", message.comm)?;
                let target = message.target.take();
                message.target = target.map(|name| bounds::id("target", name)).transpose()?;
                message.buffers.truncate(CommMessage::MAX_BUFFERS);
                Self::Comm(message)
            }
            FrameKind::ToolCall => {
                let ToolCallFrame {
                    call,
                    name,
                    arguments,
                } = read(text)?;
                Self::ToolCall {
                    call: bounds::id("call", call)?,
                    name: bounds::id("name", name)?,
                    arguments,
                }
            }
            FrameKind::InputRequest => {
                let InputRequestFrame {
                    call,
                    mut prompt,
                    password,
                } = read(text)?;
                bounds::cut(&mut prompt, bounds::TEXT);
                Self::InputRequest {
                    call: bounds::id("call", call)?,
                    prompt,
                    password,
                }
            }
            FrameKind::OutputRequest => {
                let OutputRequestFrame {
                    call,
                    cell,
                    stream,
                    offset,
                    length,
                } = read(text)?;
                Self::OutputRequest {
                    call: bounds::id("call", call)?,
                    cell,
                    stream,
                    offset,
                    length,
                }
            }
            FrameKind::Log => {
                let LogFrame { mut text } = read(text)?;
                bounds::cut(&mut text, bounds::REPR);
                Self::Log { text }
            }
            FrameKind::Answer => {
                let AnswerFrame { seq } = read(text)?;
                Self::Reply(Reply::new(seq, text))
            }
            FrameKind::Done => {
                let mut done: Box<Done> = read(text)?;
                done.bound();
                if let Some(value) = &mut done.value {
                    add_plain_text(&mut value.mime, &value.repr);
                }
                Self::Done(done)
            }
        })
    }
}

/// Why a frame from the head cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Not JSON, or not of the agreed shape.
    #[error("the head sent a malformed frame: {0}")]
    Malformed(String),
    /// So many small values that they would take far more memory than the frame itself.
    #[error("the head sent a frame that takes more than {} MiB of memory when it is parsed", max >> 20)]
    TooMuchMemory {
        /// The most bytes of memory that a frame may take.
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

/// Reads the kind of a frame.
///
/// It is read first, and alone: serde's own tagged enums would keep all other fields as values until they have found the tag.
fn kind_of(text: &str) -> Result<FrameKind, HeadError> {
    #[derive(Deserialize)]
    struct Tag {
        t: FrameKind,
    }
    // The guest puts the tag in front, so that the rest need not be passed over.
    let first = text
        .strip_prefix(r#"{"t":""#)
        .and_then(|rest| rest.split_once('"'));
    let known = first.and_then(|(word, _)| {
        let word: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
        FrameKind::deserialize(word).ok()
    });
    match known {
        Some(kind) => Ok(kind),
        None => read(text).map(|Tag { t }| t),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FrameKind {
    Ready,
    Display,
    ClearOutput,
    Comm,
    ToolCall,
    InputRequest,
    OutputRequest,
    Log,
    Answer,
    Done,
}

#[derive(Deserialize)]
struct ReadyFrame {
    #[serde(default)]
    standby: u32,
    #[serde(default)]
    not_copied: Vec<String>,
}

#[derive(Deserialize)]
struct ClearOutputFrame {
    #[serde(default)]
    wait: bool,
}

#[derive(Deserialize)]
struct ToolCallFrame {
    call: String,
    name: String,
    #[serde(default)]
    arguments: ToolArguments,
}

#[derive(Deserialize)]
struct InputRequestFrame {
    call: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    password: bool,
}

#[derive(Deserialize)]
struct OutputRequestFrame {
    call: String,
    cell: u64,
    stream: Stream,
    offset: u64,
    length: u64,
}

#[derive(Deserialize)]
struct LogFrame {
    text: String,
}

#[derive(Deserialize)]
struct AnswerFrame {
    seq: u64,
}

/// Reads the fields of one shape; others are passed over.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, HeadError> {
    serde_json::from_str(text).map_err(|error| HeadError::Malformed(error.to_string()))
}
