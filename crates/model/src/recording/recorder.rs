//! A model whose exchanges are kept.

use super::file::{Exchange, Header, line};
use crate::{Capabilities, Event, Model, ModelError, ReplyStream, Request};
use cellblock_records::LineWriter;
use futures_util::StreamExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Passes everything through to another model, and writes each exchange to a file when it is over.
///
/// Requests hold no keys, and neither does the file. It is made anew: a recording is never changed or continued.
pub struct Recorder {
    inner: Arc<dyn Model>,
    tape: Arc<Mutex<Tape>>,
}

struct Tape {
    lines: LineWriter,
    before: Request,
}

impl Recorder {
    /// Records what this model says. `source` tells who it is, see [`Header::source`].
    pub fn new(
        inner: Arc<dyn Model>,
        path: impl AsRef<Path>,
        source: impl Into<String>,
    ) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let header = Header::new(source, inner.name(), inner.capabilities().clone());
        let lines = LineWriter::create_shared(path);
        let mut lines = lines.map_err(|error| unwritable(path, &error))?;
        let written = lines.append(&header);
        written.map_err(|error| unwritable(path, &error))?;
        let tape = Tape {
            lines,
            before: Request::default(),
        };
        Ok(Self {
            inner,
            tape: Arc::new(Mutex::new(tape)),
        })
    }
}

impl Model for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let tape = Arc::clone(&self.tape);
        let events = self.inner.stream(request.clone());
        let mut request = Some(request);
        Box::pin(events.map(move |event| {
            let outcome = match &event {
                Ok(Event::Finished { reply }) => Ok(reply.clone()),
                Err(error) => Err(error.clone()),
                Ok(_) => return event,
            };
            if let Some(request) = request.take() {
                let exchange = Exchange { request, outcome };
                let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
                tape.record(exchange)?;
            }
            event
        }))
    }
}

impl Tape {
    fn record(&mut self, exchange: Exchange) -> Result<(), ModelError> {
        let written = self.lines.append(&line(&self.before, &exchange));
        written.map_err(|error| unwritable(self.lines.path(), &error))?;
        self.before = exchange.request;
        Ok(())
    }
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> ModelError {
    ModelError::Recording {
        path: path.display().to_string(),
        problem: format!("it cannot be written: {error}"),
    }
}
