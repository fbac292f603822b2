//! Watched directories of one session of the pipe: their changes go out as `fs` events.

use super::operations::OperationError;
use super::server::{PipeServer, lock};
use cellblock::pipe::{RequestId, Response};
use cellblock::{Below, Event, PathWatch, Session};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// The watches of a session, by their names. Dropping the sender of a watch ends it.
#[derive(Default)]
pub(crate) struct Watches {
    running: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
    last: u64,
}

impl Watches {
    /// Begins a watch, whose changes are not passed on yet.
    pub(crate) async fn begin(
        &mut self,
        session: &Session,
        path: &str,
        below: Below,
    ) -> Result<NewWatch, OperationError> {
        let watch = session.paths().watch(path, below).await;
        let watch =
            watch.map_err(|error| OperationError::from(cellblock::Error::Session(error)))?;
        self.last += 1;
        let name = format!("w{}", self.last);
        let (end, ended) = oneshot::channel();
        lock(&self.running).insert(name.clone(), end);
        Ok(NewWatch {
            name,
            watch,
            ended,
            running: Arc::clone(&self.running),
        })
    }

    /// Ends a watch.
    pub(crate) fn end(&self, name: &str) -> Result<(), OperationError> {
        let ended = lock(&self.running).remove(name);
        ended
            .map(drop)
            .ok_or_else(|| OperationError::new("not_found", format!("there is no watch `{name}`")))
    }
}

/// A watch that has begun.
pub(crate) struct NewWatch {
    pub(crate) name: String,
    watch: PathWatch,
    ended: oneshot::Receiver<()>,
    running: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
}

impl NewWatch {
    /// Passes on the changes, until the watch is ended or the session is over.
    pub(crate) fn forward(self, server: &Arc<PipeServer>, session: &str, id: Option<RequestId>) {
        let (server, session) = (Arc::clone(server), session.to_owned());
        let counted = server.count_task();
        let NewWatch {
            name,
            mut watch,
            mut ended,
            running,
        } = self;
        tokio::spawn(async move {
            loop {
                let changes = tokio::select! {
                    biased;
                    _ = &mut ended => break,
                    changes = watch.next() => changes,
                };
                let Some(changes) = changes else {
                    break;
                };
                for change in changes {
                    let watch = name.clone();
                    let event = Event::Fs { watch, change };
                    let response = Response::event(id.clone(), session.clone(), event);
                    server.writer.send(response).await;
                }
            }
            drop(watch);
            lock(&running).remove(&name);
            let end = Event::FsEnd { watch: name };
            server.writer.send(Response::event(id, session, end)).await;
            drop(counted);
        });
    }
}
