//! A finished reply as the events that would have led to it.

use crate::{Event, ModelError, Reply, ReplyStream};
use futures_util::stream;

/// Characters in one event of text: about what endpoints send at a time.
const PIECE: usize = 16;

/// Plays a reply as if it came over the wire, without the waiting.
pub(crate) fn play(reply: Result<Reply, ModelError>) -> ReplyStream {
    let events = match reply {
        Ok(reply) => events(reply).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    };
    Box::pin(stream::iter(events))
}

fn events(reply: Reply) -> Vec<Event> {
    let mut events = Vec::new();
    for text in pieces(&reply.reasoning) {
        events.push(Event::Reasoning { text });
    }
    for text in pieces(&reply.text) {
        events.push(Event::Text { text });
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
        events.push(Event::CallBegun { index, name });
        for text in pieces(arguments) {
            events.push(Event::CallArguments { index, text });
        }
    }
    events.push(Event::Finished { reply });
    events
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(PIECE);
    pieces.map(|piece| piece.iter().collect()).collect()
}
