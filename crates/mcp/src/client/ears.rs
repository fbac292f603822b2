//! What a server's standard output was, besides messages of the protocol: for clear words when something is wrong.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// The longest message that is read; a longer one is left out.
pub(super) const LONGEST_LINE: usize = 48 << 20;
/// What is kept of a line that is no message.
const MOST_STRAY: usize = 160;

/// What was heard.
#[derive(Debug, Default)]
pub(super) struct Ears {
    stray: Mutex<Option<String>>,
    too_long: Notify,
}

impl Ears {
    /// The last line that was no message.
    pub(super) fn stray(&self) -> Option<String> {
        self.stray
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for a message that is too long to be read.
    pub(super) async fn too_long(&self) {
        self.too_long.notified().await;
    }
}

/// A stream that is listened to while it is read.
pub(super) struct Overheard<R> {
    stream: R,
    ears: Arc<Ears>,
    /// Bytes of this line so far.
    length: usize,
    /// Its beginning, while it cannot be a message.
    stray: Vec<u8>,
}

impl<R> Overheard<R> {
    pub(super) fn new(stream: R, ears: Arc<Ears>) -> Overheard<R> {
        Overheard {
            stream,
            ears,
            length: 0,
            stray: Vec::new(),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        for (index, piece) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            self.hear_piece(piece);
        }
    }

    fn hear_piece(&mut self, piece: &[u8]) {
        let Some(first) = piece.first() else {
            return;
        };
        let is_message = if self.length == 0 {
            matches!(first, b'{' | b'[')
        } else {
            self.stray.is_empty()
        };
        if !is_message {
            let room = MOST_STRAY - self.stray.len().min(MOST_STRAY);
            self.stray.extend(piece.iter().take(room));
        }
        let before = self.length;
        self.length = before.saturating_add(piece.len());
        if before <= LONGEST_LINE && self.length > LONGEST_LINE {
            self.ears.too_long.notify_waiters();
        }
    }

    fn end_line(&mut self) {
        let stray = std::mem::take(&mut self.stray);
        let text = String::from_utf8_lossy(&stray);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        if !text.trim().is_empty() {
            *self
                .ears
                .stray
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        self.length = 0;
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Overheard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = &polled {
            let new = &buffer.filled()[before..];
            self.hear(new);
            if new.is_empty() {
                // The last line need not end.
                self.end_line();
            }
        }
        polled
    }
}
