//! The events of a run: to its own ring, to the ring of its session, and to its record.

use super::live_run::LiveRun;
use crate::cluster::RunJournal;
use crate::live::{DisplayFiles, LiveSession, event_json, result_json};
use crate::state::AppState;
use cellblock_agent::{RunEvent, RunWriter};
use cellblock_protocol::Event;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Passes the events of one run on.
pub(super) struct Forwarder {
    pub(super) run: Arc<LiveRun>,
    pub(super) record: Arc<Mutex<Option<RunWriter>>>,
    /// The session of the run, once code ran.
    pub(super) session: Arc<Mutex<Option<Arc<LiveSession>>>>,
    /// The session that readers were told of.
    pub(super) told_session: Option<String>,
    /// Code that began to run before its session was open.
    pub(super) begun: Option<String>,
    /// The record of the run in its cluster's journal, where the run is one of the queue.
    pub(super) journal: Option<Arc<RunJournal>>,
    pub(super) state: AppState,
}

/// What a [`Forwarder`] passes on.
pub(super) enum Told {
    /// An event of the agent.
    Agent(RunEvent),
    /// An event of the server, for readers of the run alone: its kind and fields.
    Server(&'static str, Value),
    /// The run is over. It is said, because the observer with the sender lives as long as the agent.
    End,
}

/// The sending end of a [`Forwarder`].
pub(super) type EventSender = mpsc::UnboundedSender<Told>;

impl Forwarder {
    /// Starts to pass events on, until the sender sends [`Told::End`].
    pub(super) fn start(mut self) -> (EventSender, tokio::task::JoinHandle<()>) {
        let (sender, mut events) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(told) = events.recv().await {
                match told {
                    Told::Agent(event) => {
                        self.tell_session();
                        self.keep(&event);
                        self.forward_to_session(&event).await;
                        self.to_run(event).await;
                    }
                    Told::Server(name, fields) => {
                        self.run.ring.publish_json(name, None, fields);
                    }
                    Told::End => break,
                }
            }
        });
        (sender, task)
    }

    /// Tells readers and the record which session the run works in.
    fn tell_session(&mut self) {
        let Some(live) = self.live() else {
            return;
        };
        if self.told_session.as_ref() == Some(&live.id) {
            return;
        }
        self.told_session = Some(live.id.clone());
        self.run
            .ring
            .publish_json("session", None, json!({"session": live.id}));
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(writer), Some(journal)) = (record.as_mut(), live.session.journal()) {
            let _ = writer.append_event(&json!({"event": "session", "journal": journal.id}));
        }
    }

    /// Writes an event to the record.
    fn keep(&self, event: &RunEvent) {
        // A run that the stop of the server ends can be resumed: it is not finished.
        let is_end = matches!(event, RunEvent::Finished { .. }) && self.state.stop().is_cancelled();
        if let Some(journal) = &self.journal
            && !is_end
            && !event.is_part()
        {
            journal.note(event);
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = record.as_mut().filter(|_| !is_end) {
            // A record that cannot be written does not end the run.
            let _ = writer.keep_event(event);
        }
    }

    /// Readers of the session see the cells of the agent like those of a person.
    async fn forward_to_session(&mut self, event: &RunEvent) {
        if let RunEvent::Code { code, .. } = event {
            self.begun = Some(code.clone());
        }
        let Some(live) = self.live() else {
            return;
        };
        let number = live.last_cell() + 1;
        if let Some(code) = self.begun.take() {
            let fields = json!({"code": code, "by": "agent", "run": self.run.id});
            live.ring.publish_json("cell_begun", Some(number), fields);
        }
        match event {
            RunEvent::Cell { event } => live.publish_event(Some(number), event.clone()).await,
            RunEvent::Done { done, .. } => {
                if let Some(result) = &done.result {
                    live.note_cell(result.cell);
                    self.state.count_cell(&live.user, result);
                    let number = Some(result.cell);
                    let result = Event::Result {
                        result: result.clone(),
                    };
                    live.publish_event(number, result).await;
                }
            }
            _ => {}
        }
    }

    async fn to_run(&self, event: RunEvent) {
        let live = self.live();
        let displays = live.as_ref().map(|live| live.displays.clone());
        let session = live.map(|live| live.id.clone());
        let is_large = matches!(event, RunEvent::Cell { .. } | RunEvent::Done { .. });
        let json = match displays {
            Some(displays) if is_large => {
                let made = tokio::task::spawn_blocking(move || {
                    run_event_json(event, session.as_deref().unwrap_or_default(), &displays)
                });
                made.await.unwrap_or_default()
            }
            _ => serde_json::to_value(&event).unwrap_or_default(),
        };
        let Value::Object(mut fields) = json else {
            return;
        };
        let name = fields.remove("event");
        let name = name
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or("note")
            .to_owned();
        self.run.ring.publish(&name, None, fields);
    }

    fn live(&self) -> Option<Arc<LiveSession>> {
        self.session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// An event with large displays as references.
fn run_event_json(event: RunEvent, session: &str, displays: &DisplayFiles) -> Value {
    match event {
        RunEvent::Cell { event } => {
            let (name, mut fields) = event_json(event, session, displays);
            fields.insert("event".into(), name.into());
            json!({"event": "cell", "cell": fields})
        }
        RunEvent::Done {
            step,
            action,
            mut done,
        } => {
            let result = done
                .result
                .take()
                .map(|result| result_json(*result, session, displays));
            let mut done = serde_json::to_value(&done).unwrap_or_default();
            if let Some(result) = result {
                done["result"] = result;
            }
            json!({"event": "done", "step": step, "action": action, "done": done})
        }
        other => serde_json::to_value(&other).unwrap_or_default(),
    }
}
