//! Asking the model, with its reply seen while it comes.

use super::{Observer, RunEvent};
use crate::format::{ActionFormat, Glimpse, Growing};
use cellblock_model::{Model, ModelError, Reply, ReplyEvent, Request};
use futures_util::StreamExt as _;
use tracing::Instrument as _;

/// A reply so long is looked at only once more.
const LONGEST_SEEN: usize = 200_000;

/// Asks, and tells what can be seen of thought and code meanwhile.
pub(crate) async fn ask(
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
    listen(model, request, format, observer)
        .instrument(span)
        .await
}

async fn listen(
    model: &dyn Model,
    request: Request,
    format: &dyn ActionFormat,
    observer: &Observer,
) -> Result<Reply, ModelError> {
    let mut events = model.stream(request);
    let mut watch = Watch::new(format, observer);
    while let Some(event) = events.next().await {
        match event? {
            ReplyEvent::Finished { reply } => {
                watch.look();
                return Ok(reply);
            }
            ReplyEvent::Text { text } => {
                watch.more(|growing| growing.text.push_str(&text), text.len())
            }
            ReplyEvent::CallBegun { name, .. } => {
                watch.more(|growing| growing.calls.push((name, String::new())), 0);
            }
            ReplyEvent::CallArguments { index, text } => watch.more(
                |growing| {
                    if let Some((_, arguments)) = growing.calls.get_mut(index) {
                        arguments.push_str(&text);
                    }
                },
                text.len(),
            ),
            ReplyEvent::Reasoning { text } => observer(&RunEvent::Reasoning { text }),
            ReplyEvent::Retrying { reason, .. } => {
                watch = Watch::new(format, observer);
                observer(&RunEvent::Retrying { reason });
            }
            _ => {}
        }
    }
    Err(ModelError::Unfinished)
}

/// Looks at a growing reply, less often the longer it is.
struct Watch<'a> {
    format: &'a dyn ActionFormat,
    observer: &'a Observer,
    growing: Growing,
    told: Glimpse,
    length: usize,
    looked_at: usize,
}

impl<'a> Watch<'a> {
    fn new(format: &'a dyn ActionFormat, observer: &'a Observer) -> Watch<'a> {
        Watch {
            format,
            observer,
            growing: Growing::default(),
            told: Glimpse::default(),
            length: 0,
            looked_at: 0,
        }
    }

    fn more(&mut self, add: impl FnOnce(&mut Growing), bytes: usize) {
        add(&mut self.growing);
        self.length += bytes;
        if self.length < LONGEST_SEEN && self.length - self.looked_at >= 16.max(self.length / 64) {
            self.looked_at = self.length;
            self.look();
        }
    }

    /// Tells what is new. What does not go on from what was told waits for the whole reply.
    fn look(&mut self) {
        let glimpse = self.format.glimpse(&self.growing);
        if let Some(text) = more_of(&self.told.thought, &glimpse.thought) {
            (self.observer)(&RunEvent::ThoughtPart { text });
            self.told.thought = glimpse.thought;
        }
        if let Some(text) = more_of(&self.told.code, &glimpse.code) {
            (self.observer)(&RunEvent::CodePart { text });
            self.told.code = glimpse.code;
        }
    }
}

fn more_of(told: &str, now: &str) -> Option<String> {
    let more = now.strip_prefix(told)?;
    (!more.is_empty()).then(|| more.to_owned())
}
