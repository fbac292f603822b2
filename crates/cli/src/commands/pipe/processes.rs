//! Processes beside the interpreter, and watched directories: their operations are done at once, also while a cell of the session runs.

use super::operations::OperationError;
use super::server::{PipeServer, lock};
use super::watches::Watches;
use cellblock::operations::process_event;
use cellblock::pipe::{Operation, RequestId, Response};
use cellblock::{AttachedProcess, Below, Process, ProcessEvents, Session};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Whether an operation is about processes or watched directories.
pub(crate) fn is_about_processes(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Spawn(_)
            | Operation::ProcInput { .. }
            | Operation::ProcClose { .. }
            | Operation::ProcSignal { .. }
            | Operation::ProcResize { .. }
            | Operation::Procs
            | Operation::ProcAttach { .. }
            | Operation::Watch { .. }
            | Operation::Unwatch { .. }
    )
}

/// An operation about processes, with the mark of its request.
#[derive(Debug)]
pub(crate) struct ProcessRequest {
    pub(crate) id: Option<RequestId>,
    pub(crate) operation: Operation,
    /// The part of the memory for waiting requests that this one takes.
    pub(crate) share: Option<super::server::MemoryShare>,
}

/// The queue of a session's operations about processes.
pub(crate) type ProcessQueue = mpsc::UnboundedSender<ProcessRequest>;

/// Starts the task that does a session's operations about processes, in order.
pub(crate) fn start(server: &Arc<PipeServer>, name: &str, session: &Session) -> ProcessQueue {
    let (queue, requests) = mpsc::unbounded_channel();
    let task = ProcessTask {
        server: Arc::clone(server),
        name: name.to_owned(),
        session: session.clone(),
        inputs: Arc::default(),
        watches: Watches::default(),
    };
    tokio::spawn(task.serve(requests));
    queue
}

struct ProcessTask {
    server: Arc<PipeServer>,
    name: String,
    session: Session,
    /// The queue of what is to be written to each process: a process that does not read holds up its own input alone.
    inputs: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<ProcessRequest>>>>,
    watches: Watches,
}

impl ProcessTask {
    async fn serve(mut self, mut requests: mpsc::UnboundedReceiver<ProcessRequest>) {
        while let Some(request) = requests.recv().await {
            let id = request.id.clone();
            let outcome = match request.operation {
                Operation::ProcInput { ref proc, .. } | Operation::ProcClose { ref proc } => {
                    let proc = proc.clone();
                    match self.queue_input(&proc, request) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    }
                }
                Operation::Spawn(spawn) => match self.session.spawn_attached(*spawn).await {
                    Ok(AttachedProcess { process, events }) => {
                        let info = process.info();
                        let answer = json!({"proc": info.proc, "pid": info.pid});
                        // The answer comes before the first event.
                        self.answer(id.clone(), Ok(answer)).await;
                        self.forward(id, &process, events);
                        continue;
                    }
                    Err(error) => Err(failed(error)),
                },
                Operation::ProcAttach { proc, after } => match self.find(&proc) {
                    Ok(process) => {
                        let events = process.attach(after);
                        self.answer(id.clone(), Ok(json!({}))).await;
                        self.forward(id, &process, events);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Operation::Watch { path, recursive } => {
                    let below = match recursive {
                        true => Below::Watched,
                        false => Below::NotWatched,
                    };
                    match self.watches.begin(&self.session, &path, below).await {
                        Ok(watch) => {
                            let answer = json!({"watch": watch.name});
                            self.answer(id.clone(), Ok(answer)).await;
                            watch.forward(&self.server, &self.name, id);
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                Operation::Unwatch { watch } => self.watches.end(&watch).map(|()| json!({})),
                operation => self.obey(operation).await,
            };
            self.answer(id, outcome).await;
        }
    }

    async fn obey(&self, operation: Operation) -> Result<Value, OperationError> {
        match operation {
            Operation::Procs => Ok(json!(self.session.processes())),
            Operation::ProcSignal { proc, signal } => {
                let process = self.find(&proc)?;
                match signal {
                    Some(signal) => process.signal(signal).await.map_err(failed)?,
                    // Not waited for: the next operation may be about another process.
                    None => drop(tokio::spawn(async move { process.kill().await })),
                }
                Ok(json!({}))
            }
            Operation::ProcResize { proc, size } => {
                self.find(&proc)?.resize(size).map_err(failed)?;
                Ok(json!({}))
            }
            _ => Err(OperationError::new(
                "unsupported",
                "this operation cannot be done here",
            )),
        }
    }

    fn find(&self, proc: &str) -> Result<Process, OperationError> {
        self.session.process(proc).map_err(failed)
    }

    /// Hands something on that is to be written to a process, after what came before.
    fn queue_input(&self, proc: &str, request: ProcessRequest) -> Result<(), OperationError> {
        let process = self.find(proc)?;
        let mut inputs = lock(&self.inputs);
        let queue = inputs.entry(proc.to_owned()).or_insert_with(|| {
            let (queue, requests) = mpsc::unbounded_channel();
            let writer = InputTask {
                server: Arc::clone(&self.server),
                name: self.name.clone(),
                process,
            };
            let (inputs, proc) = (Arc::clone(&self.inputs), proc.to_owned());
            tokio::spawn(async move {
                writer.serve(requests).await;
                lock(&inputs).remove(&proc);
            });
            queue
        });
        // The task is there as long as its entry is.
        let _ = queue.send(request);
        Ok(())
    }

    async fn answer(&self, id: Option<RequestId>, outcome: Result<Value, OperationError>) {
        send_answer(&self.server, &self.name, id, outcome).await;
    }

    /// Passes on what a process writes, until its end, with the mark of the request.
    fn forward(&self, id: Option<RequestId>, process: &Process, mut events: ProcessEvents) {
        let proc = process.info().proc.clone();
        let (server, name) = (Arc::clone(&self.server), self.name.clone());
        let counted = server.count_task();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let response =
                    Response::event(id.clone(), name.clone(), process_event(&proc, event));
                server.writer.send(response).await;
            }
            drop(counted);
        });
    }
}

/// Writes to one process, in order.
struct InputTask {
    server: Arc<PipeServer>,
    name: String,
    process: Process,
}

impl InputTask {
    async fn serve(self, mut requests: mpsc::UnboundedReceiver<ProcessRequest>) {
        while let Some(request) = requests.recv().await {
            let ProcessRequest {
                id,
                operation,
                share,
            } = request;
            let outcome = match operation {
                Operation::ProcInput { bytes, .. } => self.process.write(&bytes).await,
                _ => self.process.close_input().await,
            };
            drop(share);
            let outcome = outcome.map(|()| json!({})).map_err(failed);
            send_answer(&self.server, &self.name, id, outcome).await;
        }
    }
}

async fn send_answer(
    server: &PipeServer,
    name: &str,
    id: Option<RequestId>,
    outcome: Result<Value, OperationError>,
) {
    let response = match outcome {
        Ok(answer) => Response::answer(id, name, answer),
        Err(error) => error.response(id, name.to_owned()),
    };
    server.writer.send(response).await;
}

fn failed(error: impl Into<cellblock::Error>) -> OperationError {
    OperationError::from(error.into())
}
