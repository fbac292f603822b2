//! Asking the model, with the thought and the code of its reply shown while it is streamed.

use super::{Observer, RunEvent};
use crate::format::{ActionFormat, PartialCall, PartialReply, PartialTurn};
use cellblock_model::{Model, ModelError, Reply, ReplyEvent, Request};
use futures_util::StreamExt as _;
use tracing::Instrument as _;

/// The longest reply that is read again and again while it is streamed. A longer one is read only when it is complete.
const MAX_PREVIEW_BYTES: usize = 200_000;

/// Asks the model for a reply, and reports its thought and its code while they are streamed.
pub(crate) async fn ask_model(
    model: &dyn Model,
    request: Request,
    format: &dyn ActionFormat,
    observer: &Observer,
) -> Result<Reply, ModelError> {
    let span = tracing::info_span!(
        "model_call",
        model = model.name(),
        messages = request.messages.len()
    );
    read_stream(model, request, format, observer)
        .instrument(span)
        .await
}

async fn read_stream(
    model: &dyn Model,
    request: Request,
    format: &dyn ActionFormat,
    observer: &Observer,
) -> Result<Reply, ModelError> {
    let mut events = model.stream(request);
    let mut preview = Preview::new(format, observer);
    while let Some(event) = events.next().await {
        match event? {
            ReplyEvent::Finished { reply } => {
                preview.report();
                return Ok(reply);
            }
            ReplyEvent::Text { text } => {
                preview.partial.text.push_str(&text);
                preview.add_bytes(text.len());
            }
            ReplyEvent::CallBegun { name, .. } => {
                let arguments = String::new();
                preview.partial.calls.push(PartialCall { name, arguments });
                preview.add_bytes(0);
            }
            ReplyEvent::CallArguments { index, text } => {
                if let Some(call) = preview.partial.calls.get_mut(index) {
                    call.arguments.push_str(&text);
                }
                preview.add_bytes(text.len());
            }
            ReplyEvent::Reasoning { text } => observer(&RunEvent::Reasoning { text }),
            ReplyEvent::Retrying { reason, .. } => {
                preview = Preview::new(format, observer);
                observer(&RunEvent::Retrying { reason });
            }
            _ => {}
        }
    }
    Err(ModelError::Unfinished)
}

/// Reads a reply while it is streamed, less often the longer it is, and reports what is new.
struct Preview<'a> {
    format: &'a dyn ActionFormat,
    observer: &'a Observer,
    partial: PartialReply,
    reported: PartialTurn,
    bytes: usize,
    /// The bytes at the last report.
    reported_bytes: usize,
}

impl<'a> Preview<'a> {
    fn new(format: &'a dyn ActionFormat, observer: &'a Observer) -> Preview<'a> {
        Preview {
            format,
            observer,
            partial: PartialReply::default(),
            reported: PartialTurn::default(),
            bytes: 0,
            reported_bytes: 0,
        }
    }

    /// Counts new bytes, and reports when there are enough of them.
    fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
        let is_due = self.bytes - self.reported_bytes >= 16.max(self.bytes / 64);
        if self.bytes < MAX_PREVIEW_BYTES && is_due {
            self.reported_bytes = self.bytes;
            self.report();
        }
    }

    /// Reports what is new. A thought or code that does not continue what was reported waits for the complete reply.
    fn report(&mut self) {
        let turn = self.format.preview(&self.partial);
        if let Some(text) = added_text(&self.reported.thought, &turn.thought) {
            (self.observer)(&RunEvent::ThoughtPart { text });
            self.reported.thought = turn.thought;
        }
        if let Some(text) = added_text(&self.reported.code, &turn.code) {
            (self.observer)(&RunEvent::CodePart { text });
            self.reported.code = turn.code;
        }
    }
}

fn added_text(before: &str, now: &str) -> Option<String> {
    let added = now.strip_prefix(before)?;
    (!added.is_empty()).then(|| added.to_owned())
}
