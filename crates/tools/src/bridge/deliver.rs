//! The answer to a call, on its way into Python.

use super::Responses;
use crate::{Failure, Output, Part};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::guest::ToolContent;
use cellblock_session::Session;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// The longest text that arrives as a `str`; a longer one arrives as a handle.
const LONGEST_TEXT: usize = 1_000_000;

/// Tells the code what came of its call.
pub(super) fn deliver(
    session: &Session,
    call: &str,
    outcome: Result<Output, Failure>,
    responses: &Mutex<Responses>,
) {
    let Output {
        structured,
        mut parts,
    } = match outcome {
        Ok(output) => output,
        Err(failure) => return session.tool_result(call, Err(failure.to_string())),
    };
    let has_blobs = parts.iter().any(|part| part.as_text().is_none());
    if !has_blobs || parts.is_empty() {
        if let Some(value) = structured {
            return session.tool_result(call, Ok(value));
        }
        match parts.as_mut_slice() {
            [] => return session.tool_result(call, Ok(Value::Null)),
            [Part::Text(text)] if text.len() <= LONGEST_TEXT => {
                return session.tool_result(call, Ok(Value::String(std::mem::take(text))));
            }
            _ => {}
        }
    }
    let mut responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
    let content = parts.into_iter().map(|part| match part {
        Part::Text(text) if text.len() <= LONGEST_TEXT => ToolContent::Text { text },
        Part::Text(text) => blob(session, Part::blob("text/plain", text), &mut responses),
        part @ Part::Blob { .. } => blob(session, part, &mut responses),
    });
    session.tool_content(call, content.collect());
}

fn blob(session: &Session, part: Part, responses: &mut Responses) -> ToolContent {
    let (mime, base64) = match &part {
        Part::Blob { mime, data, .. } => (mime.clone(), STANDARD.encode(data)),
        Part::Text(text) => ("text/plain".to_owned(), STANDARD.encode(text)),
    };
    ToolContent::Blob {
        id: responses.keep(session.id(), part),
        mime,
        base64,
    }
}
