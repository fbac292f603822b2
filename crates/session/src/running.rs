//! A cell that runs: its events as they come, and its result at the end.

use crate::{Error, Session};
use cellblock_protocol::{CellResult, Event};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// A cell that was started and may still be running. Dropping it does not stop the cell; [`Session::interrupt`] does.
#[derive(Debug)]
pub struct Running {
    pub(crate) session: Session,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) result: Option<oneshot::Receiver<Result<CellResult, Error>>>,
}

impl Running {
    /// The next event. The last one is [`Event::Result`], or [`Event::Error`] when the session ended under the cell; after it
    /// comes `None`.
    ///
    /// A reader that stops reading stops the cell's output, not the host's memory from being free: the queue is bounded.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.events.recv().await {
            return Some(event);
        }
        let outcome = self.take_result().await?;
        Some(match outcome {
            Ok(result) => Event::Result {
                result: Box::new(result),
            },
            Err(error) => Event::Error {
                code: error.code().to_owned(),
                message: error.to_string(),
            },
        })
    }

    /// Waits for the end and passes over the events on the way.
    pub async fn result(mut self) -> Result<CellResult, Error> {
        while self.events.recv().await.is_some() {}
        match self.take_result().await {
            Some(outcome) => outcome,
            None => Err(self.session.ended()),
        }
    }

    /// Answers a tool call of this cell.
    pub fn tool_result(&self, call: &str, outcome: Result<Value, String>) {
        self.session.tool_result(call, outcome);
    }

    /// Answers a request for input of this cell.
    pub fn input(&self, call: &str, outcome: Result<String, String>) {
        self.session.input(call, outcome);
    }

    async fn take_result(&mut self) -> Option<Result<CellResult, Error>> {
        let receiver = self.result.take()?;
        Some(receiver.await.unwrap_or_else(|_| Err(self.session.ended())))
    }
}
