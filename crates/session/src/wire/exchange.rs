//! Questions over a packet socket, one at a time.

use crate::wire::packets::Packets;
use cellblock_sandbox::Packet;
use std::io;
use std::os::fd::BorrowedFd;
use tokio::sync::Mutex;

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
