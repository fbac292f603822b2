//! Questions over a packet socket, one at a time.

use crate::wire::packets::Packets;
use cellblock_sandbox::Packet;
use std::io;
use std::os::fd::BorrowedFd;
use tokio::sync::Mutex;

/// The host's end of a socket on which each question has one answer.
///
/// Whoever asks may go away before the answer comes. It is then thrown away, and never taken for the answer to the next question.
#[derive(Debug)]
pub(crate) struct Exchange {
    line: Mutex<Line>,
    is_answer: fn(&Packet) -> bool,
}

#[derive(Debug)]
struct Line {
    packets: Packets,
    /// Whether an answer is under way that nobody took yet.
    owed: bool,
}

impl Exchange {
    /// Packets that are no answers are passed over: they are news.
    pub(crate) fn new(packets: Packets, is_answer: fn(&Packet) -> bool) -> Exchange {
        let line = Line {
            packets,
            owed: false,
        };
        Exchange {
            line: Mutex::new(line),
            is_answer,
        }
    }

    pub(crate) async fn ask(
        &self,
        question: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Packet> {
        let mut line = self.line.lock().await;
        if line.owed {
            line.answer(self.is_answer).await?;
        }
        line.packets.send(question, descriptors).await?;
        line.owed = true;
        line.answer(self.is_answer).await
    }
}

impl Line {
    async fn answer(&mut self, is_answer: fn(&Packet) -> bool) -> io::Result<Packet> {
        loop {
            let packet = self.packets.receive().await?;
            if is_answer(&packet) {
                self.owed = false;
                return Ok(packet);
            }
        }
    }
}
