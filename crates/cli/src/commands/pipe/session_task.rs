//! The task of one session of the pipe: it does the requests of the session in order.

use super::operations::{OperationAnswer, OperationError, ask, send_outcome};
use super::processes::{self, ProcessQueue, ProcessRequest, is_about_processes};
use super::server::{INPUT_HAS_ENDED, MemoryShare, PipeServer, lock};
use cellblock::pipe::{Operation, RequestId, Response};
use cellblock::{Cell, Event, Session, SessionOpened, SessionOptions, Strategy, Stream};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

/// The time after which code has seen an interrupt, even on a machine that is busy.
const INTERRUPT_ARRIVES_WITHIN: Duration = Duration::from_secs(2);

/// A request that waits for its turn.
#[derive(Debug)]
pub(crate) struct QueuedOperation {
    pub(crate) id: Option<RequestId>,
    pub(crate) operation: Operation,
    pub(crate) _share: MemoryShare,
}

/// Runs the task of one session. It ends with its queue, or when its session is closed.
pub(crate) async fn serve(
    server: Arc<PipeServer>,
    name: String,
    state: Arc<Mutex<SessionState>>,
    session: Option<Session>,
    queue: mpsc::UnboundedReceiver<QueuedOperation>,
) {
    let task = SessionTask {
        server,
        name,
        state,
        logs: session.as_ref().map(|session| session.logs()),
        slot: session.map_or(Slot::Empty, Slot::Open),
    };
    task.serve(queue).await;
}

struct SessionTask {
    server: Arc<PipeServer>,
    name: String,
    state: Arc<Mutex<SessionState>>,
    slot: Slot,
    /// The events of the session between cells.
    logs: Option<broadcast::Receiver<Event>>,
}

/// The session behind a name.
enum Slot {
    /// No session yet: the first request opens one with the defaults.
    Empty,
    /// A session. Where it has ended by itself, each request gets that as its answer.
    Open(Session),
    /// The requested session could not be opened. A default session in its place would have other walls and files.
    Failed(OperationError),
}

/// Whether the name is still in use.
enum NameUse {
    Open,
    Closed,
}

impl SessionTask {
    async fn serve(mut self, mut queue: mpsc::UnboundedReceiver<QueuedOperation>) {
        loop {
            let queued = tokio::select! {
                queued = queue.recv() => queued,
                event = next_log(&mut self.logs) => {
                    self.tell_log(None, event).await;
                    continue;
                }
            };
            let Some(QueuedOperation { id, operation, .. }) =
                queued.filter(|_| !self.server.is_stopping())
            else {
                break;
            };
            let next = self.dispatch(id, operation).await;
            if matches!(next, NameUse::Closed) && self.server.forget(&self.name, &queue) {
                return;
            }
        }
        self.close().await;
    }

    async fn dispatch(&mut self, id: Option<RequestId>, operation: Operation) -> NameUse {
        let (outcome, next) = match operation {
            Operation::Close => {
                self.close().await;
                (Ok(OperationAnswer::Value(json!({}))), NameUse::Closed)
            }
            Operation::Open(options) => {
                let opened = self.open_anew(*options).await;
                (opened.map(OperationAnswer::Value), NameUse::Open)
            }
            Operation::Run(cell) => match self.run(&id, cell).await {
                Ok(()) => return NameUse::Open,
                Err(error) => (Err(error), NameUse::Open),
            },
            operation if is_about_processes(&operation) => match self.session().await {
                Ok(_) => {
                    if let Some(queue) = &lock(&self.state).processes {
                        let request = ProcessRequest {
                            id,
                            operation,
                            share: None,
                        };
                        // The task is there as long as the session is open.
                        let _ = queue.send(request);
                    }
                    return NameUse::Open;
                }
                Err(error) => (Err(error), NameUse::Open),
            },
            Operation::Freeze { name } => {
                let frozen = self.freeze(name).await;
                (frozen.map(OperationAnswer::Value), NameUse::Open)
            }
            Operation::OpenFrom { snapshot } => {
                let opened = self.server.open_from(&snapshot).await;
                let answer = opened.map(|opened| OperationAnswer::Value(json!(opened)));
                (answer, NameUse::Open)
            }
            Operation::Discard { snapshot } => {
                let discarded = self.server.discard(&snapshot).await;
                let answer = discarded.map(|()| OperationAnswer::Value(json!({})));
                (answer, NameUse::Open)
            }
            Operation::Fork => (self.fork().await.map(OperationAnswer::Value), NameUse::Open),
            operation => (self.ask(operation).await, NameUse::Open),
        };
        send_outcome(&self.server.writer, id, self.name.clone(), outcome).await;
        next
    }

    async fn ask(&mut self, operation: Operation) -> Result<OperationAnswer, OperationError> {
        ask(&self.session().await?, operation).await
    }

    /// Keeps the state aside.
    async fn freeze(&mut self, name: Option<String>) -> Result<Value, OperationError> {
        let session = self.session().await?;
        let strategy = lock(&self.state).strategy;
        let snapshot = self.server.freeze(&session, strategy, name).await?;
        Ok(json!({ "snapshot": snapshot }))
    }

    /// A second session, which is at once another name of the pipe.
    async fn fork(&mut self) -> Result<Value, OperationError> {
        let session = self.session().await?;
        let fork = session.fork().await.map_err(cellblock::Error::from)?;
        let strategy = lock(&self.state).strategy;
        Ok(json!(self.server.adopt(fork, strategy).await?))
    }

    /// Runs a cell; its events and its result go out as they come.
    async fn run(&mut self, id: &Option<RequestId>, cell: Cell) -> Result<(), OperationError> {
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => {
                lock(&self.state).begin();
                lock(&self.state).end();
                return Err(error);
            }
        };
        let mut running = {
            // Under the lock, so that an interrupt finds the cell either waiting or running.
            let mut state = lock(&self.state);
            let running = session.start(cell);
            state.begin();
            running.map_err(cellblock::Error::from)?
        };
        while let Some(event) = running.next().await {
            let call = match &event {
                Event::ToolCall { call, .. } => Some((call.clone(), CallKind::Tool)),
                Event::InputRequest { call, .. } => Some((call.clone(), CallKind::Input)),
                _ => None,
            };
            if matches!(event, Event::Result { .. } | Event::Error { .. }) {
                // Before the result is sent: a client that reads it may send the next request at once.
                lock(&self.state).end();
                self.tell_logs(id.as_ref()).await;
            }
            if let Some((call, kind)) = call {
                lock(&self.state).wait_for(&call, kind);
            }
            self.server
                .writer
                .send(Response::event(id.clone(), self.name.clone(), event))
                .await;
            if self.server.input_has_ended() {
                lock(&self.state).refuse_calls(INPUT_HAS_ENDED);
            }
        }
        lock(&self.state).end();
        Ok(())
    }

    /// The session, opened with the defaults if there is none.
    async fn session(&mut self) -> Result<Session, OperationError> {
        match &self.slot {
            Slot::Open(session) => Ok(session.clone()),
            Slot::Failed(error) => Err(error.clone()),
            // A failure is not kept: the next request tries again, with the same defaults.
            Slot::Empty => self.open(SessionOptions::default()).await,
        }
    }

    async fn open_anew(&mut self, options: SessionOptions) -> Result<Value, OperationError> {
        if let Slot::Open(session) = &self.slot {
            if is_alive(session).await {
                let message = format!(
                    "session `{}` is open already; close it first, or choose another name",
                    self.name
                );
                return Err(OperationError::new("exists", message));
            }
            self.close().await;
        }
        match self.open(options).await {
            Ok(_) => Ok(json!(SessionOpened {
                session: self.name.clone(),
                ..SessionOpened::default()
            })),
            Err(error) => {
                let later = format!(
                    "session `{}` could not be opened: {}",
                    self.name, error.message
                );
                self.slot = Slot::Failed(OperationError::new(error.code, later));
                Err(error)
            }
        }
    }

    async fn open(&mut self, mut options: SessionOptions) -> Result<Session, OperationError> {
        options.session = Some(self.name.clone());
        let strategy = options.strategy;
        let session = self.server.host.open(options).await?;
        self.logs = Some(session.logs());
        let processes = processes::start(&self.server, &self.name, &session);
        {
            let mut state = lock(&self.state);
            state.open(&session, processes);
            state.strategy = strategy;
        }
        self.slot = Slot::Open(session.clone());
        Ok(session)
    }

    async fn close(&mut self) {
        lock(&self.state).close();
        self.logs = None;
        if let Slot::Open(session) = std::mem::replace(&mut self.slot, Slot::Empty) {
            session.close().await;
        }
    }

    /// Tells what came besides the events of cells: what threads wrote, and that the session went back to a checkpoint.
    async fn tell_logs(&mut self, id: Option<&RequestId>) {
        while let Some(event) = self.logs.as_mut().and_then(|logs| logs.try_recv().ok()) {
            self.tell_log(id, event).await;
        }
    }

    async fn tell_log(&self, id: Option<&RequestId>, event: Event) {
        // A thread outlives the request that started it; a way back belongs to the cell that made it necessary.
        let id = id
            .filter(|_| matches!(event, Event::Restored { .. }))
            .cloned();
        let response = Response::event(id, self.name.clone(), event);
        self.server.writer.send(response).await;
    }
}

/// The next log event; never, while there is no session. A slow reader has lost lines in the middle.
async fn next_log(logs: &mut Option<broadcast::Receiver<Event>>) -> Event {
    loop {
        let Some(receiver) = logs else {
            return std::future::pending().await;
        };
        match receiver.recv().await {
            Ok(event) => return event,
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *logs = None,
        }
    }
}

/// Whether a session still answers. Reading the output of no cell costs nothing and changes nothing.
async fn is_alive(session: &Session) -> bool {
    let probe = session.read_output(0, Stream::Output, 0, 0).await;
    !probe.is_err_and(|error| error.code() == "ended")
}

/// The state of one session, shared by its task and the task that reads requests.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// The session, while one is open.
    pub(crate) session: Option<Session>,
    /// How its cells run.
    pub(crate) strategy: Strategy,
    /// The queue of its operations about processes, while it is open.
    pub(crate) processes: Option<ProcessQueue>,
    /// The number of cells that are queued.
    pub(crate) runs_waiting: usize,
    is_running: bool,
    /// Whether an interrupt came for a cell that has not begun.
    interrupts_next: bool,
    /// When an interrupt was sent to the running cell, unless the cell went on and made another call.
    interrupted: Option<Instant>,
    /// The calls of the running cell that have no answer yet.
    calls: HashMap<String, CallKind>,
}

/// The kind of answer that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// `tool_result`
    Tool,
    /// `input`
    Input,
}

/// An answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallAnswer {
    /// `tool_result`
    Tool(Result<Value, String>),
    /// `input`
    Input(Result<String, String>),
}

impl SessionState {
    /// Notes that the session is open.
    pub(crate) fn open(&mut self, session: &Session, processes: ProcessQueue) {
        self.session = Some(session.clone());
        self.processes = Some(processes);
    }

    /// Notes that the session is closed.
    fn close(&mut self) {
        self.session = None;
        self.processes = None;
    }

    /// Notes that a cell begins.
    pub(crate) fn begin(&mut self) {
        self.is_running = true;
        self.interrupted = None;
        self.runs_waiting = self.runs_waiting.saturating_sub(1);
        if std::mem::take(&mut self.interrupts_next) {
            self.interrupt();
        }
    }

    /// Notes that the cell has ended, and with it its calls.
    pub(crate) fn end(&mut self) {
        self.is_running = false;
        self.calls.clear();
    }

    /// Interrupts the running cell, or the next one that is queued. Without both, nothing happens.
    pub(crate) fn interrupt(&mut self) {
        match &self.session {
            Some(session) if self.is_running => {
                session.interrupt();
                self.interrupted = Some(Instant::now());
            }
            _ => self.interrupts_next = self.runs_waiting > 0,
        }
    }

    /// Notes that the code waits for an answer.
    pub(crate) fn wait_for(&mut self, call: &str, kind: CallKind) {
        // A call that comes soon after an interrupt was made before the interrupt reached the code.
        self.interrupted = self
            .interrupted
            .filter(|sent| sent.elapsed() < INTERRUPT_ARRIVES_WITHIN);
        self.calls.insert(call.to_owned(), kind);
    }

    /// Whether the code waits for an answer, so that nothing else can be done in the session before it comes. The wait of a cell that was
    /// interrupted ends by itself: what is asked meanwhile is done after the cell.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.calls.is_empty() && self.interrupted.is_none()
    }

    /// Whether the session answers an operation while its cell runs: with the strategy `thread` it answers questions.
    pub(crate) fn answers_beside_its_cell(&self, operation: &Operation) -> bool {
        self.is_running
            && self.strategy == Strategy::Thread
            && matches!(
                operation,
                Operation::Vars | Operation::Inspect { .. } | Operation::Compute { .. }
            )
    }

    /// Passes an answer to the session. `Err` says why no call takes it.
    pub(crate) fn answer(&mut self, call: &str, answer: CallAnswer) -> Result<(), String> {
        let kind = match answer {
            CallAnswer::Tool(_) => CallKind::Tool,
            CallAnswer::Input(_) => CallKind::Input,
        };
        match self.calls.get(call) {
            None => return Err(format!("no call `{call}` waits for an answer")),
            Some(waiting) if *waiting != kind => {
                return Err(format!(
                    "the call `{call}` waits for {}",
                    waiting.operation()
                ));
            }
            Some(_) => {}
        }
        self.calls.remove(call);
        if let Some(session) = &self.session {
            match answer {
                CallAnswer::Tool(outcome) => session.tool_result(call, outcome),
                CallAnswer::Input(outcome) => session.input(call, outcome),
            }
        }
        Ok(())
    }

    /// Refuses every call that waits.
    pub(crate) fn refuse_calls(&mut self, reason: &str) {
        for (call, kind) in std::mem::take(&mut self.calls) {
            if let Some(session) = &self.session {
                kind.refuse(session, &call, reason);
            }
        }
    }
}

impl CallKind {
    /// Answers a call with an error.
    pub(crate) fn refuse(self, session: &Session, call: &str, reason: &str) {
        match self {
            CallKind::Tool => session.tool_result(call, Err(reason.to_owned())),
            CallKind::Input => session.input(call, Err(reason.to_owned())),
        }
    }

    fn operation(self) -> &'static str {
        match self {
            CallKind::Tool => "`tool_result`",
            CallKind::Input => "`input`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_soon_after_an_interrupt_was_made_before_it_and_a_later_one_waits() {
        let mut state = SessionState {
            interrupted: Some(Instant::now()),
            ..SessionState::default()
        };
        state.wait_for("1", CallKind::Input);
        assert!(!state.is_waiting());
        state.interrupted = Instant::now().checked_sub(INTERRUPT_ARRIVES_WITHIN);
        state.wait_for("2", CallKind::Input);
        assert!(state.is_waiting());
    }
}
