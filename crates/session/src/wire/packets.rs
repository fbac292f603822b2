//! Packet sockets, asynchronously; and questions over one, one at a time.

use cellblock_sandbox::{Packet, async_fd, receive_packet, send_packet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

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

/// The host's end of a socket on which each question has one answer.
///
/// The caller may go away before the answer comes. The answer is then thrown away, and never taken for the answer to the next question.
#[derive(Debug)]
pub(crate) struct Exchange {
    state: Mutex<ExchangeState>,
    is_answer: fn(&Packet) -> bool,
}

#[derive(Debug)]
struct ExchangeState {
    packets: Packets,
    /// Whether an answer is under way that was not taken yet.
    is_answer_pending: bool,
}

impl Exchange {
    /// Packets that are no answers are passed over: they are news.
    pub(crate) fn new(packets: Packets, is_answer: fn(&Packet) -> bool) -> Exchange {
        let state = ExchangeState {
            packets,
            is_answer_pending: false,
        };
        Exchange {
            state: Mutex::new(state),
            is_answer,
        }
    }

    pub(crate) async fn ask(
        &self,
        question: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Packet> {
        let mut state = self.state.lock().await;
        if state.is_answer_pending {
            state.answer(self.is_answer).await?;
        }
        state.packets.send(question, descriptors).await?;
        state.is_answer_pending = true;
        state.answer(self.is_answer).await
    }
}

impl ExchangeState {
    async fn answer(&mut self, is_answer: fn(&Packet) -> bool) -> io::Result<Packet> {
        loop {
            let packet = self.packets.receive().await?;
            if is_answer(&packet) {
                self.is_answer_pending = false;
                return Ok(packet);
            }
        }
    }
}
