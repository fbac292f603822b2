//! The events of an answer: how long and how large one may be, and how many there may be.

use super::message_budget::{BYTES_PER_MESSAGE, MessageBudget};
use crate::message_size::{MAX_MESSAGE_BYTES, MessageHead, MessageSize, TooLarge};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};
use std::pin::Pin;
use std::sync::Arc;

pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The events of an answer to the request with this id, if it answers one. They are counted, and so is everything else that comes. In the
/// place of an answer that is too long or too large comes the error that answers the request: the caller hears of it, and the stream is not
/// asked for again. The stream ends when there are too many events, and with the connection.
pub(super) fn bounded_events(
    pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    request: Option<RequestId>,
    budget: &Arc<MessageBudget>,
) -> Events {
    let pieces = counted_pieces(Box::pin(pieces), Arc::clone(budget), MAX_MESSAGE_BYTES);
    let ended = budget.ended();
    let budget = Arc::clone(budget);
    SseStream::from_bytes_stream(pieces)
        .map(move |event| match event {
            Ok(event) => {
                let event = checked(event, &budget, request.as_ref());
                Ok(event)
            }
            Err(error) if is_too_long(&error) => Ok(refusal(request.clone(), TooLarge::Bytes)),
            Err(error) => Err(error),
        })
        .take_until(ended)
        .boxed()
}

/// Counts an event, and replaces it where it is too large.
fn checked(event: Sse, budget: &MessageBudget, request: Option<&RequestId>) -> Sse {
    let Some(data) = &event.data else {
        return event;
    };
    let head = MessageHead::of(data.as_bytes());
    budget.take_event(&head, data.len());
    match MessageSize::default().add(data.as_bytes()) {
        Ok(()) => event,
        // It answers nothing. Its id stays: the stream may be asked for from there.
        Err(_) if head.has_method => Sse {
            data: None,
            ..event
        },
        Err(problem) => Sse {
            id: event.id,
            ..refusal(head.id.or_else(|| request.cloned()), problem)
        },
    }
}

/// An event that says in a server's name that its answer is too large.
fn refusal(id: Option<RequestId>, problem: TooLarge) -> Sse {
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, problem.to_string(), None);
    let message = ServerJsonRpcMessage::error(error, id);
    Sse {
        data: serde_json::to_string(&message).ok(),
        ..Sse::default()
    }
}

#[derive(Debug, thiserror::Error)]
enum EventError {
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    #[error("{}", TooLarge::Bytes)]
    TooLong,
}

fn is_too_long(error: &SseError) -> bool {
    match error {
        SseError::Body(error) => matches!(error.downcast_ref(), Some(EventError::TooLong)),
        _ => false,
    }
}

/// The pieces of a stream of events, of which no event is longer than `limit`. Takes from the budget what no event is counted for: comments,
/// lines that belong to no event, events without data, and an event that the stream does not finish.
fn counted_pieces<E>(
    pieces: Pin<Box<impl Stream<Item = Result<Bytes, E>> + Send + 'static>>,
    budget: Arc<MessageBudget>,
    limit: usize,
) -> impl Stream<Item = Result<Bytes, EventError>> + Send + 'static
where
    EventError: From<E>,
    E: 'static,
{
    let read = Some((pieces, EventScan::default()));
    stream::unfold(read, move |read| {
        let budget = Arc::clone(&budget);
        async move {
            let (mut pieces, mut scan) = read?;
            let piece = match pieces.next().await {
                Some(Ok(piece)) => piece,
                lost => {
                    budget.try_take(scan.unfinished());
                    let Some(Err(error)) = lost else {
                        return None;
                    };
                    return Some((Err(error.into()), None));
                }
            };
            scan.add(&piece);
            if !budget.try_take(std::mem::take(&mut scan.uncounted)) {
                return None;
            }
            match scan.longest <= limit {
                true => Some((Ok(piece), Some((pieces, scan)))),
                false => {
                    budget.try_take(scan.unfinished());
                    Some((Err(EventError::TooLong), None))
                }
            }
        }
    })
}

/// Follows the bytes of a stream: where its lines and events end.
#[derive(Default)]
struct EventScan {
    /// The bytes of the event that is read, and of the longest so far.
    event: usize,
    longest: usize,
    has_data: bool,
    /// The bytes of the lines with data.
    data: usize,
    /// The bytes of the line that is read, and its first ones.
    line: usize,
    first: [u8; 4],
    /// Whether the last byte ended a line alone, so that a line feed after it belongs to it.
    is_after_return: bool,
    /// The bytes that belong to no data, as far as they make no whole message.
    other: usize,
    /// As how many messages the bytes that belong to no data count.
    uncounted: usize,
}

impl EventScan {
    /// As how many messages the event counts that is read, if it does not come to its end.
    fn unfinished(&self) -> usize {
        (self.data + self.line) / BYTES_PER_MESSAGE
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let is_after_return = std::mem::take(&mut self.is_after_return);
            match byte {
                b'\n' if is_after_return => {}
                b'\n' | b'\r' => {
                    self.is_after_return = *byte == b'\r';
                    self.end_line();
                }
                _ => {
                    if let Some(first) = self.first.get_mut(self.line) {
                        *first = *byte;
                    }
                    self.line += 1;
                    self.event += 1;
                    self.longest = self.longest.max(self.event);
                }
            }
        }
    }

    fn end_line(&mut self) {
        match (self.line, self.first) {
            // An event with data is counted where its data is known. Everything else that ends here counts as a message.
            (0, _) => {
                self.uncounted += usize::from(!self.has_data);
                self.event = 0;
                self.data = 0;
                self.has_data = false;
            }
            (_, [b'd', b'a', b't', b'a']) => {
                self.has_data = true;
                self.data += self.line;
            }
            (_, [first, ..]) => {
                self.uncounted += usize::from(first == b':');
                self.other += self.line;
                self.uncounted += self.other / BYTES_PER_MESSAGE;
                self.other %= BYTES_PER_MESSAGE;
            }
        }
        self.line = 0;
        self.first = [0; 4];
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::client::MessageLimit;

    #[test]
    fn an_event_ends_with_an_empty_line_and_no_other() {
        let longest = |text: &str| {
            let mut scan = EventScan::default();
            scan.add(text.as_bytes());
            scan.longest
        };
        assert_eq!(longest("data: ab\n\ndata: ab\r\n\r\ndata: ab"), 8);
        assert_eq!(longest("data: abc"), 9);
        assert_eq!(longest("data:\r\ndata:\r\n"), 10);
        assert_eq!(longest("data:\r\rdata:\r\r"), 5);
        assert_eq!(longest("data:\n:\ndata:\n"), 11);
    }

    /// What remains of 100 messages after a stream of such pieces.
    fn taken(pieces: &[&str]) -> usize {
        let budget = MessageBudget::new(MessageLimit {
            at_once: 100,
            per_second: 0,
        });
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| Bytes::from((*piece).to_owned()))
            .collect();
        let pieces = stream::iter(pieces.into_iter().map(Ok::<_, EventError>));
        let read = counted_pieces(Box::pin(pieces), Arc::clone(&budget), 1 << 20);
        futures_util::pin_mut!(read);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async { while read.next().await.is_some() {} });
        100 - (0..100).take_while(|_| budget.try_take(1)).count()
    }

    #[test]
    fn what_is_no_event_with_data_is_taken_from_the_budget() {
        let long = "x".repeat(10 * BYTES_PER_MESSAGE);
        assert_eq!(taken(&["data: a\n\n", "data: b\r\n\r\n"]), 0);
        assert_eq!(taken(&[": one\n: two\n"]), 2);
        assert_eq!(taken(&["\n\n", "\r\n\r\n"]), 4);
        assert_eq!(taken(&["id: 1\n\n"]), 1);
        assert_eq!(taken(&[&format!(": {long}\n")]), 11);
        // An event that is finished is counted with its data, and not here.
        assert_eq!(taken(&[&format!("data: {long}\n\n")]), 0);
        assert_eq!(taken(&["data: ", &long]), 10);
        assert_eq!(taken(&["data: a\n", &long, "\n", &long]), 20);
    }
}
