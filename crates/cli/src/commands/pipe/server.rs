//! Reads requests, does urgent ones at once, and queues the rest for the tasks of their sessions.

use super::agents::{self, Agents, ChatRequest, ClientAnswer};
use super::input::{InputLine, InputLines};
use super::operations::{
    OperationAnswer, OperationError, send_outcome, serve_beside_cell, serve_while_waiting,
};
use super::output::Writer;
use super::processes;
use super::processes::{ProcessRequest, is_about_processes};
use super::session_task;
use super::session_task::{CallAnswer, QueuedOperation, SessionState};
use crate::terminal::Console;
use cellblock::pipe::{
    MAX_LINE_BYTES, Operation, PipeError, Request, RequestId, Response, parse_line,
};
use cellblock::{Event, Host, Session, SessionOpened, Snapshot, Strategy};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The most bytes of memory that queued requests may take.
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// The bytes that a queued request takes besides its text.
const REQUEST_BYTES: usize = 512;

/// A state that was kept aside, and how the cells of its session ran.
#[derive(Debug)]
struct KeptSnapshot {
    snapshot: Snapshot,
    strategy: Strategy,
}

/// The server of a pipe, with all its sessions.
#[derive(Debug)]
pub(crate) struct PipeServer {
    pub(crate) host: Host,
    pub(crate) writer: Writer,
    pub(crate) agents: Agents,
    /// For what runs of agents tell a person, on standard error.
    pub(crate) console: Console,
    sessions: Mutex<HashMap<String, NamedSession>>,
    /// States of sessions that were kept aside, by name.
    snapshots: Mutex<HashMap<String, Arc<KeptSnapshot>>>,
    waiting_bytes: Arc<AtomicUsize>,
    /// The number of tasks.
    tasks: watch::Sender<usize>,
    input_has_ended: AtomicBool,
    is_stopping: AtomicBool,
}

/// A session and the queue of its task. When the queue is dropped, the task finishes the requests in it and ends.
#[derive(Debug)]
struct NamedSession {
    state: Arc<Mutex<SessionState>>,
    /// `None` when no more requests will come.
    queue: Option<mpsc::UnboundedSender<QueuedOperation>>,
}

impl PipeServer {
    pub(crate) fn new(host: Host, writer: Writer, console: Console) -> PipeServer {
        PipeServer {
            host,
            writer,
            agents: Agents::default(),
            console,
            sessions: Mutex::default(),
            snapshots: Mutex::default(),
            waiting_bytes: Arc::default(),
            tasks: watch::Sender::new(0),
            input_has_ended: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Serves every line until the input ends.
    pub(crate) async fn serve(self: &Arc<Self>, mut lines: InputLines) {
        while let Some(line) = lines.next().await {
            if line.text.trim_ascii().is_empty() {
                continue;
            }
            let answer = match read_request(&line) {
                Ok(request) => self.dispatch(request, line.text.len()),
                Err(error) => Some(error.into()),
            };
            if let Some(answer) = answer {
                self.writer.send(answer).await;
            }
        }
    }

    /// Finishes the queued requests, then closes every session. The caller may drop the future and call [`stop`](Self::stop).
    pub(crate) async fn finish(&self) {
        self.input_has_ended.store(true, Ordering::SeqCst);
        for entry in lock(&self.sessions).values_mut() {
            entry.queue = None;
            lock(&entry.state).refuse_calls(INPUT_HAS_ENDED);
        }
        self.agents.refuse_calls(INPUT_HAS_ENDED);
        self.wait_for_tasks().await;
        self.discard_all().await;
    }

    async fn discard_all(&self) {
        let snapshots = std::mem::take(&mut *lock(&self.snapshots));
        for snapshot in snapshots.into_values() {
            snapshot.snapshot.discard().await;
        }
    }

    /// Closes every session now: running cells are interrupted, queued requests are dropped.
    pub(crate) async fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        let mut open = Vec::new();
        for entry in lock(&self.sessions).values_mut() {
            entry.queue = None;
            open.extend(lock(&entry.state).session.clone());
        }
        self.agents.close_all();
        for session in open {
            session.close().await;
        }
        self.discard_all().await;
        self.wait_for_tasks().await;
    }

    /// Every task ends when it comes to the end of its queue.
    async fn wait_for_tasks(&self) {
        // This server holds the sender, so the channel is open.
        let _ = self.tasks.subscribe().wait_for(|tasks| *tasks == 0).await;
    }

    /// Whether the input has ended, so that no call can be answered any more.
    pub(crate) fn input_has_ended(&self) -> bool {
        self.input_has_ended.load(Ordering::SeqCst)
    }

    /// Whether no more requests are begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Whether there is a session of this name.
    pub(crate) fn has_session(&self, name: &str) -> bool {
        lock(&self.sessions).contains_key(name)
    }

    /// Forgets a session that was closed, unless something was asked of it in the meantime. A new one of that name may then come.
    pub(crate) fn forget(
        &self,
        name: &str,
        queue: &mpsc::UnboundedReceiver<QueuedOperation>,
    ) -> bool {
        let mut sessions = lock(&self.sessions);
        let is_unused = queue.is_empty();
        if is_unused {
            sessions.remove(name);
        }
        is_unused
    }

    /// Does at once what cannot wait, and hands the rest to the session. The answer, where there is one already.
    fn dispatch(self: &Arc<Self>, request: Request, bytes: usize) -> Option<Response> {
        let name = request.session().to_owned();
        let Request { id, operation, .. } = request;
        let operation = match operation {
            Operation::Agent(operation) => return agents::dispatch(self, id, name, operation),
            Operation::ToolResult { call, outcome } if self.agents.has(&name) => {
                let answer = ClientAnswer::Tool(outcome);
                let message = self.agents.answer(&name, &call, answer).err()?;
                return Some(OperationError::new("not_found", message).response(id, name));
            }
            Operation::Interrupt if self.agents.has(&name) => {
                self.agents.interrupt(&name);
                return Some(Response::answer(id, name, json!({})));
            }
            Operation::Undo { n } if self.agents.has(&name) => {
                return agents::enqueue(self, id, name, ChatRequest::Undo(n));
            }
            Operation::Fork if self.agents.has(&name) => {
                return agents::enqueue(self, id, name, ChatRequest::Fork);
            }
            Operation::Close if self.agents.has(&name) => {
                self.agents.close(&name);
                return Some(Response::answer(id, name, json!({})));
            }
            Operation::ToolResult { call, outcome } => {
                return self.answer(&name, id, &call, CallAnswer::Tool(outcome));
            }
            Operation::Input { call, outcome } => {
                return self.answer(&name, id, &call, CallAnswer::Input(outcome));
            }
            Operation::Interrupt => {
                if let Some(entry) = lock(&self.sessions).get(&name) {
                    lock(&entry.state).interrupt();
                }
                return Some(Response::answer(id, name, json!({})));
            }
            // Beside the cells: a reader wants to see what a running one does.
            Operation::Events { after, wait } => {
                return self.read_events(id, name, after, wait);
            }
            operation => operation,
        };
        let Some(share) = MemoryShare::take(&self.waiting_bytes, bytes + REQUEST_BYTES) else {
            let error = OperationError::new(
                "busy",
                format!(
                    "{MAX_QUEUED_BYTES} bytes of requests wait already; read some answers first"
                ),
            );
            return Some(error.response(id, name));
        };
        let mut sessions = lock(&self.sessions);
        let entry = sessions
            .entry(name.clone())
            .or_insert_with(|| self.add_session(&name, None));
        let mut state = lock(&entry.state);
        if is_about_processes(&operation)
            && let Some(queue) = &state.processes
        {
            // The task is there as long as its session is open.
            let _ = queue.send(ProcessRequest {
                id,
                operation,
                share: Some(share),
            });
            return None;
        }
        if state.is_waiting() {
            let session = state.session.clone();
            drop(state);
            return serve_while_waiting(self, session, id, name, operation);
        }
        if let Some(session) = state.session.clone()
            && state.answers_beside_its_cell(&operation)
        {
            drop(state);
            serve_beside_cell(self, session, id, name, operation);
            return None;
        }
        state.runs_waiting += usize::from(matches!(operation, Operation::Run(_)));
        drop(state);
        if let Some(queue) = &entry.queue {
            // The task is there as long as its entry is.
            let _ = queue.send(QueuedOperation {
                id,
                operation,
                _share: share,
            });
        }
        None
    }

    /// Reads the events of a session in a task of its own.
    fn read_events(
        self: &Arc<Self>,
        id: Option<RequestId>,
        name: String,
        after: u64,
        wait: Duration,
    ) -> Option<Response> {
        let entry = lock(&self.sessions)
            .get(&name)
            .map(|entry| Arc::clone(&entry.state));
        let session = entry.and_then(|state| lock(&state).session.clone());
        let Some(session) = session else {
            let error = OperationError::new("not_found", format!("no session `{name}` is open"));
            return Some(error.response(id, name));
        };
        let writer = self.writer.clone();
        tokio::spawn(async move {
            let outcome = cellblock::operations::read_events(&session, after, wait).await;
            let outcome = outcome
                .map(OperationAnswer::Value)
                .map_err(OperationError::from);
            send_outcome(&writer, id, name, outcome).await;
        });
        None
    }

    /// Keeps the state of a session aside under a name.
    pub(crate) async fn freeze(
        &self,
        session: &Session,
        strategy: Strategy,
        name: Option<String>,
    ) -> Result<String, OperationError> {
        let snapshot = session.freeze().await.map_err(cellblock::Error::from)?;
        let name = name.unwrap_or_else(|| snapshot.id().to_owned());
        let snapshot = KeptSnapshot { snapshot, strategy };
        {
            let mut snapshots = lock(&self.snapshots);
            if !snapshots.contains_key(&name) {
                snapshots.insert(name.clone(), Arc::new(snapshot));
                return Ok(name);
            }
        }
        Err(OperationError::new(
            "exists",
            format!(
                "there is a snapshot `{name}` already; discard it first, or choose another name"
            ),
        ))
    }

    /// Opens a session that begins with a state that was kept aside.
    pub(crate) async fn open_from(
        self: &Arc<Self>,
        snapshot: &str,
    ) -> Result<SessionOpened, OperationError> {
        let kept = lock(&self.snapshots).get(snapshot).cloned();
        let kept = kept.ok_or_else(|| no_snapshot(snapshot))?;
        let opened = kept.snapshot.open().await;
        let session = opened.map_err(cellblock::Error::from)?;
        self.adopt(session, kept.strategy).await
    }

    /// Forgets a state that was kept aside.
    pub(crate) async fn discard(&self, snapshot: &str) -> Result<(), OperationError> {
        let kept = lock(&self.snapshots).remove(snapshot);
        let kept = kept.ok_or_else(|| no_snapshot(snapshot))?;
        kept.snapshot.discard().await;
        Ok(())
    }

    fn answer(
        &self,
        name: &str,
        id: Option<RequestId>,
        call: &str,
        answer: CallAnswer,
    ) -> Option<Response> {
        let sessions = lock(&self.sessions);
        let outcome = match sessions.get(name) {
            Some(entry) => lock(&entry.state).answer(call, answer),
            None => Err(format!("no session `{name}` is open")),
        };
        let message = outcome.err()?;
        Some(OperationError::new("not_found", message).response(id, name.to_owned()))
    }

    /// Adds a fork of a session of this pipe, under its own name.
    pub(crate) async fn adopt(
        self: &Arc<Self>,
        session: Session,
        strategy: Strategy,
    ) -> Result<SessionOpened, OperationError> {
        let name = session.id().to_owned();
        let opened = SessionOpened {
            session: name.clone(),
            not_copied: session.not_copied().to_vec(),
        };
        let is_taken = {
            let mut sessions = lock(&self.sessions);
            let is_taken = sessions.contains_key(&name);
            // The end of the input closes every session. Asked under the lock, so that this one is either seen to or not made.
            if !is_taken && !self.input_has_ended() && !self.is_stopping() {
                let entry = self.add_session(&name, Some(session));
                lock(&entry.state).strategy = strategy;
                sessions.insert(name, entry);
                return Ok(opened);
            }
            is_taken
        };
        session.close().await;
        if is_taken {
            let message = format!(
                "the fork would be called `{name}`, but there is another session of that name; ask again, and it will have another"
            );
            return Err(OperationError::new("exists", message));
        }
        Ok(opened)
    }

    /// Counts a task that is to end before the pipe does.
    pub(crate) fn count_task(&self) -> TaskCount {
        TaskCount::new(&self.tasks)
    }

    fn add_session(self: &Arc<Self>, name: &str, session: Option<Session>) -> NamedSession {
        let (queue, requests) = mpsc::unbounded_channel();
        let state = Arc::new(Mutex::new(SessionState::default()));
        if let Some(session) = &session {
            lock(&state).open(session, processes::start(self, name, session));
        }
        let task = session_task::serve(
            Arc::clone(self),
            name.to_owned(),
            Arc::clone(&state),
            session,
            requests,
        );
        let counted = self.count_task();
        tokio::spawn(async move {
            task.await;
            drop(counted);
        });
        let queue = Some(queue);
        NamedSession { state, queue }
    }
}

/// What the code is told that waits for an answer when there is no more input.
pub(crate) const INPUT_HAS_ENDED: &str = "no client can answer: the input of the pipe has ended";

fn read_request(line: &InputLine) -> Result<Request, PipeError> {
    parse_line(&line.text).map_err(|mut error| {
        if line.bytes > MAX_LINE_BYTES as u64 {
            // Only its beginning was kept.
            error.message = format!(
                "the line has {} bytes; at most {MAX_LINE_BYTES} are allowed",
                line.bytes
            );
        }
        error
    })
}

fn no_snapshot(name: &str) -> OperationError {
    OperationError::new("not_found", format!("there is no snapshot `{name}`"))
}

/// A part of the memory for waiting requests; given back when dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    of: Arc<AtomicUsize>,
    bytes: usize,
}

impl MemoryShare {
    fn take(of: &Arc<AtomicUsize>, bytes: usize) -> Option<MemoryShare> {
        let share = MemoryShare {
            of: Arc::clone(of),
            bytes,
        };
        let before = of.fetch_add(bytes, Ordering::SeqCst);
        (before + bytes <= MAX_QUEUED_BYTES).then_some(share)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// One of the tasks, as long as it is there.
#[derive(Debug)]
pub(crate) struct TaskCount(watch::Sender<usize>);

impl TaskCount {
    fn new(tasks: &watch::Sender<usize>) -> TaskCount {
        tasks.send_modify(|count| *count += 1);
        TaskCount(tasks.clone())
    }
}

impl Drop for TaskCount {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// What is behind the lock is whole even after a panic: each change is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OperationError {
    /// The `error` event that says it.
    pub(crate) fn response(self, id: Option<RequestId>, session: String) -> Response {
        let event = Event::Error {
            code: self.code.to_owned(),
            message: self.message,
        };
        Response::event(id, session, event)
    }
}
