//! A session that lives: its queue of cells, its ring of events, and the calls that wait for an answer.

use super::displays::DisplayFiles;
use super::event_json::{event_json, has_large_parts};
use super::ring::EventRing;
use crate::error::ApiError;
use cellblock_host::Session;
use cellblock_protocol::{Cell, CellResult, Event};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Cells that may wait in the queue of one session.
const MAX_QUEUED_CELLS: usize = 64;
/// How often it is looked whether a session has ended by itself.
const END_INTERVAL: Duration = Duration::from_millis(500);

/// What the server wants to know of its sessions.
pub(crate) trait SessionHooks: Send + Sync {
    /// A cell is over.
    fn cell_ended(&self, session: &LiveSession, result: &CellResult);

    /// The session has ended by itself, for this reason.
    fn ended(&self, session: &LiveSession, reason: &str);
}

/// A session in the memory of the server.
pub(crate) struct LiveSession {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) session: Session,
    pub(crate) ring: Arc<EventRing>,
    pub(crate) displays: DisplayFiles,
    /// What came of the replay, where the session was rebuilt from its journal.
    pub(crate) rebuilt: Option<Value>,
    /// The memory that the session may take, in bytes.
    pub(crate) memory: u64,
    queue: mpsc::Sender<QueuedCell>,
    queued: Arc<AtomicUsize>,
    last_cell: AtomicU64,
    calls: Mutex<HashMap<String, CallKind>>,
    stop: CancellationToken,
}

/// What a live session is made of.
pub(crate) struct SessionParts {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) session: Session,
    pub(crate) ring: Arc<EventRing>,
    pub(crate) displays: DisplayFiles,
    pub(crate) rebuilt: Option<Value>,
    pub(crate) memory: u64,
    /// The highest number that a cell of the session has had.
    pub(crate) last_cell: u64,
}

/// The kind of answer that a waiting call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Tool,
    Input,
}

/// An answer to code that waits.
pub(crate) enum AnswerTo {
    /// The result of a tool, or its error.
    ToolCall(Result<Value, String>),
    /// A line of input, or why there is none.
    Input(Result<String, String>),
}

/// The user or program that asked for a cell, as events tell it.
#[derive(Clone, Debug)]
pub(crate) struct QueuedBy {
    /// The name of the user.
    pub(crate) user: String,
}

struct QueuedCell {
    cell: Cell,
    number: u64,
    by: QueuedBy,
    reply: Option<oneshot::Sender<CellOutcome>>,
}

/// The result of a cell, or why there is none.
pub(crate) type CellOutcome = Result<Box<CellResult>, ApiError>;

impl LiveSession {
    /// Starts the tasks of a session: one runs its cells, one passes on what happens between them.
    pub(crate) fn start(parts: SessionParts, hooks: Arc<dyn SessionHooks>) -> Arc<LiveSession> {
        let (queue, cells) = mpsc::channel(MAX_QUEUED_CELLS);
        let live = Arc::new(LiveSession {
            id: parts.id,
            user: parts.user,
            session: parts.session,
            ring: parts.ring,
            displays: parts.displays,
            rebuilt: parts.rebuilt,
            memory: parts.memory,
            queue,
            queued: Arc::default(),
            last_cell: AtomicU64::new(parts.last_cell),
            calls: Mutex::default(),
            stop: CancellationToken::new(),
        });
        tokio::spawn(Arc::clone(&live).run_cells(cells, Arc::clone(&hooks)));
        tokio::spawn(Arc::clone(&live).pass_on_logs(hooks));
        live
    }

    /// Queues a cell. Returns its number, and its outcome when it is over.
    pub(crate) fn queue(
        &self,
        cell: Cell,
        by: QueuedBy,
    ) -> Result<(u64, oneshot::Receiver<CellOutcome>), ApiError> {
        cell.validate().map_err(cellblock_session::Error::from)?;
        if let Some(reason) = self.session.end() {
            return Err(self.ended_error(reason));
        }
        let full = || {
            ApiError::too_many(
                "busy",
                format!("{MAX_QUEUED_CELLS} cells wait in this session already"),
                1,
            )
        };
        let slot = self.queue.try_reserve().map_err(|_| full())?;
        let (reply, outcome) = oneshot::channel();
        let number = self.last_cell.fetch_add(1, Ordering::SeqCst) + 1;
        self.queued.fetch_add(1, Ordering::SeqCst);
        slot.send(QueuedCell {
            cell,
            number,
            by,
            reply: Some(reply),
        });
        Ok((number, outcome))
    }

    /// The number of cells that run or wait.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::SeqCst)
    }

    /// The highest number that a cell has had.
    pub(crate) fn last_cell(&self) -> u64 {
        self.last_cell.load(Ordering::SeqCst)
    }

    /// Notes a cell that ran outside of the queue, as those of an agent do.
    pub(crate) fn note_cell(&self, number: u64) {
        self.last_cell.fetch_max(number, Ordering::SeqCst);
    }

    /// Answers code that waits. Refused for a call that does not wait or waits for something else.
    pub(crate) fn answer(&self, call: &str, answer: AnswerTo) -> Result<(), ApiError> {
        let wanted = match answer {
            AnswerTo::ToolCall(_) => CallKind::Tool,
            AnswerTo::Input(_) => CallKind::Input,
        };
        let mut calls = self.calls();
        if calls.get(call) != Some(&wanted) {
            return Err(ApiError::not_found(
                "call that waits for this kind of answer",
            ));
        }
        calls.remove(call);
        drop(calls);
        match answer {
            AnswerTo::ToolCall(outcome) => self.session.tool_result(call, outcome),
            AnswerTo::Input(outcome) => self.session.input(call, outcome),
        }
        self.publish("answered", json!({"call": call}));
        Ok(())
    }

    /// The calls that wait for an answer.
    pub(crate) fn waiting_calls(&self) -> Vec<String> {
        let mut calls: Vec<String> = self.calls().keys().cloned().collect();
        calls.sort();
        calls
    }

    /// Tells readers something.
    pub(crate) fn publish(&self, name: &str, fields: Value) {
        self.ring.publish_json(name, None, fields);
    }

    /// Tells readers of an event of a cell, with large displays kept in files.
    pub(crate) async fn publish_event(&self, cell: Option<u64>, event: Event) {
        let (displays, id) = (self.displays.clone(), self.id.clone());
        let (name, fields) = match has_large_parts(&event) {
            true => {
                let made = tokio::task::spawn_blocking(move || event_json(event, &id, &displays));
                made.await.unwrap_or_default()
            }
            false => event_json(event, &id, &displays),
        };
        self.ring.publish(&name, cell, fields);
    }

    /// Ends the session and its tasks.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.session.close().await;
        self.publish("closed", json!({}));
        self.ring.close();
    }

    /// Ends the process of the session. It comes back from its journal when it is needed.
    pub(crate) async fn suspend(&self) {
        self.stop.cancel();
        self.session.close().await;
        self.ring.close();
    }

    /// The error for a session that is over.
    pub(crate) fn ended_error(&self, reason: &str) -> ApiError {
        cellblock_session::Error::Ended {
            session: self.id.clone(),
            reason: reason.to_owned(),
        }
        .into()
    }

    async fn run_cells(
        self: Arc<Self>,
        mut cells: mpsc::Receiver<QueuedCell>,
        hooks: Arc<dyn SessionHooks>,
    ) {
        loop {
            let queued = tokio::select! {
                () = self.stop.cancelled() => break,
                queued = cells.recv() => queued,
            };
            let Some(mut queued) = queued else { break };
            let reply = queued.reply.take();
            let outcome = self.run_cell(queued).await;
            self.queued.fetch_sub(1, Ordering::SeqCst);
            if let Ok(result) = &outcome {
                hooks.cell_ended(&self, result);
            }
            if let Some(reply) = reply {
                // A caller that does not wait has dropped its end.
                let _ = reply.send(outcome);
            }
        }
        // Until no caller is in the middle of sending: a cell that came after the receiver was dropped would never be answered.
        cells.close();
        while let Some(queued) = cells.recv().await {
            if let Some(reply) = queued.reply {
                let _ = reply.send(Err(self.ended_error("it was closed")));
            }
        }
    }

    async fn run_cell(&self, queued: QueuedCell) -> CellOutcome {
        let QueuedCell {
            cell, number, by, ..
        } = queued;
        let begun = json!({"code": cell.code, "by": by.user});
        self.ring.publish_json("cell_begun", Some(number), begun);
        let mut running = self.session.start_again(cell, number)?;
        let mut outcome = None;
        while let Some(event) = running.next().await {
            match &event {
                Event::ToolCall { call, .. } => {
                    self.calls().insert(call.clone(), CallKind::Tool);
                }
                Event::InputRequest { call, .. } => {
                    self.calls().insert(call.clone(), CallKind::Input);
                }
                Event::Result { result } => {
                    self.note_cell(result.cell);
                    outcome = Some(Ok(result.clone()));
                }
                Event::Error { code, message } => {
                    let status = match code.as_str() {
                        "ended" => axum::http::StatusCode::GONE,
                        _ => axum::http::StatusCode::CONFLICT,
                    };
                    outcome = Some(Err(ApiError::new(status, code, message.as_str())));
                }
                _ => {}
            }
            if outcome.is_some() {
                self.calls().clear();
            }
            self.publish_event(Some(number), event).await;
        }
        outcome.unwrap_or_else(|| Err(self.ended_error("it was closed")))
    }

    /// Passes on what happens between cells, and notices the end of the session.
    async fn pass_on_logs(self: Arc<Self>, hooks: Arc<dyn SessionHooks>) {
        let mut logs = self.session.logs();
        let mut look = tokio::time::interval(END_INTERVAL);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                log = logs.recv() => match log {
                    Ok(event) => self.publish_event(None, event).await,
                    Err(RecvError::Lagged(lost)) => self.publish("log_lost", json!({"events": lost})),
                    Err(RecvError::Closed) => look.reset_immediately(),
                },
                _ = look.tick() => {
                    if let Some(reason) = self.session.end() {
                        self.publish("ended", json!({"reason": reason}));
                        hooks.ended(&self, reason);
                        self.ring.close();
                        self.stop.cancel();
                        return;
                    }
                }
            }
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, CallKind>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LiveSession {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LiveSession")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
