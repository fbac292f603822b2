//! The trait of all models, and the events of a reply.

use crate::{Capabilities, ModelError, Reply, Request};
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::pin::Pin;

/// The events of a reply while it is streamed. The last one is [`ReplyEvent::Finished`], or an error ends the stream.
///
/// Dropping the stream stops the request.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<ReplyEvent, ModelError>> + Send>>;

/// A language model: it replies to a conversation.
pub trait Model: Send + Sync {
    /// The name of the model, for messages and recordings.
    fn name(&self) -> &str;

    /// What the model and its endpoint can do.
    fn capabilities(&self) -> &Capabilities;

    /// Asks for a reply. The request is sent only when the stream is polled.
    fn stream(&self, request: Request) -> ReplyStream;
}

/// Asks for a reply and waits until it is complete.
pub async fn complete(model: &dyn Model, request: Request) -> Result<Reply, ModelError> {
    let mut events = model.stream(request);
    while let Some(event) = events.next().await {
        if let ReplyEvent::Finished { reply } = event? {
            return Ok(reply);
        }
    }
    Err(ModelError::Unfinished)
}

/// A part of a reply while it is streamed. The last event of a stream without errors is [`Finished`](Self::Finished).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyEvent {
    /// More text of the reply.
    Text {
        /// The text that is added.
        text: String,
    },
    /// More of the model's reasoning before its answer.
    Reasoning {
        /// The text that is added.
        text: String,
    },
    /// A tool call begins. Its arguments follow.
    CallBegun {
        /// The number of the call in this reply, from 0.
        index: usize,
        /// The name of the tool. The id of the call is known only in the finished reply.
        name: String,
    },
    /// More of the arguments of a tool call.
    CallArguments {
        /// The number of the call in this reply, from 0.
        index: usize,
        /// The text that is added.
        text: String,
    },
    /// The request failed and is sent again. Drop all events that came before this one.
    Retrying {
        /// The number of the next attempt. The first attempt was 1.
        attempt: u32,
        /// The milliseconds until the next attempt.
        wait_ms: u64,
        /// Why the attempt failed.
        reason: String,
    },
    /// The reply is complete.
    Finished {
        /// The whole reply.
        reply: Reply,
    },
}

/// The characters of one text event: about as many as endpoints send at a time.
const EVENT_CHARS: usize = 16;

/// Streams a finished reply, or an error, as if it came from an endpoint, without waiting.
pub(crate) fn stream_of(reply: Result<Reply, ModelError>) -> ReplyStream {
    let events = match reply {
        Ok(reply) => events(reply).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    };
    Box::pin(stream::iter(events))
}

fn events(reply: Reply) -> Vec<ReplyEvent> {
    let mut events = Vec::new();
    for text in pieces(&reply.reasoning) {
        events.push(ReplyEvent::Reasoning { text });
    }
    for text in pieces(&reply.text) {
        events.push(ReplyEvent::Text { text });
    }
    let old = reply
        .function_call
        .iter()
        .map(|call| (&call.name, &call.arguments));
    let new = reply
        .tool_calls
        .iter()
        .map(|call| (&call.name, &call.arguments));
    for (index, (name, arguments)) in old.chain(new).enumerate() {
        let name = name.clone();
        events.push(ReplyEvent::CallBegun { index, name });
        for text in pieces(arguments) {
            events.push(ReplyEvent::CallArguments { index, text });
        }
    }
    events.push(ReplyEvent::Finished { reply });
    events
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(EVENT_CHARS);
    pieces.map(|piece| piece.iter().collect()).collect()
}
