//! Questions about source text that an editor asks: what can stand at a cursor, what stands there, and whether it is complete.

use serde::{Deserialize, Serialize};

use crate::MimeBundle;
use crate::cell::MAX_CODE_BYTES;
use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown};

/// The most bytes of source text that a question may be about. Python reads it with every question.
pub const MAX_QUESTION_BYTES: usize = 1 << 20;

/// Source text and a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The source text. It need not be complete.
    pub code: String,
    /// The place of the cursor, in code points from the beginning. Beyond the end it is the end.
    pub pos: u64,
}

impl Cursor {
    /// A cursor at `pos` code points from the beginning of `code`.
    pub fn new(code: impl Into<String>, pos: u64) -> Self {
        Self {
            code: code.into(),
            pos,
        }
    }

    /// A cursor at the end of `code`.
    pub fn at_end(code: impl Into<String>) -> Self {
        let code = code.into();
        let pos = code.chars().count() as u64;
        Self { code, pos }
    }

    /// Refuses source text that is too long for a question.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_question(&self.code)
    }

    pub(crate) fn take(fields: &mut Fields) -> Result<Self, Invalid> {
        let code: String = fields.required("code")?;
        let cursor = match fields.optional("pos")? {
            Some(pos) => Self { code, pos },
            None => Self::at_end(code),
        };
        cursor.validate()?;
        Ok(cursor)
    }
}

/// Refuses source text that is too long for a question.
pub fn validate_question(code: &str) -> Result<(), Invalid> {
    const { assert!(MAX_QUESTION_BYTES <= MAX_CODE_BYTES) };
    if code.len() > MAX_QUESTION_BYTES {
        let expected = format!("at most {MAX_QUESTION_BYTES} bytes");
        return Err(Invalid::value(
            "code",
            expected,
            format!("{} bytes", code.len()),
        ));
    }
    Ok(())
}

/// What can stand at a cursor; the answer to `complete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// At most 1000, the likeliest first.
    pub matches: Vec<Completion>,
}

/// One text that can stand at a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The text that replaces what stands between `start` and `end`.
    pub text: String,
    /// Where the replaced text begins, in code points.
    pub start: u64,
    /// Where the replaced text ends, in code points: the place of the cursor.
    pub end: u64,
    /// What it is: `module`, `class`, `function`, `instance`, `property`, `param`, `keyword`, `statement`, `path` or `dict key`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// How much `inspect_at` tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "u8")]
pub enum Detail {
    /// Signature, type, a short value and the docstring.
    #[default]
    Summary,
    /// The same, and the source text.
    Source,
}

impl From<Detail> for u8 {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::Summary => 0,
            Detail::Source => 1,
        }
    }
}

impl Field for Detail {
    const EXPECTED: &'static str = "0 or 1";

    fn read(name: &str, value: serde_json::Value) -> Result<Self, Invalid> {
        match value.as_u64() {
            Some(0) => Ok(Self::Summary),
            Some(1) => Ok(Self::Source),
            _ => Err(Invalid::value(name, Self::EXPECTED, shown(&value))),
        }
    }
}

/// What stands at a cursor; the answer to `inspect_at`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CursorHelp {
    /// Whether the name at the cursor is known.
    pub found: bool,
    /// Help about it; empty when it is not known.
    #[serde(default)]
    pub mime: MimeBundle,
}

/// Whether source text can be run as it is; the answer to `is_complete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completeness {
    /// The verdict.
    pub status: CompletenessStatus,
    /// The spaces that the next line should begin with; empty unless the text is incomplete.
    #[serde(default)]
    pub indent: String,
}

/// A verdict about source text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletenessStatus {
    /// It can be run.
    Complete,
    /// It needs more lines.
    Incomplete,
    /// No further line makes it right.
    Invalid,
    /// The interpreter cannot tell.
    #[default]
    #[serde(other)]
    Unknown,
}
