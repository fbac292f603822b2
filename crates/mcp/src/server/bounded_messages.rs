//! Messages of clients that are too large in memory: they are refused before they are parsed.

use crate::message_size::{
    MAX_MESSAGE_BYTES, MAX_MESSAGE_MEMORY, MessageHead, MessageSize, TooLarge,
};
use bytes::{Buf as _, Bytes};
use cellblock_protocol::JsonMemory;
use hyper::body::{Body, Frame, SizeHint};
use rmcp::model::RequestId;
use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// What is kept of the beginning of a line: the id of a request that is refused is looked for there.
const KEPT_BYTES: usize = 1024;
/// The most refusals that wait to be sent.
const MAX_REFUSALS: usize = 256;

/// Why a message of a client is refused.
pub(super) fn refusal(problem: TooLarge) -> String {
    match problem {
        TooLarge::Bytes => format!("the message is longer than {} MiB", MAX_MESSAGE_BYTES >> 20),
        TooLarge::Memory => format!(
            "the values of the message would take more than {} MiB of memory",
            MAX_MESSAGE_MEMORY >> 20
        ),
    }
}

/// A message that was refused.
#[derive(Debug)]
pub(super) struct RefusedMessage {
    /// None where the message does not begin with its id.
    pub(super) id: Option<RequestId>,
    pub(super) problem: TooLarge,
}

/// The messages that were refused, oldest first. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused {
    messages: Arc<Mutex<VecDeque<RefusedMessage>>>,
    added: Arc<Notify>,
}

impl Refused {
    /// Takes the oldest.
    pub(super) fn next(&self) -> Option<RefusedMessage> {
        self.lock().pop_front()
    }

    /// Waits until one is added.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    fn add(&self, message: RefusedMessage) {
        let mut messages = self.lock();
        if messages.len() < MAX_REFUSALS {
            messages.push_back(message);
        }
        self.added.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RefusedMessage>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of messages in lines. The rest of a message that is too large becomes blanks: a text that is cut off is no message, and its
/// beginning alone takes no more memory than a message may.
pub(super) struct BoundedLines<R> {
    stream: R,
    refused: Refused,
    size: MessageSize,
    beginning: Vec<u8>,
    is_refused: bool,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(stream: R, refused: Refused) -> BoundedLines<R> {
        BoundedLines {
            stream,
            refused,
            size: MessageSize::default(),
            beginning: Vec::new(),
            is_refused: false,
        }
    }

    fn check(&mut self, bytes: &mut [u8]) {
        for piece in bytes.split_inclusive_mut(|byte| *byte == b'\n') {
            let is_end = piece.last() == Some(&b'\n');
            let text = match piece {
                [text @ .., b'\n'] => text,
                text => text,
            };
            let room = KEPT_BYTES - self.beginning.len();
            self.beginning.extend(text.iter().take(room));
            if !self.is_refused
                && let Err(problem) = self.size.add(text)
            {
                self.is_refused = true;
                let id = MessageHead::of(&self.beginning).id;
                self.refused.add(RefusedMessage { id, problem });
            }
            if self.is_refused {
                text.fill(b' ');
            }
            if is_end {
                self.size = MessageSize::default();
                self.beginning.clear();
                self.is_refused = false;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.check(&mut buffer.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

/// The body of a request that ends with an error as soon as its message is too large in memory. `refuse` is called then.
pub(super) struct BoundedBody<B, F> {
    body: Pin<Box<B>>,
    memory: JsonMemory,
    refuse: F,
}

impl<B, F> BoundedBody<B, F> {
    pub(super) fn new(body: B, refuse: F) -> BoundedBody<B, F> {
        BoundedBody {
            body: Box::pin(body),
            memory: JsonMemory::default(),
            refuse,
        }
    }
}

impl<B, F> Body for BoundedBody<B, F>
where
    B: Body,
    B::Error: Display,
    F: FnMut() + Unpin,
{
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let Some(frame) = ready!(self.body.as_mut().poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = match frame {
            Ok(frame) => frame.map_data(|mut data| data.copy_to_bytes(data.remaining())),
            Err(error) => return Poll::Ready(Some(Err(error.to_string()))),
        };
        if let Some(data) = frame.data_ref() {
            self.memory.add(data);
        }
        if self.memory.bytes() > MAX_MESSAGE_MEMORY {
            (self.refuse)();
            return Poll::Ready(Some(Err(refusal(TooLarge::Memory))));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
