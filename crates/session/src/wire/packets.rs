//! Packet sockets, asynchronously.

use cellblock_sandbox::{Packet, async_fd, receive_packet, send_packet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The host's end of a packet socket.
#[derive(Debug)]
pub(crate) struct Packets {
    socket: AsyncFd<OwnedFd>,
    most: usize,
}

impl Packets {
    /// Takes a non-blocking socket; packets longer than `most` bytes are cut.
    pub(crate) fn new(socket: OwnedFd, most: usize) -> io::Result<Packets> {
        Ok(Packets {
            socket: async_fd(socket)?,
            most,
        })
    }

    pub(crate) async fn send(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.socket
            .async_io(Interest::WRITABLE, |socket| {
                send_packet(socket, bytes, descriptors)
            })
            .await
    }

    /// Sends what there is room for now.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<()> {
        send_packet(self.socket.get_ref(), bytes, &[])
    }

    /// Says that nothing more will be sent: the other side sees the end.
    pub(crate) fn close(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// Whether nothing came that was not taken, not even the end of the other side. What came is lost.
    pub(crate) fn is_silent(&self) -> bool {
        let outcome = receive_packet(self.socket.get_ref(), self.most);
        outcome.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The next packet; the end of the other side is an error.
    pub(crate) async fn receive(&self) -> io::Result<Packet> {
        let packet = self
            .socket
            .async_io(Interest::READABLE, |socket| {
                receive_packet(socket, self.most)
            })
            .await?;
        if packet.bytes.is_empty() {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(packet)
        }
    }
}
