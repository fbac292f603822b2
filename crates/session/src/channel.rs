//! The head's channel: frames, asynchronously. Everything that comes out of it is hostile.

use cellblock_protocol::codec::{FrameDecoder, MAX_FRAME_FROM_HEAD};
use cellblock_protocol::guest::{FromHead, ToHead};
use cellblock_sandbox::{readiness, receive_bytes, send_bytes};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One generation's channel.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: AsyncFd<OwnedFd>,
    decoder: FrameDecoder,
    buffer: Box<[u8]>,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Channel> {
        let buffer = vec![0; 64 << 10].into_boxed_slice();
        Ok(Channel {
            socket: readiness(socket)?,
            decoder: FrameDecoder::new(MAX_FRAME_FROM_HEAD),
            buffer,
        })
    }

    /// Sends one frame. The head may be stuck and not read: the caller bounds the time.
    pub(crate) async fn send(&self, message: &ToHead) -> io::Result<()> {
        self.send_with(message, None).await
    }

    /// Sends one frame and a descriptor with it.
    pub(crate) async fn send_with(
        &self,
        message: &ToHead,
        mut enclosed: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let frame = message.to_frame().map_err(io::Error::other)?;
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let written = self
                .socket
                .async_io(Interest::WRITABLE, |socket| {
                    send_bytes(socket, rest, enclosed)
                })
                .await?;
            enclosed = None;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// The next frame. An error means that nothing sensible will come any more. Safe to drop while it waits: what was read stays
    /// in the decoder.
    pub(crate) async fn receive(&mut self) -> io::Result<FromHead> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
                return FromHead::parse(&frame).map_err(io::Error::other);
            }
            let buffer = &mut self.buffer;
            let read = self
                .socket
                .async_io(Interest::READABLE, |socket| receive_bytes(socket, buffer))
                .await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.decoder.feed(&self.buffer[..read]);
        }
    }
}
