//! The link to a session's init: the one place that sends to init and receives from it.
//!
//! Packets from init are of two kinds. An **answer** belongs to a request and goes to the caller that waits for it. An **event** comes
//! by itself at any time and waits in a queue, in order, until the session's task takes it. So a request can be made in every state
//! of a session, also while a cell runs, and no wait for one thing loses another.
//!
//! To add a request with an answer: implement [`InitRequest`]. To add an event: a variant of [`InitEvent`], and an arm where the
//! session's task takes events (`LiveSession::note_init_event`).

use crate::Error;
use crate::wire::packets::Packets;
use cellblock_sandbox::{
    ForkFailure, ForkFinding, FromInit, HeadExit, Packet, StandbyOrigin, ToInit,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The host's end of the socket of one init.
pub(crate) struct InitLink {
    packets: Packets,
    events: VecDeque<InitEvent>,
    /// One function for each request without an answer, oldest first. It takes the packet if that is the answer.
    waiting: Vec<WaitingRequest>,
}

type WaitingRequest = Box<dyn FnMut(&FromInit) -> Delivery + Send + Sync>;

/// Something that init tells without being asked. Init never runs code of the user's, so it is evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum InitEvent {
    /// The head ended, and nothing that it started is left.
    HeadEnded(HeadExit),
    /// A standby died by itself.
    StandbyLost { pid: u32 },
}

/// A request that init answers once.
pub(crate) trait InitRequest: Send + Sync + 'static {
    type Answer: Send + 'static;

    /// The wire form of the request.
    fn to_bytes(&self) -> Vec<u8>;

    /// Reads the answer to this request; `None` for every other packet.
    fn read_answer(&self, message: &FromInit) -> Option<Self::Answer>;
}

/// Asks init to take a process for a standby: a process that was made when the host asked for it, and no other. The answer says whether it did.
pub(crate) struct Protect {
    pub(crate) pid: u32,
    pub(crate) origin: StandbyOrigin,
}

impl InitRequest for Protect {
    type Answer = bool;

    fn to_bytes(&self) -> Vec<u8> {
        let Protect { pid, origin } = *self;
        ToInit::Protect { pid, origin }.to_bytes()
    }

    fn read_answer(&self, message: &FromInit) -> Option<bool> {
        match message {
            FromInit::Protected { pid, done } if *pid == self.pid => Some(*done),
            _ => None,
        }
    }
}

/// Asks init to let a standby go on as the head. The answer says whether it does.
pub(crate) struct Wake {
    pub(crate) pid: u32,
}

impl InitRequest for Wake {
    type Answer = bool;

    fn to_bytes(&self) -> Vec<u8> {
        ToInit::Wake(self.pid).to_bytes()
    }

    fn read_answer(&self, message: &FromInit) -> Option<bool> {
        match message {
            FromInit::Woken { pid, done } if *pid == self.pid => Some(*done),
            _ => None,
        }
    }
}

/// Asks init for the init and the namespaces of a fork.
pub(crate) struct PrepareFork {
    /// The wire form, from `cellblock_sandbox::fork_request`.
    pub(crate) request: Vec<u8>,
}

impl InitRequest for PrepareFork {
    type Answer = Result<(), ForkFailure>;

    fn to_bytes(&self) -> Vec<u8> {
        self.request.clone()
    }

    fn read_answer(&self, message: &FromInit) -> Option<Self::Answer> {
        match message {
            FromInit::Prepared(outcome) => Some(*outcome),
            _ => None,
        }
    }
}

/// Asks the init of a new fork what the fork still holds of its parent.
pub(crate) struct CheckFork {
    /// The inode of the head's end of its channel.
    pub(crate) channel: u64,
}

impl InitRequest for CheckFork {
    type Answer = ForkFinding;

    fn to_bytes(&self) -> Vec<u8> {
        let CheckFork { channel } = *self;
        ToInit::CheckFork { channel }.to_bytes()
    }

    fn read_answer(&self, message: &FromInit) -> Option<ForkFinding> {
        match message {
            FromInit::ForkChecked(finding) => Some(*finding),
            _ => None,
        }
    }
}

/// The answer to a request that was sent. It arrives while the session's task polls the link, by whichever method.
///
/// The session's task waits for it with [`InitLink::wait_for`]. Another task awaits the value itself, and gets `None` when the link
/// is gone. In the session's own task that would wait for ever.
#[derive(Debug)]
pub(crate) struct PendingAnswer<T>(oneshot::Receiver<T>);

impl<T> Future for PendingAnswer<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(Result::ok)
    }
}

/// The outcome of offering a packet to a waiting request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// The packet was the answer.
    Delivered,
    /// The packet was something else.
    NotForThis,
    /// The caller is gone: the request waits for nothing any more.
    CallerGone,
}

/// A session whose init has started.
#[derive(Debug)]
pub(crate) struct Started {
    /// The head's process id inside.
    pub(crate) head: u32,
    /// Whether init asks before files are changed.
    pub(crate) asks: bool,
    /// Sockets that listen on the session's loopback, with the number of the port in the order in which ports were asked for.
    pub(crate) listeners: Vec<(usize, OwnedFd)>,
}

impl InitLink {
    /// Takes the host's end of init's socket.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<InitLink> {
        const MAX_PACKET_BYTES: usize = 4096;
        Ok(InitLink {
            packets: Packets::new(socket, MAX_PACKET_BYTES)?,
            events: VecDeque::new(),
            waiting: Vec::new(),
        })
    }

    /// Waits until init says that the session has started. Nothing else can come before.
    pub(crate) async fn wait_until_started(&mut self) -> Result<Started, Error> {
        let mut listeners = Vec::new();
        loop {
            let gone = ended_while("waiting for the session's init");
            let Packet {
                bytes,
                mut descriptors,
            } = self.packets.receive().await.map_err(gone)?;
            match (FromInit::from_bytes(&bytes)?, descriptors.pop()) {
                (FromInit::Started { head, asks }, _) => {
                    return Ok(Started {
                        head,
                        asks,
                        listeners,
                    });
                }
                (FromInit::LoopbackSocket { number }, Some(socket)) => {
                    listeners.push((number, socket));
                }
                _ => return Err(cellblock_sandbox::Error::Protocol { process: "init" }.into()),
            }
        }
    }

    /// Tells init something that has no answer.
    pub(crate) async fn tell(&self, message: ToInit) -> io::Result<()> {
        self.packets.send(&message.to_bytes(), &[]).await
    }

    /// Sends bytes that are no message, with descriptors: what a container's process 1 waits for first.
    pub(crate) async fn send_descriptors(
        &self,
        label: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.packets.send(label, descriptors).await
    }

    /// Sends a request and returns at once. Dropping the answer is allowed: init's packet is then thrown away.
    pub(crate) async fn send_request<R: InitRequest>(
        &mut self,
        request: R,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<PendingAnswer<R::Answer>> {
        self.packets.send(&request.to_bytes(), descriptors).await?;
        let (sender, answer) = oneshot::channel();
        let mut sender = Some(sender);
        self.waiting.push(Box::new(move |message| {
            if sender.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return Delivery::CallerGone;
            }
            match request.read_answer(message) {
                Some(answer) => {
                    _ = sender.take().map(|sender| sender.send(answer));
                    Delivery::Delivered
                }
                None => Delivery::NotForThis,
            }
        }));
        Ok(PendingAnswer(answer))
    }

    /// Waits for the answer to a request. Events that come meanwhile wait in the queue.
    pub(crate) async fn wait_for<T>(&mut self, answer: &mut PendingAnswer<T>) -> io::Result<T> {
        loop {
            match answer.0.try_recv() {
                Ok(answer) => return Ok(answer),
                Err(oneshot::error::TryRecvError::Empty) => self.receive().await?,
                // This is not the link that the request was sent on.
                Err(oneshot::error::TryRecvError::Closed) => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request<R: InitRequest>(&mut self, request: R) -> io::Result<R::Answer> {
        let mut answer = self.send_request(request, &[]).await?;
        self.wait_for(&mut answer).await
    }

    /// The next event. An error means that init is gone. Safe to drop while it waits.
    pub(crate) async fn next_event(&mut self) -> io::Result<InitEvent> {
        loop {
            if let Some(event) = self.take_event() {
                return Ok(event);
            }
            self.receive().await?;
        }
    }

    /// The oldest event that has come, if there is one.
    pub(crate) fn take_event(&mut self) -> Option<InitEvent> {
        self.events.pop_front()
    }

    /// Whether nothing came from init, not even its end. What came is lost.
    pub(crate) fn is_silent(&self) -> bool {
        self.events.is_empty() && self.packets.is_silent()
    }

    /// Tells init that the host is done, and waits until init has gone with everything in it.
    pub(crate) async fn close(&mut self) {
        self.packets.close();
        while self.receive().await.is_ok() {}
    }

    /// Receives one packet and routes it: an answer to the request that waits for it, an event into the queue. Safe to drop while it waits.
    async fn receive(&mut self) -> io::Result<()> {
        let packet = self.packets.receive().await?;
        match FromInit::from_bytes(&packet.bytes).map_err(io::Error::other)? {
            FromInit::Ended(death) => self.events.push_back(InitEvent::HeadEnded(death)),
            FromInit::Lost { pid } => self.events.push_back(InitEvent::StandbyLost { pid }),
            answer => self.deliver(&answer),
        }
        Ok(())
    }

    /// Gives an answer to the oldest request that it fits. An answer that no caller waits for is thrown away.
    fn deliver(&mut self, answer: &FromInit) {
        let mut is_delivered = false;
        self.waiting.retain_mut(|offer| {
            if is_delivered {
                return true;
            }
            let delivery = offer(answer);
            is_delivered = delivery == Delivery::Delivered;
            delivery == Delivery::NotForThis
        });
    }
}

/// The error for the end of a socket that belongs to a session's processes: "end of file" says little to a person.
pub(crate) fn ended_while(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let source = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "its processes have ended")
            }
            _ => error,
        };
        Error::System { what, source }
    }
}

#[cfg(test)]
#[path = "init_link_tests.rs"]
mod tests;
