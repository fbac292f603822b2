//! The trait of all models.

use crate::{Capabilities, Event, ModelError, Reply, Request};
use futures_core::Stream;
use futures_util::StreamExt;
use std::pin::Pin;

/// A reply on its way: events, of which the last is [`Event::Finished`], or an error, which ends it.
/// To drop it is to stop the request.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<Event, ModelError>> + Send>>;

/// Something that continues conversations.
pub trait Model: Send + Sync {
    /// The name, for people and for recordings.
    fn name(&self) -> &str;

    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Asks. Nothing happens until the stream is read.
    fn stream(&self, request: Request) -> ReplyStream;
}

/// Asks, and waits for the whole reply.
pub async fn complete(model: &dyn Model, request: Request) -> Result<Reply, ModelError> {
    let mut events = model.stream(request);
    while let Some(event) = events.next().await {
        if let Event::Finished { reply } = event? {
            return Ok(reply);
        }
    }
    Err(ModelError::Unfinished)
}
