//! The head's channel: frames, asynchronously. Everything that comes out of it is hostile.

use cellblock_protocol::codec::{FrameDecoder, MAX_FRAME_FROM_HEAD};
use cellblock_protocol::guest::{FromHead, ToHead};
use cellblock_sandbox::{async_fd, receive_bytes, send_bytes};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The channel of one head. Each head that follows another has a channel of its own.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: AsyncFd<OwnedFd>,
    /// The inode of the head's end.
    far: u64,
    decoder: FrameDecoder,
    buffer: Box<[u8]>,
    /// How often in a row an answer was waited for awake, and did not come.
    failed_spins: u32,
}

impl Channel {
    /// The host's end of a pair of sockets; `far` is the inode of the head's end.
    pub(crate) fn new(socket: OwnedFd, far: u64) -> io::Result<Channel> {
        let buffer = vec![0; 64 << 10].into_boxed_slice();
        Ok(Channel {
            socket: async_fd(socket)?,
            far,
            decoder: FrameDecoder::new(MAX_FRAME_FROM_HEAD),
            buffer,
            failed_spins: 0,
        })
    }

    /// The inode of the head's end. Only the host sends to it, so descriptors that wait in it are the host's.
    pub(crate) fn far(&self) -> u64 {
        self.far
    }

    /// The number of the host's end.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
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

    /// The next frame, if it comes within a moment: many answers take less time than to fall asleep and be woken.
    ///
    /// Other tasks wait meanwhile, so it is not done where it was in vain lately.
    pub(crate) fn receive_soon(&mut self) -> io::Result<Option<FromHead>> {
        const MAX_SPIN: Duration = Duration::from_micros(200);
        const MAX_FAILED_SPINS: u32 = 3;
        const RETRY_INTERVAL: u32 = 20;
        if self.failed_spins >= MAX_FAILED_SPINS
            && !self.failed_spins.is_multiple_of(RETRY_INTERVAL)
        {
            self.failed_spins += 1;
            return Ok(None);
        }
        let begun = Instant::now();
        loop {
            match receive_bytes(&self.socket, &mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.decoder.feed(&self.buffer[..read]);
                    if let Some(frame) = self.next_in_buffer()? {
                        self.failed_spins = 0;
                        return Ok(Some(frame));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if begun.elapsed() > MAX_SPIN {
                        self.failed_spins += 1;
                        return Ok(None);
                    }
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn next_in_buffer(&mut self) -> io::Result<Option<FromHead>> {
        match self.decoder.next_frame().map_err(io::Error::other)? {
            Some(frame) => FromHead::parse(&frame).map(Some).map_err(io::Error::other),
            None => Ok(None),
        }
    }

    /// The next frame. An error means that nothing sensible will come any more. Safe to drop while it waits: what was read stays
    /// in the decoder.
    pub(crate) async fn receive(&mut self) -> io::Result<FromHead> {
        loop {
            if let Some(frame) = self.next_in_buffer()? {
                return Ok(frame);
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
