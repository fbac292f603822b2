//! Watches the standard output of an MCP server for lines that are no message of the protocol, so that an error can quote them.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// The longest message that is read. A longer one is skipped.
pub(super) const MAX_LINE_BYTES: usize = 48 << 20;
/// The bytes that are kept of a line that is no message.
const MAX_STRAY_BYTES: usize = 160;

/// What was seen on a server's standard output besides messages.
#[derive(Debug, Default)]
pub(super) struct StdoutMonitor {
    stray: Mutex<Option<String>>,
    too_long: Notify,
}

impl StdoutMonitor {
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

/// A reader that reports the lines it reads to a [`StdoutMonitor`].
pub(super) struct MonitoredReader<R> {
    stream: R,
    monitor: Arc<StdoutMonitor>,
    /// The bytes of the current line so far.
    length: usize,
    /// The beginning of the current line, if it cannot be a message.
    stray: Vec<u8>,
}

impl<R> MonitoredReader<R> {
    pub(super) fn new(stream: R, monitor: Arc<StdoutMonitor>) -> MonitoredReader<R> {
        MonitoredReader {
            stream,
            monitor,
            length: 0,
            stray: Vec::new(),
        }
    }

    fn scan(&mut self, bytes: &[u8]) {
        for (index, piece) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            self.scan_piece(piece);
        }
    }

    fn scan_piece(&mut self, piece: &[u8]) {
        let Some(first) = piece.first() else {
            return;
        };
        let is_message = if self.length == 0 {
            matches!(first, b'{' | b'[')
        } else {
            self.stray.is_empty()
        };
        if !is_message {
            let rest = MAX_STRAY_BYTES - self.stray.len().min(MAX_STRAY_BYTES);
            self.stray.extend(piece.iter().take(rest));
        }
        let before = self.length;
        self.length = before.saturating_add(piece.len());
        if before <= MAX_LINE_BYTES && self.length > MAX_LINE_BYTES {
            self.monitor.too_long.notify_waiters();
        }
    }

    fn end_line(&mut self) {
        let stray = std::mem::take(&mut self.stray);
        let text = String::from_utf8_lossy(&stray);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        if !text.trim().is_empty() {
            *self
                .monitor
                .stray
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        self.length = 0;
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MonitoredReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = &polled {
            let new = &buffer.filled()[before..];
            self.scan(new);
            if new.is_empty() {
                // The last line may have no line break.
                self.end_line();
            }
        }
        polled
    }
}
