//! Requests from node to node, at most once.

use super::EngineError;
use crate::names::NodeId;
use crate::runtime::BoxFuture;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Why a request got no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No process listens under the node's id: the node has ended. The request was not delivered.
    #[error("the node has ended")]
    NoResponder,
    /// No reply came in time. The request may be delivered, now or later.
    #[error("no reply came")]
    Silent,
}

/// A request that reached its node.
pub struct Incoming {
    /// The request.
    pub message: Bytes,
    reply: Box<dyn FnOnce(Bytes) + Send>,
}

impl Incoming {
    /// A request whose reply is passed to `reply`.
    pub fn new(message: Bytes, reply: impl FnOnce(Bytes) + Send + 'static) -> Incoming {
        Incoming {
            message,
            reply: Box::new(reply),
        }
    }

    /// Replies. A request that is dropped gets no reply, and its sender sees silence.
    pub fn reply(self, message: Bytes) {
        (self.reply)(message);
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Incoming")
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// A request for a node in the same process, and where its reply arrives.
pub fn reply_channel(message: Bytes) -> (Incoming, oneshot::Receiver<Bytes>) {
    let (sender, receiver) = oneshot::channel();
    let reply = move |reply| {
        let _ = sender.send(reply);
    };
    (Incoming::new(message, reply), receiver)
}

/// Requests to nodes. Delivery is at most once: requests and replies may be lost, and senders repeat them.
pub trait Router: Send + Sync {
    /// Sends a request and waits for its reply, but no longer than `time`.
    fn request<'a>(
        &'a self,
        node: &'a NodeId,
        message: Bytes,
        time: Duration,
    ) -> BoxFuture<'a, Result<Bytes, RequestError>>;

    /// Receives the requests to a node, until the receiver is dropped.
    fn serve<'a>(
        &'a self,
        node: &'a NodeId,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<Incoming>, EngineError>>;
}
