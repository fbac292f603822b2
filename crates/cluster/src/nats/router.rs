//! Requests from node to node over NATS subjects.

use super::failed;
use crate::engine::{EngineError, Incoming, RequestError, Router};
use crate::lock::lock;
use crate::names::NodeId;
use crate::runtime::{BoxFuture, Runtime};
use async_nats::{Client, Event, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// How many requests wait for a node. Further ones are lost.
const MAX_QUEUED: usize = 4096;

/// How long after a reconnect "no responders" means nothing: the servers have not told each other yet which nodes listen. Without this,
/// the restart of a server would move every session.
const RECONNECT_GRACE: Duration = Duration::from_secs(3);

/// When this client was last connected again after it had lost its connection.
pub(super) struct Reconnects {
    runtime: Arc<dyn Runtime>,
    state: Mutex<Connection>,
}

enum Connection {
    First,
    Lost,
    Again { at: Duration },
}

impl Reconnects {
    pub(super) fn new(runtime: Arc<dyn Runtime>) -> Reconnects {
        Reconnects {
            runtime,
            state: Mutex::new(Connection::First),
        }
    }

    pub(super) fn note(&self, event: &Event) {
        let mut state = lock(&self.state);
        match (event, &*state) {
            (Event::Disconnected, _) => *state = Connection::Lost,
            (Event::Connected, Connection::Lost) => {
                let at = self.runtime.now();
                *state = Connection::Again { at };
            }
            _ => {}
        }
    }

    fn is_recent(&self) -> bool {
        match *lock(&self.state) {
            Connection::First => false,
            Connection::Lost => true,
            Connection::Again { at } => self.runtime.now() < at + RECONNECT_GRACE,
        }
    }
}

pub(super) struct NatsRouter {
    client: Client,
    reconnects: Arc<Reconnects>,
    prefix: String,
}

impl NatsRouter {
    pub(super) fn new(client: Client, reconnects: Arc<Reconnects>, prefix: &str) -> NatsRouter {
        NatsRouter {
            client,
            reconnects,
            prefix: format!("{prefix}.r."),
        }
    }
}

impl Router for NatsRouter {
    fn request<'a>(
        &'a self,
        node: &'a NodeId,
        message: Bytes,
        time: Duration,
    ) -> BoxFuture<'a, Result<Bytes, RequestError>> {
        Box::pin(async move {
            let subject = format!("{}{node}", self.prefix);
            let request = Request::new().payload(message).timeout(Some(time));
            match self.client.send_request(subject, request).await {
                Ok(reply) => Ok(reply.payload),
                Err(error)
                    if error.kind() == RequestErrorKind::NoResponders
                        && !self.reconnects.is_recent() =>
                {
                    Err(RequestError::NoResponder)
                }
                Err(_) => Err(RequestError::Silent),
            }
        })
    }

    fn serve<'a>(
        &'a self,
        node: &'a NodeId,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<Incoming>, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}{node}", self.prefix);
            let mut messages = self.client.subscribe(subject).await.map_err(failed)?;
            self.client.flush().await.map_err(failed)?;
            let (sender, receiver) = mpsc::channel(MAX_QUEUED);
            let client = self.client.clone();
            tokio::spawn(async move {
                loop {
                    let message = tokio::select! {
                        () = sender.closed() => break,
                        message = messages.next() => message,
                    };
                    let Some(message) = message else {
                        break;
                    };
                    let Some(reply_to) = message.reply else {
                        continue;
                    };
                    let client = client.clone();
                    let reply = move |reply| {
                        tokio::spawn(async move { client.publish(reply_to, reply).await });
                    };
                    // A full queue loses the request; its sender repeats it.
                    let _ = sender.try_send(Incoming::new(message.payload, reply));
                }
                let _ = messages.unsubscribe().await;
            });
            Ok(receiver)
        })
    }
}
