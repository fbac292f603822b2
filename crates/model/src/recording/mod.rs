//! Recordings: exchanges with a model in a file, and a file as a model.
//!
//! A recording is a file of JSON lines: one for the header, then one for each exchange. It is written once and never edited.

mod replay;

use crate::{Capabilities, Model, ModelError, Reply, ReplyEvent, ReplyStream, Request};
use cellblock_records::LineWriter;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use replay::{ReplayModel, RequestMatch};

/// The version of the file format.
const FORMAT_VERSION: u32 = 1;

/// The longest recording that is read.
const MAX_RECORDING_BYTES: u64 = 256 << 20;

/// The first line of a recording: where its replies come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    cellblock_recording: u32,
    /// The source of the replies: the model with the hash of its weights or its endpoint, or `scripted`.
    pub source: String,
    /// The name of the model.
    pub model: String,
    /// The date of the recording.
    pub date: String,
    /// What the model can do.
    pub capabilities: Capabilities,
}

/// A request with its reply or error.
#[derive(Clone, Debug, PartialEq)]
struct Exchange {
    request: Request,
    outcome: Result<Reply, ModelError>,
}

/// An exchange as it is written. What the request has in common with the one before it is only counted, so that a recording reads like
/// the conversation and its length does not grow quadratically.
#[derive(Serialize, Deserialize)]
struct ExchangeLine {
    /// The number of messages at the beginning that are those of the exchange before.
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

impl RecordingHeader {
    /// The header of a recording that is made now.
    pub fn new(
        source: impl Into<String>,
        model: impl Into<String>,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            cellblock_recording: FORMAT_VERSION,
            source: source.into(),
            model: model.into(),
            date: httpdate::fmt_http_date(std::time::SystemTime::now()),
            capabilities,
        }
    }
}

/// The line of an exchange whose predecessor had the request `before`.
fn line(before: &Request, exchange: &Exchange) -> ExchangeLine {
    let mut request = exchange.request.clone();
    let pairs = before.messages.iter().zip(&request.messages);
    let kept_messages = pairs.take_while(|(old, new)| old == new).count();
    request.messages.drain(..kept_messages);
    let kept_tools = !request.tools.is_empty() && request.tools == before.tools;
    if kept_tools {
        request.tools.clear();
    }
    ExchangeLine {
        kept_messages,
        kept_tools,
        request,
        reply: exchange.outcome.as_ref().ok().cloned(),
        error: exchange.outcome.as_ref().err().cloned(),
    }
}

/// Reads a whole recording.
fn read(path: &Path) -> Result<(RecordingHeader, Vec<Exchange>), ModelError> {
    let unusable = |problem: String| ModelError::Recording {
        path: path.display().to_string(),
        problem,
    };
    let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
    if size.len() > MAX_RECORDING_BYTES {
        return Err(unusable(format!(
            "it is longer than {} MiB",
            MAX_RECORDING_BYTES >> 20
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let mut lines = text.lines().enumerate();
    let first = lines.next().map_or("", |(_, line)| line);
    let header: RecordingHeader = serde_json::from_str(first).map_err(|error| {
        unusable(format!(
            "its first line is not the header of a recording: {error}"
        ))
    })?;
    if header.cellblock_recording != FORMAT_VERSION {
        let version = header.cellblock_recording;
        return Err(unusable(format!(
            "it has version {version}; this program reads version {FORMAT_VERSION}"
        )));
    }
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |problem: String| unusable(format!("line {}: {problem}", number + 1));
        let line: ExchangeLine =
            serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
        let before = exchanges.last().map(|exchange| &exchange.request);
        exchanges.push(expand(line, before).map_err(bad)?);
    }
    Ok((header, exchanges))
}

fn expand(line: ExchangeLine, before: Option<&Request>) -> Result<Exchange, String> {
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

/// A model that passes requests on to another model, and writes each exchange to a file when it is over.
///
/// Requests have no API keys, and neither has the file. The file must not exist: a recording is never changed or continued.
pub struct RecordingModel {
    inner: Arc<dyn Model>,
    file: Arc<Mutex<RecordingFile>>,
}

struct RecordingFile {
    lines: LineWriter,
    /// The request of the last exchange.
    before: Request,
}

impl RecordingModel {
    /// Records the exchanges with this model. `source` is written into the header: see [`RecordingHeader::source`].
    pub fn new(
        inner: Arc<dyn Model>,
        path: impl AsRef<Path>,
        source: impl Into<String>,
    ) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let header = RecordingHeader::new(source, inner.name(), inner.capabilities().clone());
        let lines = LineWriter::create_unlocked(path);
        let mut lines = lines.map_err(|error| unwritable(path, &error))?;
        let written = lines.append(&header);
        written.map_err(|error| unwritable(path, &error))?;
        let file = RecordingFile {
            lines,
            before: Request::default(),
        };
        Ok(Self {
            inner,
            file: Arc::new(Mutex::new(file)),
        })
    }
}

impl Model for RecordingModel {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let file = Arc::clone(&self.file);
        let events = self.inner.stream(request.clone());
        let mut request = Some(request);
        Box::pin(events.map(move |event| {
            let outcome = match &event {
                Ok(ReplyEvent::Finished { reply }) => Ok(reply.clone()),
                Err(error) => Err(error.clone()),
                Ok(_) => return event,
            };
            if let Some(request) = request.take() {
                let exchange = Exchange { request, outcome };
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.record(exchange)?;
            }
            event
        }))
    }
}

impl RecordingFile {
    fn record(&mut self, exchange: Exchange) -> Result<(), ModelError> {
        let written = self.lines.append(&line(&self.before, &exchange));
        written.map_err(|error| unwritable(self.lines.path(), &error))?;
        self.before = exchange.request;
        Ok(())
    }
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> ModelError {
    ModelError::Recording {
        path: path.display().to_string(),
        problem: format!("it cannot be written: {error}"),
    }
}
