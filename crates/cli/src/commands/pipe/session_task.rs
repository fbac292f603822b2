//! The task of one session of the pipe: it does the requests of the session in order.

use super::operations::{Answer, Fault, ask, tell};
use super::server::{INPUT_HAS_ENDED, PipeServer, Share, lock};
use super::session_state::{CallKind, SessionState};
use cellblock::pipe::{Operation, RequestId, Response};
use cellblock::{Cell, Event, Opened, Session, SessionOptions, Stream};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

/// A request that waits for its turn.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) id: Option<RequestId>,
    pub(crate) operation: Operation,
    pub(crate) _share: Share,
}

/// Runs the task of one session. It ends with its queue, or when its session is closed.
pub(crate) async fn serve(
    server: Arc<PipeServer>,
    name: String,
    state: Arc<Mutex<SessionState>>,
    session: Option<Session>,
    queue: mpsc::UnboundedReceiver<Queued>,
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
    Failed(Fault),
}

/// Whether the name is still in use.
enum Next {
    Open,
    Closed,
}

impl SessionTask {
    async fn serve(mut self, mut queue: mpsc::UnboundedReceiver<Queued>) {
        loop {
            let queued = tokio::select! {
                queued = queue.recv() => queued,
                event = next_log(&mut self.logs) => {
                    self.tell_log(None, event).await;
                    continue;
                }
            };
            let Some(Queued { id, operation, .. }) = queued.filter(|_| !self.server.is_stopping())
            else {
                break;
            };
            let next = self.attend(id, operation).await;
            if matches!(next, Next::Closed) && self.server.forget(&self.name, &queue) {
                return;
            }
        }
        self.close().await;
    }

    async fn attend(&mut self, id: Option<RequestId>, operation: Operation) -> Next {
        let (outcome, next) = match operation {
            Operation::Close => {
                self.close().await;
                (Ok(Answer::Value(json!({}))), Next::Closed)
            }
            Operation::Open(options) => {
                let opened = self.open_anew(*options).await;
                (opened.map(Answer::Value), Next::Open)
            }
            Operation::Run(cell) => match self.run(&id, cell).await {
                Ok(()) => return Next::Open,
                Err(fault) => (Err(fault), Next::Open),
            },
            Operation::Fork => (self.fork().await.map(Answer::Value), Next::Open),
            operation => (self.ask(operation).await, Next::Open),
        };
        tell(&self.server.writer, id, self.name.clone(), outcome).await;
        next
    }

    async fn ask(&mut self, operation: Operation) -> Result<Answer, Fault> {
        ask(&self.session().await?, operation).await
    }

    /// A second session, which is at once another name of the pipe.
    async fn fork(&mut self) -> Result<Value, Fault> {
        let session = self.session().await?;
        let fork = session.fork().await.map_err(cellblock::Error::from)?;
        let name = self.server.adopt(fork).await?;
        Ok(json!(Opened { session: name }))
    }

    /// Runs a cell; its events and its result go out as they come.
    async fn run(&mut self, id: &Option<RequestId>, cell: Cell) -> Result<(), Fault> {
        let session = match self.session().await {
            Ok(session) => session,
            Err(fault) => {
                lock(&self.state).begin();
                lock(&self.state).end();
                return Err(fault);
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
                // Before it is told: whoever reads the result may ask again at once.
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
    async fn session(&mut self) -> Result<Session, Fault> {
        match &self.slot {
            Slot::Open(session) => Ok(session.clone()),
            Slot::Failed(fault) => Err(fault.clone()),
            // A failure is not kept: the next request tries again, with the same defaults.
            Slot::Empty => self.open(SessionOptions::default()).await,
        }
    }

    async fn open_anew(&mut self, options: SessionOptions) -> Result<Value, Fault> {
        if let Slot::Open(session) = &self.slot {
            if is_alive(session).await {
                let message = format!(
                    "session `{}` is open already; close it first, or choose another name",
                    self.name
                );
                return Err(Fault::new("exists", message));
            }
            self.close().await;
        }
        match self.open(options).await {
            Ok(_) => Ok(json!(Opened {
                session: self.name.clone()
            })),
            Err(fault) => {
                let later = format!(
                    "session `{}` could not be opened: {}",
                    self.name, fault.message
                );
                self.slot = Slot::Failed(Fault::new(fault.code, later));
                Err(fault)
            }
        }
    }

    async fn open(&mut self, mut options: SessionOptions) -> Result<Session, Fault> {
        options.session = Some(self.name.clone());
        let session = self.server.host.open(options).await?;
        self.logs = Some(session.logs());
        lock(&self.state).session = Some(session.clone());
        self.slot = Slot::Open(session.clone());
        Ok(session)
    }

    async fn close(&mut self) {
        lock(&self.state).session = None;
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

/// The next log; never, while there is no session. Whoever reads too slowly has lost lines in the middle.
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
