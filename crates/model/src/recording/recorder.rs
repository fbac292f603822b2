//! A model whose exchanges are kept.

use super::file::{Exchange, Header, line};
use crate::{Capabilities, Event, Model, ModelError, ReplyStream, Request};
use futures_util::StreamExt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Passes everything through to another model, and writes each exchange to a file when it is over.
///
/// Requests hold no keys, and neither does the file. It is made anew: a recording is never changed or continued.
pub struct Recorder {
    inner: Arc<dyn Model>,
    tape: Arc<Mutex<Tape>>,
}

struct Tape {
    path: PathBuf,
    file: File,
    bytes: u64,
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
        // What was asked and answered is the user's own business.
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(0o600).open(path);
        let mut tape = Tape {
            path: path.to_owned(),
            file: file.map_err(|error| unwritable(path, &error))?,
            bytes: 0,
            before: Request::default(),
        };
        let mut first = serde_json::to_vec(&header).map_err(|error| unwritable(path, &error))?;
        first.push(b'\n');
        tape.append(&first)?;
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
        let line = line(&self.before, &exchange).map_err(|error| unwritable(&self.path, &error))?;
        self.append(&line)?;
        self.before = exchange.request;
        Ok(())
    }

    /// Of a line that did not fit, nothing stays.
    fn append(&mut self, line: &[u8]) -> Result<(), ModelError> {
        if let Err(error) = self.file.write_all(line) {
            let _ = self.file.set_len(self.bytes);
            return Err(unwritable(&self.path, &error));
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> ModelError {
    ModelError::Recording {
        path: path.display().to_string(),
        problem: format!("it cannot be written: {error}"),
    }
}
