//! The file: a line for the header, then a line for each exchange. Written once and never edited.

use crate::{Capabilities, ModelError, Reply, Request};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The version of the format.
const VERSION: u32 = 1;

/// The longest file that is read.
const LONGEST: u64 = 256 << 20;

/// The first line of a recording: where the replies come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    cellblock_recording: u32,
    /// Who answered: the model and the hash of its weights or the endpoint, or `scripted`.
    pub source: String,
    /// The name of the model.
    pub model: String,
    /// When it was recorded.
    pub date: String,
    /// What the model can do.
    pub capabilities: Capabilities,
}

/// What was asked and what came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) outcome: Result<Reply, ModelError>,
}

/// An exchange on its line. What it has in common with the one before it is only counted, so that a recording reads like the
/// conversation and does not grow with its square.
#[derive(Serialize, Deserialize)]
pub(super) struct Line {
    /// How many messages are the first ones of the exchange before.
    kept_messages: usize,
    /// Whether the tools are those of the exchange before.
    #[serde(default)]
    kept_tools: bool,
    request: Request,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<Reply>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ModelError>,
}

impl Header {
    /// The header for a recording that is made now.
    pub fn new(
        source: impl Into<String>,
        model: impl Into<String>,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            cellblock_recording: VERSION,
            source: source.into(),
            model: model.into(),
            date: httpdate::fmt_http_date(std::time::SystemTime::now()),
            capabilities,
        }
    }
}

/// The line of an exchange that follows on `before`.
pub(super) fn line(before: &Request, exchange: &Exchange) -> Line {
    let mut request = exchange.request.clone();
    let pairs = before.messages.iter().zip(&request.messages);
    let kept_messages = pairs.take_while(|(old, new)| old == new).count();
    request.messages.drain(..kept_messages);
    let kept_tools = !request.tools.is_empty() && request.tools == before.tools;
    if kept_tools {
        request.tools.clear();
    }
    Line {
        kept_messages,
        kept_tools,
        request,
        reply: exchange.outcome.as_ref().ok().cloned(),
        error: exchange.outcome.as_ref().err().cloned(),
    }
}

/// Reads a whole recording.
pub(super) fn read(path: &Path) -> Result<(Header, Vec<Exchange>), ModelError> {
    let unusable = |problem: String| ModelError::Recording {
        path: path.display().to_string(),
        problem,
    };
    let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
    if size.len() > LONGEST {
        return Err(unusable(format!("it is longer than {} MiB", LONGEST >> 20)));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let mut lines = text.lines().enumerate();
    let first = lines.next().map_or("", |(_, line)| line);
    let header: Header = serde_json::from_str(first).map_err(|error| {
        unusable(format!(
            "its first line is not the header of a recording: {error}"
        ))
    })?;
    if header.cellblock_recording != VERSION {
        let version = header.cellblock_recording;
        return Err(unusable(format!(
            "it has version {version}; this program reads version {VERSION}"
        )));
    }
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |problem: String| unusable(format!("line {}: {problem}", number + 1));
        let line: Line = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
        let before = exchanges.last().map(|exchange| &exchange.request);
        exchanges.push(expand(line, before).map_err(bad)?);
    }
    Ok((header, exchanges))
}

fn expand(line: Line, before: Option<&Request>) -> Result<Exchange, String> {
    let none = Request::default();
    let before = before.unwrap_or(&none);
    let mut request = line.request;
    let kept = before.messages.get(..line.kept_messages);
    let kept = kept.ok_or("it keeps more messages than there were before it")?;
    request.messages.splice(0..0, kept.iter().cloned());
    if line.kept_tools {
        request.tools.clone_from(&before.tools);
    }
    let outcome = match (line.reply, line.error) {
        (Some(reply), None) => Ok(reply),
        (None, Some(error)) => Err(error),
        _ => return Err("it must have either a reply or an error".into()),
    };
    Ok(Exchange { request, outcome })
}
