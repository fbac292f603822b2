//! A cell that runs: its events as they come, and its result at the end.

use crate::{Error, Session};
use cellblock_protocol::{CellResult, Event};
use futures_core::Stream;
use serde_json::Value;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::{mpsc, oneshot};

/// A cell that was started and may still be running: a [`Stream`] of its events.
///
/// The last event is [`Event::Result`], or [`Event::Error`] when the session ended under the cell. The
/// queue of events is bounded: a reader that stops reading stops the cell's output.
///
/// Dropping a `Running` does not stop the cell; [`Session::interrupt`] does.
///
/// ```
/// # cellblock_test_support::wait(async {
/// # let session = cellblock_test_support::open_session(Default::default()).await?;
/// use cellblock_protocol::Event;
///
/// let mut running = session.start("name = input()\nprint('hello', name)")?;
/// let mut printed = String::new();
/// while let Some(event) = running.next().await {
///     match event {
///         // The code waits, and the clock of the cell stands still, until it is answered.
///         Event::InputRequest { call, .. } => running.input(&call, Ok("Ada".to_owned())),
///         Event::Stdout { text } => printed.push_str(&text),
///         Event::Result { result } => assert!(result.error.is_none()),
///         _ => {}
///     }
/// }
/// assert!(printed.ends_with("hello Ada\n"));
/// # Ok::<(), cellblock_session::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Running {
    pub(crate) session: Session,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) result: Option<oneshot::Receiver<Result<CellResult, Error>>>,
}

impl Running {
    /// The next event; `None` after the last one. A call that is dropped before it is done loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Waits for the end and passes over the events on the way.
    pub async fn result(mut self) -> Result<CellResult, Error> {
        while self.events.recv().await.is_some() {}
        match poll_fn(|context| self.poll_result(context)).await {
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

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = ready!(self.events.poll_recv(context)) {
            return Poll::Ready(Some(event));
        }
        let outcome = ready!(self.poll_result(context));
        Poll::Ready(outcome.map(|outcome| match outcome {
            Ok(result) => Event::Result {
                result: Box::new(result),
            },
            Err(error) => Event::Error {
                code: error.code().to_owned(),
                message: error.to_string(),
            },
        }))
    }

    /// The outcome of the cell, once.
    fn poll_result(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<CellResult, Error>>> {
        let Some(receiver) = &mut self.result else {
            return Poll::Ready(None);
        };
        let outcome = ready!(Pin::new(receiver).poll(context));
        self.result = None;
        Poll::Ready(Some(outcome.unwrap_or_else(|_| Err(self.session.ended()))))
    }
}

impl Stream for Running {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.get_mut().poll_event(context)
    }
}
