//! Results of tools in Python: values, or handles whose markers in the output are replaced by their contents.

use crate::{Failure, Output, Part};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::CellResult;
use cellblock_protocol::guest::ToolContent;
use cellblock_session::Session;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};

/// The most bytes that are kept for markers. The oldest contents are dropped first.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// The longest text that arrives as a `str`; a longer one arrives as a handle.
const MAX_TEXT_BYTES: usize = 1_000_000;
/// The beginning and the end of a marker.
const MARKER_BEGIN: &str = "<<TOOL_RESPONSE:";
const MARKER_END: &str = ">>";
/// The longest id in a marker. Text that follows is not searched for an end.
const MAX_ID_BYTES: usize = 128;

/// The contents behind the handles that the code of one session has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responses {
    count: usize,
    contents: HashMap<String, Part>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Responses {
    /// Sends the outcome of a call to the code: JSON values and short texts as Python values, everything else
    /// as handles.
    pub(super) fn deliver(
        &mut self,
        session: &Session,
        call: &str,
        outcome: Result<Output, Failure>,
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
                [Part::Text(text)] if text.len() <= MAX_TEXT_BYTES => {
                    return session.tool_result(call, Ok(Value::String(std::mem::take(text))));
                }
                _ => {}
            }
        }
        let content = parts.into_iter().map(|part| match part {
            Part::Text(text) if text.len() <= MAX_TEXT_BYTES => ToolContent::Text { text },
            Part::Text(text) => self.handle(session, Part::blob("text/plain", text)),
            part @ Part::Blob { .. } => self.handle(session, part),
        });
        session.tool_content(call, content.collect());
    }

    /// Keeps a part and makes the handle of it.
    fn handle(&mut self, session: &Session, part: Part) -> ToolContent {
        let (mime, base64) = match &part {
            Part::Blob { mime, data, .. } => (mime.clone(), STANDARD.encode(data)),
            Part::Text(text) => ("text/plain".to_owned(), STANDARD.encode(text)),
        };
        ToolContent::Blob {
            id: self.keep(session.id(), part),
            mime,
            base64,
        }
    }

    /// Keeps a part and returns its id. The id contains the session's, so that a marker of another session is
    /// never replaced.
    fn keep(&mut self, session: &str, part: Part) -> String {
        self.count += 1;
        let id = format!("{session}-{}", self.count);
        self.bytes += part.size();
        self.contents.insert(id.clone(), part);
        self.order.push_back(id.clone());
        while self.bytes > MAX_KEPT_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(part) = self.contents.remove(&oldest) {
                self.bytes -= part.size();
            }
        }
        id
    }

    /// Replaces the markers in the output of a cell by their contents. A text is put in place; of every other
    /// part a label is put in place, and the part itself is returned. A marker is replaced once; replaced text
    /// is not searched again.
    pub(super) fn expand(&self, result: &mut CellResult) -> Vec<Part> {
        if self.contents.is_empty() {
            return Vec::new();
        }
        self.expand_text(&mut result.stdout);
        self.expand_text(&mut result.stderr);
        let mut attachments = self.expand_text(&mut result.output);
        if let Some(value) = &mut result.value {
            let more = self.expand_text(&mut value.repr);
            attachments.extend(
                more.into_iter()
                    .filter(|part| !attachments.contains(part))
                    .collect::<Vec<_>>(),
            );
        }
        attachments
    }

    fn expand_text(&self, text: &mut String) -> Vec<Part> {
        let mut attachments = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut expanded = String::new();
        let mut has_markers = false;
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => expanded.push_str(text),
                Piece::Marker { whole, id } => match self.contents.get_key_value(id) {
                    None => expanded.push_str(whole),
                    Some((id, _)) if !seen.insert(id) => {
                        has_markers = true;
                        expanded.push_str("[shown above]");
                    }
                    Some((_, part)) => {
                        has_markers = true;
                        match text_of(part) {
                            Some(text) => expanded.push_str(&text),
                            None => {
                                expanded.push_str(&part.label());
                                attachments.push(part.clone());
                            }
                        }
                    }
                },
            }
        }
        if has_markers {
            *text = expanded;
        }
        attachments
    }
}

/// The text of a part that is put in place of its marker.
fn text_of(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.clone()),
        Part::Blob { mime, data, .. } => {
            let is_text = mime.starts_with("text/") || mime == "application/json";
            is_text.then(|| String::from_utf8_lossy(data).into_owned())
        }
    }
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// A text in the form of a marker, and the id in it.
    Marker {
        whole: &'a str,
        id: &'a str,
    },
}

/// Splits a text at its markers, from the left. Each byte is read once.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(MARKER_BEGIN) {
        let after = &rest[at + MARKER_BEGIN.len()..];
        match marker_id(after) {
            Some(id) => {
                let end = at + MARKER_BEGIN.len() + id.len() + MARKER_END.len();
                pieces.push(Piece::Text(&rest[..at]));
                pieces.push(Piece::Marker {
                    whole: &rest[at..end],
                    id,
                });
                rest = &rest[end..];
            }
            None => {
                let end = at + MARKER_BEGIN.len();
                pieces.push(Piece::Text(&rest[..end]));
                rest = after;
            }
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn marker_id(text: &str) -> Option<&str> {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let length = text
        .bytes()
        .take(MAX_ID_BYTES + 1)
        .take_while(is_allowed)
        .count();
    let is_closed = text[length..].starts_with(MARKER_END);
    (is_closed && (1..=MAX_ID_BYTES).contains(&length)).then(|| &text[..length])
}

#[cfg(test)]
#[path = "responses_tests.rs"]
mod tests;
