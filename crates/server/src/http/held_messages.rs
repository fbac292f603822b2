//! Messages of WebSockets, which count for their user while they come in.
//!
//! The library of WebSockets keeps a message in memory until it is whole. So the bytes are counted below it, where they are read from the
//! connection.

use super::held_bodies::HeldBody;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The message that a connection is reading. A handle: requests carry a clone of it among their extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldMessage(Arc<Mutex<Option<HeldBody>>>);

impl HeldMessage {
    /// Counts what comes from now on. Without this, nothing is counted.
    pub(crate) fn begin(&self, held: HeldBody) {
        *self.lock() = Some(held);
    }

    /// Frees what came so far: a whole message was taken.
    pub(crate) fn clear(&self) {
        if let Some(held) = &mut *self.lock() {
            held.clear();
        }
    }

    fn add(&self, bytes: usize) -> io::Result<()> {
        match &mut *self.lock() {
            Some(held) => held
                .add(bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error.message)),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HeldBody>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection whose bytes are counted. It breaks when they are too many.
#[derive(Debug)]
pub(crate) struct CountedStream<S> {
    stream: S,
    message: HeldMessage,
}

impl<S> CountedStream<S> {
    pub(crate) fn new(stream: S, message: HeldMessage) -> CountedStream<S> {
        CountedStream { stream, message }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.message.add(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
