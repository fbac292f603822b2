//! A run that is kept while it goes on.

use crate::terminal::Console;
use cellblock::agent::{Observer, Outcome, RunEnd, RunEvent, RunStart, RunStore, RunWriter};
use cellblock::env::Dirs;
use cellblock::tools::Session;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// The runs of this user.
pub(crate) fn run_store() -> anyhow::Result<RunStore> {
    Ok(RunStore::new(Dirs::from_process()?.state.join("runs")))
}

/// Writes down what happens. What cannot be written is told once and fails nothing.
pub(crate) struct Keeper {
    writer: Writer,
    console: Console,
}

type Writer = Arc<Mutex<Option<RunWriter>>>;

/// Where it is noted in which session a run works. Made before the run is; what comes earlier is not noted.
#[derive(Clone, Default)]
pub(crate) struct SessionNote(Arc<Mutex<Option<Writer>>>);

impl SessionNote {
    /// From now on the notes are part of this record.
    pub(crate) fn attach(&self, keeper: &Keeper) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::clone(&keeper.writer));
    }

    /// The run works in this session now.
    pub(crate) fn write(&self, session: &Session) {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(writer), Some((journal, ..))) = (place.as_ref(), session.journal()) {
            note_session(writer, journal);
        }
    }
}

fn note_session(writer: &Writer, journal: &str) {
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(writer) = writer.as_mut() {
        // The next event tells what is wrong.
        let _ = writer.append_event(&json!({"event": "session", "journal": journal}));
    }
}

impl Keeper {
    /// Begins to keep a run; the reason is told where that cannot be.
    pub(crate) fn begin(question: &str, model: &str, options: Value, console: &Console) -> Keeper {
        let start = RunStart {
            question: question.to_owned(),
            model: model.to_owned(),
            options,
        };
        let writer = run_store().and_then(|store| Ok(store.start_run(start)?));
        if let Err(error) = &writer {
            console.error(&format!("this run is not kept: {error}"));
        }
        Keeper {
            writer: Arc::new(Mutex::new(writer.ok())),
            console: console.clone(),
        }
    }

    /// Goes on with the record of a run that was cut off.
    pub(crate) fn resume(writer: RunWriter, console: &Console) -> Keeper {
        Keeper {
            writer: Arc::new(Mutex::new(Some(writer))),
            console: console.clone(),
        }
    }

    /// The run works in the session with this journal.
    pub(crate) fn note_session(&self, journal: Option<String>) {
        if let Some(journal) = journal {
            note_session(&self.writer, &journal);
        }
    }

    /// The id of the run.
    pub(crate) fn id(&self) -> Option<String> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map(RunWriter::id)
    }

    /// Passes events on, and keeps them. Parts of replies are not kept: the whole follows.
    pub(crate) fn observer(&self, inner: Observer) -> Observer {
        let (writer, console) = (Arc::clone(&self.writer), self.console.clone());
        Arc::new(move |event| {
            inner(event);
            let is_part = matches!(
                event,
                RunEvent::ThoughtPart { .. }
                    | RunEvent::CodePart { .. }
                    | RunEvent::Reasoning { .. }
                    | RunEvent::Cell { .. }
            );
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(writer) = writer.as_mut().filter(|_| !is_part) else {
                return;
            };
            if let Err(error) = writer.append_event(event) {
                console.error(&format!("the rest of this run is not kept: {error}"));
            }
            if matches!(event, RunEvent::Done { .. }) {
                writer.sync_in_background();
            }
        })
    }

    /// The run is over.
    pub(crate) fn end(self, outcome: &Outcome) {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(writer) = writer else {
            return;
        };
        let end = RunEnd {
            status: outcome.status.name().to_owned(),
            answer: outcome.answer.as_ref().map(|_| outcome.answer_text()),
            outcome: serde_json::to_value(outcome).unwrap_or_default(),
        };
        if let Err(error) = writer.finish(end) {
            self.console
                .error(&format!("the end of this run is not kept: {error}"));
        }
    }
}
