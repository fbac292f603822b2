//! Requests between nodes of one process: channels.

use crate::engine::{EngineError, Incoming, RequestError, Router, reply_channel};
use crate::lock::lock;
use crate::names::NodeId;
use crate::runtime::{BoxFuture, Runtime, timeout};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// How many requests wait for a node. Further ones are lost, as they may be on any network.
const MAX_QUEUED: usize = 4096;

/// Requests between parts of this process.
pub(super) struct LocalRouter {
    runtime: Arc<dyn Runtime>,
    nodes: Mutex<BTreeMap<NodeId, mpsc::Sender<Incoming>>>,
}

impl LocalRouter {
    pub(super) fn new(runtime: Arc<dyn Runtime>) -> LocalRouter {
        LocalRouter {
            runtime,
            nodes: Mutex::default(),
        }
    }
}

impl Router for LocalRouter {
    fn request<'a>(
        &'a self,
        node: &'a NodeId,
        message: Bytes,
        time: Duration,
    ) -> BoxFuture<'a, Result<Bytes, RequestError>> {
        Box::pin(async move {
            let sender = lock(&self.nodes).get(node).cloned();
            let sender = sender.ok_or(RequestError::NoResponder)?;
            let (incoming, reply) = reply_channel(message);
            match sender.try_send(incoming) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => {}
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(RequestError::NoResponder),
            }
            match timeout(&*self.runtime, time, reply).await {
                Some(Ok(reply)) => Ok(reply),
                Some(Err(_)) | None => Err(RequestError::Silent),
            }
        })
    }

    fn serve<'a>(
        &'a self,
        node: &'a NodeId,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<Incoming>, EngineError>> {
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED);
            lock(&self.nodes).insert(node.clone(), sender);
            Ok(receiver)
        })
    }
}
