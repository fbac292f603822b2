//! What a client gets of a call: progress notifications while it runs, then its result.

use super::resources::{file_name, uri_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{Event, Locale};
use cellblock_tools::{Answer, Failure, OnToolEvent, Part, ToolEvent, names};
use rmcp::model::{
    CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    Resource, ResourceContents,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The most characters of the text that a model reads.
const MAX_TEXT_CHARS: usize = 20_000;
/// The most links to files in a result.
const MAX_LINKS: usize = 20;

/// The result of a call.
pub(super) struct CallOutcome {
    pub(super) result: CallToolResult,
    /// Whether files were created or deleted, so that the list of resources has changed.
    pub(super) changed_files: bool,
}

/// Translates the answer of a tool for a client.
pub(super) fn call_outcome(
    answer: Answer,
    locale: Locale,
    session_name: &str,
    context: &RequestContext<RoleServer>,
) -> CallOutcome {
    let mut content = vec![ContentBlock::text(answer.for_model(locale, MAX_TEXT_CHARS))];
    content.extend(answer.attachments().filter_map(block));
    let output = match answer.outcome {
        Ok(output) => output,
        Err(failure) => {
            let result = match failure {
                // What a person says to the model is no failure.
                Failure::Answered { .. } => CallToolResult::success(content),
                _ => CallToolResult::error(content),
            };
            return CallOutcome {
                result,
                changed_files: false,
            };
        }
    };
    let files = output
        .structured
        .as_ref()
        .and_then(|value| value.get("files"));
    let listed = |kind: &str| {
        let list = files.and_then(|files| files.get(kind));
        list.and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let changed_files = ["created", "deleted"]
        .iter()
        .any(|kind| !listed(kind).is_empty())
        || answer.name == names::WRITE_FILE;
    if knows_links(context) {
        let written = listed("created").iter().chain(listed("changed"));
        content.extend(
            written
                .filter_map(|file| link(file, session_name))
                .take(MAX_LINKS),
        );
    }
    let mut result = CallToolResult::success(content);
    // The protocol knows no other structures than objects.
    result.structured_content = output.structured.filter(Value::is_object).map(shortened);
    CallOutcome {
        result,
        changed_files,
    }
}

fn block(part: &Part) -> Option<ContentBlock> {
    let Part::Blob { mime, data, uri } = part else {
        return None;
    };
    let encoded = STANDARD.encode(data);
    Some(match mime.split('/').next() {
        Some("image") => ContentBlock::image(encoded, mime),
        Some("audio") => ContentBlock::audio(encoded, mime),
        _ => ContentBlock::resource(ResourceContents::BlobResourceContents {
            uri: uri.clone().unwrap_or_else(|| "result:document".to_owned()),
            mime_type: Some(mime.clone()),
            blob: encoded,
            meta: None,
        }),
    })
}

fn link(file: &Value, session_name: &str) -> Option<ContentBlock> {
    let path = file.get("path")?.as_str()?;
    let mut resource = Resource::new(uri_of(session_name, path), file_name(path));
    resource.mime_type = file.get("mime").and_then(Value::as_str).map(str::to_owned);
    resource.size = file.get("bytes").and_then(Value::as_u64);
    Some(ContentBlock::resource_link(resource))
}

fn knows_links(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    // Versions are dates: later ones are greater.
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str())
}

/// Shortens the long texts of a structure: the content has them too, and a client reads both.
fn shortened(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if text.len() > MAX_TEXT_CHARS => {
            let whole = |end: &usize| text.is_char_boundary(*end);
            let end = (0..=MAX_TEXT_CHARS).rev().find(whole).unwrap_or_default();
            let left_out = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("\n[… {left_out} bytes left out …]"));
        }
        Value::Array(items) => {
            for item in items {
                *item = shortened(item.take());
            }
        }
        Value::Object(map) => {
            for item in map.values_mut() {
                *item = shortened(item.take());
            }
        }
        _ => {}
    }
    value
}

/// The least time between two notifications: a loop that prints must not flood the client.
const MIN_NOTIFICATION_GAP: Duration = Duration::from_millis(50);
/// The most text that is queued for a client that reads slowly.
const MAX_QUEUED_BYTES: usize = 64 << 10;
/// How long the last notification may take. The result has the whole output anyway.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the output of one call as progress notifications. Dropping it stops them.
pub(super) struct ProgressReporter {
    pending: Arc<PendingText>,
    sender: JoinHandle<()>,
}

#[derive(Default)]
struct PendingText {
    text: Mutex<ProgressText>,
    news: Notify,
}

#[derive(Default)]
struct ProgressText {
    text: String,
    left_out: usize,
    is_over: bool,
}

impl ProgressReporter {
    /// A reporter for a request, if the client asked for progress.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<ProgressReporter> {
        let token = context.meta.get_progress_token()?;
        let pending = Arc::new(PendingText::default());
        let sender = tokio::spawn(send_progress(
            Arc::clone(&pending),
            context.peer.clone(),
            token,
        ));
        Some(ProgressReporter { pending, sender })
    }

    /// The function that takes the events of the call.
    pub(super) fn event_handler(&self) -> OnToolEvent {
        let pending = Arc::clone(&self.pending);
        Arc::new(move |event| {
            if let Some(text) = event_text(event) {
                pending.lock().add(&text);
                pending.news.notify_one();
            }
        })
    }

    /// Sends the rest of the output, so that no notification follows the result.
    pub(super) async fn finish(mut self) {
        self.pending.lock().is_over = true;
        self.pending.news.notify_one();
        let _ = tokio::time::timeout(FINAL_FLUSH_TIMEOUT, &mut self.sender).await;
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.sender.abort();
    }
}

impl PendingText {
    fn lock(&self) -> MutexGuard<'_, ProgressText> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressText {
    /// Appends text. When there is too much, the oldest is dropped.
    fn add(&mut self, more: &str) {
        self.text.push_str(more);
        if self.text.len() > MAX_QUEUED_BYTES {
            let from = self.text.len() - MAX_QUEUED_BYTES / 2;
            let whole = |cut: &usize| self.text.is_char_boundary(*cut);
            let cut = (from..self.text.len()).find(whole).unwrap_or_default();
            self.left_out += cut;
            self.text.drain(..cut);
        }
    }

    fn take(&mut self) -> Option<String> {
        if self.text.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut self.text);
        Some(match std::mem::take(&mut self.left_out) {
            0 => text,
            bytes => format!("[… {bytes} bytes left out …]\n{text}"),
        })
    }
}

async fn send_progress(pending: Arc<PendingText>, peer: Peer<RoleServer>, token: ProgressToken) {
    let mut told = 0.0;
    loop {
        pending.news.notified().await;
        let (text, is_over) = {
            let mut pending = pending.lock();
            (pending.take(), pending.is_over)
        };
        if let Some(text) = text {
            told += 1.0;
            let progress = ProgressNotificationParam::new(token.clone(), told).with_message(text);
            if peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
        if is_over {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(MIN_NOTIFICATION_GAP) => {}
            // The end is sent without a pause.
            () = pending.news.notified() => pending.news.notify_one(),
        }
    }
}

fn event_text(event: ToolEvent) -> Option<String> {
    match event {
        ToolEvent::Cell(Event::Stdout { text } | Event::Stderr { text }) => Some(text),
        ToolEvent::Cell(Event::Display(_)) => Some("[a picture or table was shown]\n".to_owned()),
        ToolEvent::Cell(Event::ToolCall { name, .. }) => Some(format!("[calls {name}]\n")),
        ToolEvent::AwaitingApproval { tool } => {
            Some(format!("[{tool} waits for a person's approval]\n"))
        }
        ToolEvent::PlanChanged { markdown, .. } => Some(markdown),
        _ => None,
    }
}
