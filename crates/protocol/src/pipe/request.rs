//! The lines that the pipe reads.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::operation::Operation;
use crate::json::fields::Fields;
use crate::json::invalid::{Invalid, short, shown};
use crate::json::memory::{JsonError, parse_json_within};
use crate::validate_session_id;

/// The longest line that is read.
pub const MAX_LINE_BYTES: usize = 16_000_000;
/// The most memory that the values of a line may take once they are parsed.
const MAX_LINE_MEMORY: usize = 256 << 20;

/// One line of the pipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The caller's own mark; absent on `tool_result` and `input`.
    pub id: Option<RequestId>,
    /// The session; [`session`](Self::session) has the default.
    pub session: Option<String>,
    /// The operation that is asked for.
    pub operation: Operation,
}

impl Request {
    /// The session that a request without one means.
    pub const DEFAULT_SESSION: &'static str = "default";

    /// The session that is meant.
    pub fn session(&self) -> &str {
        self.session.as_deref().unwrap_or(Self::DEFAULT_SESSION)
    }
}

/// A number or a text that the caller chose; it is given back as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// `1`
    Number(Number),
    /// `"a"`
    Text(String),
}

impl From<u64> for RequestId {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

/// Why a line is no request; what the `error` event says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PipeError {
    /// The `id` of the line, when it could still be read.
    pub id: Option<RequestId>,
    /// The session of the request, when that could still be read.
    pub session: Option<String>,
    /// For programs: `too_long`, `malformed`, `unknown_op` or `invalid`.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// Reads one line, with or without its newline.
pub fn parse_line(line: &[u8]) -> Result<Request, PipeError> {
    if line.len() > MAX_LINE_BYTES {
        let message = format!(
            "the line has {} bytes; at most {MAX_LINE_BYTES} are allowed",
            line.len()
        );
        return Err(broken(line, "too_long", message));
    }
    std::str::from_utf8(line)
        .map_err(|error| broken(line, "malformed", format!("the line is not UTF-8: {error}")))?;
    let value = parse_json_within(line, MAX_LINE_MEMORY).map_err(|error| match error {
        JsonError::TooManyValues { .. } => broken(line, "too_long", format!("the line: {error}")),
        JsonError::Json(error) => {
            broken(line, "malformed", format!("the line is not JSON: {error}"))
        }
    })?;
    match value {
        Value::Object(map) => from_object(map),
        other => {
            let message = format!(
                "a request is a JSON object such as {EXAMPLE}; got {}",
                shown(&other)
            );
            Err(broken(line, "malformed", message))
        }
    }
}

const EXAMPLE: &str = r#"{"id":1,"op":"run","code":"1+1"}"#;

fn from_object(mut map: Map<String, Value>) -> Result<Request, PipeError> {
    let id = map.get("id").and_then(as_id);
    let session = map
        .get("session")
        .and_then(Value::as_str)
        .filter(|id| validate_session_id(id).is_ok());
    let session = session.map(str::to_owned);
    let error = |code, message| PipeError {
        id: id.clone(),
        session: session.clone(),
        code,
        message,
    };
    let invalid = |invalid: Invalid| error("invalid", invalid.to_string());

    if id.is_none() && map.get("id").is_some_and(|id| !id.is_null()) {
        let came = map.get("id").map(shown).unwrap_or_default();
        return Err(invalid(Invalid::value(
            "id",
            "a number or a text of at most 256 bytes",
            came,
        )));
    }
    map.shift_remove("id");
    let op = match map.shift_remove("op") {
        Some(Value::String(op)) => op,
        other => {
            let came = other.map_or_else(|| "none".to_owned(), |value| shown(&value));
            let message = format!(
                "`op`: expected one of {}; got {came}",
                Operation::NAMES.join(", ")
            );
            return Err(error("unknown_op", message));
        }
    };
    if session.is_none() {
        check_session(&map).map_err(invalid)?;
    }
    // For `open` the session is one of the options; for all others it only says where.
    if op != "open" {
        map.shift_remove("session");
    }
    match Operation::read(&op, map) {
        Some(Ok(operation)) => Ok(Request {
            id,
            session,
            operation,
        }),
        Some(Err(wrong)) => Err(error("invalid", format!("{op}: {wrong}"))),
        None => {
            let message = format!(
                "there is no operation `{}`; there are {}",
                short(&op),
                Operation::NAMES.join(", ")
            );
            Err(error("unknown_op", message))
        }
    }
}

fn check_session(map: &Map<String, Value>) -> Result<(), Invalid> {
    let mut fields = Fields::new(
        map.get("session")
            .map(|it| ("session".to_owned(), it.clone()))
            .into_iter()
            .collect(),
    );
    match fields.optional::<String>("session")? {
        Some(id) => validate_session_id(&id),
        None => Ok(()),
    }
}

fn as_id(value: &Value) -> Option<RequestId> {
    const MAX_ID_BYTES: usize = 256;
    match value {
        Value::Number(number) => Some(RequestId::Number(number.clone())),
        Value::String(text) if text.len() <= MAX_ID_BYTES => Some(RequestId::Text(text.clone())),
        _ => None,
    }
}

/// A line that cannot be read as a whole. Where `id` is its first field the answer can still name the request.
fn broken(line: &[u8], code: &'static str, message: String) -> PipeError {
    PipeError {
        id: first_id(line),
        session: None,
        code,
        message,
    }
}

fn first_id(line: &[u8]) -> Option<RequestId> {
    let beginning = String::from_utf8_lossy(&line[..line.len().min(512)]);
    let rest = beginning
        .trim_start()
        .strip_prefix('{')?
        .trim_start()
        .strip_prefix("\"id\"")?;
    let rest = rest.trim_start().strip_prefix(':')?;
    let first = serde_json::Deserializer::from_str(rest)
        .into_iter::<Value>()
        .next()?;
    as_id(&first.ok()?)
}
