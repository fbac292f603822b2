//! The way of a kernel's messages to its clients.

use crate::message::{Channel, Message, MessageFactory};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// The messages that wait for the transport. When they are not taken, the cell waits.
const MAX_WAITING_MESSAGES: usize = 256;

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The channel to send it on.
    pub channel: Channel,
    /// The message.
    pub message: Message,
}

/// The sending ends of the queues to a transport.
#[derive(Clone, Debug)]
pub struct OutgoingQueues {
    /// Output, and replies of the shell channel, in the order in which they must be sent: output comes before the reply that ends it.
    ordered: mpsc::Sender<Outgoing>,
    /// Replies of the control channel. They never wait for a client that does not read output.
    control: mpsc::Sender<Outgoing>,
}

/// The queues between a kernel and its transport: the sending ends, the ordered messages, the control replies.
pub fn outgoing_queues() -> (
    OutgoingQueues,
    mpsc::Receiver<Outgoing>,
    mpsc::Receiver<Outgoing>,
) {
    let (ordered, ordered_messages) = mpsc::channel(MAX_WAITING_MESSAGES);
    let (control, control_messages) = mpsc::channel(MAX_WAITING_MESSAGES);
    let queues = OutgoingQueues { ordered, control };
    (queues, ordered_messages, control_messages)
}

/// Makes messages and sends them.
#[derive(Clone, Debug)]
pub(super) struct MessageSender {
    factory: MessageFactory,
    queues: OutgoingQueues,
}

/// Whether a kernel works on a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExecutionState {
    Starting,
    Busy,
    Idle,
}

impl ExecutionState {
    fn content(self) -> Value {
        let state = match self {
            Self::Starting => "starting",
            Self::Busy => "busy",
            Self::Idle => "idle",
        };
        json!({"execution_state": state})
    }
}

impl MessageSender {
    pub(super) fn new(factory: MessageFactory, queues: OutgoingQueues) -> Self {
        Self { factory, queues }
    }

    /// Shows something to all clients.
    pub(super) async fn publish(&self, kind: &str, parent: &Map<String, Value>, content: Value) {
        let message = self.factory.published(kind, parent, content);
        self.send(Channel::Iopub, message).await;
    }

    /// Shows something that has metadata or buffers.
    pub(super) async fn publish_with(
        &self,
        kind: &str,
        parent: &Map<String, Value>,
        content: Value,
        complete: impl FnOnce(&mut Message),
    ) {
        let mut message = self.factory.published(kind, parent, content);
        complete(&mut message);
        self.send(Channel::Iopub, message).await;
    }

    pub(super) async fn status(&self, state: ExecutionState, parent: &Map<String, Value>) {
        self.publish("status", parent, state.content()).await;
    }

    /// Replies on the shell channel.
    pub(super) async fn reply(&self, kind: &str, request: &Message, content: Value) {
        let message = self.factory.reply(kind, request, content);
        self.send(Channel::Shell, message).await;
    }

    /// Replies on the shell channel, with what only our own clients understand in the metadata.
    pub(super) async fn reply_with(
        &self,
        kind: &str,
        request: &Message,
        content: Value,
        metadata: Value,
    ) {
        let mut message = self.factory.reply(kind, request, content);
        message.metadata = metadata;
        self.send(Channel::Shell, message).await;
    }

    /// Asks the client of a request.
    pub(super) async fn ask(&self, request: &Message, content: Value) {
        let message = self.factory.reply("input_request", request, content);
        self.send(Channel::Stdin, message).await;
    }

    /// Replies on the control channel, with the status around it where the queue of output has room.
    pub(super) async fn control_reply(&self, kind: &str, request: &Message, content: Value) {
        self.try_status(ExecutionState::Busy, request);
        let message = self.factory.reply(kind, request, content);
        let channel = Channel::Control;
        let _ = self
            .queues
            .control
            .send(Outgoing { channel, message })
            .await;
        self.try_status(ExecutionState::Idle, request);
    }

    fn try_status(&self, state: ExecutionState, request: &Message) {
        let message = self
            .factory
            .published("status", &request.header, state.content());
        let channel = Channel::Iopub;
        let _ = self.queues.ordered.try_send(Outgoing { channel, message });
    }

    async fn send(&self, channel: Channel, message: Message) {
        // Without a transport there is no client that could miss it.
        let _ = self
            .queues
            .ordered
            .send(Outgoing { channel, message })
            .await;
    }
}
