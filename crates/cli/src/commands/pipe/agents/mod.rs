//! Agents on the pipe: `ask`, `template`, `say`, `undo`, `fork`, `cancel` and `approve`.
//!
//! A run has the name of its request's session, and a task of its own. Its events are those of `ask --json`; the last one is `outcome`.

mod calls;
mod options;
mod task;

use super::operations::OperationError;
use super::server::PipeServer;
use cellblock::agent::CancellationToken;
use cellblock::pipe::{AfterAnswer, AgentOperation, AgentRequest, RequestId, Response};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use task::AgentTask;
use tokio::sync::mpsc;

pub(crate) use calls::{ClientAnswer, ClientCalls};

/// The most agents at a time.
const MAX_AGENTS: usize = 256;
/// The most requests of one conversation that wait.
const MAX_WAITING: usize = 64;

/// The agents of a pipe.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    runs: Mutex<HashMap<String, AgentEntry>>,
    /// How many names of forks were tried.
    forks: AtomicU64,
}

/// An agent that answers, or that waits for the next question.
#[derive(Clone, Debug)]
struct AgentEntry {
    calls: ClientCalls,
    /// Ends the run of now.
    cancel: Arc<Mutex<CancellationToken>>,
    /// Interrupts the cell that runs.
    interrupt: Arc<tokio::sync::Notify>,
    /// Whether the agent was closed: what still waits is refused.
    closed: CancellationToken,
    /// The next requests; `None` where the conversation ends with its answer. The sender in the table is the only one, so that closing the
    /// agent ends the queue.
    queue: Option<mpsc::Sender<QueuedQuestion>>,
}

/// Something that is asked of a conversation, one after the other.
#[derive(Debug)]
pub(crate) enum ChatRequest {
    /// The next question.
    Say(String),
    /// Take back the last cells.
    Undo(u64),
    /// Make a second conversation that begins where this one stands.
    Fork,
}

#[derive(Debug)]
struct QueuedQuestion {
    id: Option<RequestId>,
    request: ChatRequest,
}

impl AgentEntry {
    fn cancel(&self) {
        lock(&self.cancel).cancel();
    }

    /// A token for the next run, unless the agent was closed.
    fn renew_cancel(&self) {
        let mut cancel = lock(&self.cancel);
        if cancel.is_cancelled() && !self.closed.is_cancelled() {
            *cancel = CancellationToken::new();
        }
    }

    fn close(&self) {
        self.closed.cancel();
        self.calls.end("the run was ended");
        self.cancel();
    }
}

impl Agents {
    /// Whether there is an agent of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        lock(&self.runs).contains_key(name)
    }

    /// Passes the answer of the client on. `Err` says why no call takes it.
    pub(crate) fn answer(
        &self,
        name: &str,
        call: &str,
        answer: ClientAnswer,
    ) -> Result<(), String> {
        let calls = lock(&self.runs).get(name).map(|entry| entry.calls.clone());
        let calls = calls.ok_or_else(|| format!("no agent `{name}` runs"))?;
        calls.answer(call, answer)
    }

    /// Interrupts the cell that an agent runs.
    pub(crate) fn interrupt(&self, name: &str) {
        if let Some(entry) = lock(&self.runs).get(name) {
            entry.interrupt.notify_one();
        }
    }

    /// Ends a run with what was reached, and its conversation.
    pub(crate) fn close(&self, name: &str) {
        if let Some(entry) = lock(&self.runs).remove(name) {
            entry.close();
        }
    }

    /// Forgets an agent whose task ends. Another one may have its name by now, and stays.
    fn forget(&self, name: &str, ended: &AgentEntry) {
        let mut runs = lock(&self.runs);
        let is_same = |entry: &AgentEntry| Arc::ptr_eq(&entry.cancel, &ended.cancel);
        if runs.get(name).is_some_and(is_same) {
            runs.remove(name);
        }
        ended.close();
    }

    /// Ends everything.
    pub(crate) fn close_all(&self) {
        let names: Vec<String> = lock(&self.runs).keys().cloned().collect();
        names.iter().for_each(|name| self.close(name));
    }

    /// Refuses all calls: no line will come that could answer one.
    pub(crate) fn refuse_calls(&self, reason: &str) {
        for entry in lock(&self.runs).values_mut() {
            entry.calls.end(reason);
            entry.queue = None;
        }
    }

    /// Adds an agent of this name. Returns what its task needs.
    fn add(
        &self,
        server: &PipeServer,
        name: &str,
        conversation: AfterAnswer,
    ) -> Result<(AgentEntry, mpsc::Receiver<QueuedQuestion>), OperationError> {
        let mut runs = lock(&self.runs);
        if runs.contains_key(name) {
            let message = format!(
                "there is an agent `{name}` already; close it first, or choose another name"
            );
            return Err(OperationError::new("exists", message));
        }
        if runs.len() >= MAX_AGENTS {
            let message = format!("{MAX_AGENTS} agents run already; close some first");
            return Err(OperationError::new("busy", message));
        }
        // Asked under the lock, so that the end of the input finds this agent or refuses it.
        if server.is_stopping() || server.input_has_ended() {
            return Err(OperationError::new("ended", "the pipe is about to end"));
        }
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        let entry = AgentEntry {
            calls: ClientCalls::new(name, server.writer.clone()),
            cancel: Arc::default(),
            interrupt: Arc::default(),
            closed: CancellationToken::new(),
            queue: None,
        };
        let in_table = AgentEntry {
            queue: (conversation == AfterAnswer::GoesOn).then_some(sender),
            ..entry.clone()
        };
        runs.insert(name.to_owned(), in_table);
        Ok((entry, queue))
    }

    /// A name for a fork that neither an agent nor a session has.
    fn fork_name(&self, server: &PipeServer) -> String {
        loop {
            let number = self.forks.fetch_add(1, Ordering::Relaxed) + 1;
            let name = format!("fork-{number}");
            if !self.has(&name) && !server.has_session(&name) {
                return name;
            }
        }
    }
}

/// Does what is asked of an agent. The answer, where there is one already.
pub(crate) fn dispatch(
    server: &Arc<PipeServer>,
    id: Option<RequestId>,
    name: String,
    operation: AgentOperation,
) -> Option<Response> {
    let outcome = match operation {
        AgentOperation::Ask(request) => {
            return match begin(server, &id, &name, *request) {
                Ok(()) => None,
                Err(error) => Some(error.response(id, name)),
            };
        }
        AgentOperation::Say { question } => {
            return enqueue(server, id, name, ChatRequest::Say(question));
        }
        AgentOperation::Cancel => match lock(&server.agents.runs).get(&name) {
            Some(entry) => {
                entry.cancel();
                Ok(())
            }
            None => Err(format!("no agent `{name}` runs")),
        },
        AgentOperation::Approve { call, decision } => {
            let answer = ClientAnswer::Approval(decision);
            // Answered only when it is wrong, as `tool_result` is.
            let wrong = server.agents.answer(&name, &call, answer).err()?;
            Err(wrong)
        }
    };
    Some(match outcome {
        Ok(()) => Response::answer(id, name, json!({})),
        Err(message) => OperationError::new("not_found", message).response(id, name),
    })
}

/// Lets a request wait for its turn in a conversation. The answer, where it is refused.
pub(crate) fn enqueue(
    server: &PipeServer,
    id: Option<RequestId>,
    name: String,
    request: ChatRequest,
) -> Option<Response> {
    let queued = QueuedQuestion {
        id: id.clone(),
        request,
    };
    let refused = put_in_queue(&server.agents, &name, queued).err()?;
    Some(refused.response(id, name))
}

fn put_in_queue(agents: &Agents, name: &str, queued: QueuedQuestion) -> Result<(), OperationError> {
    let runs = lock(&agents.runs);
    let entry = runs.get(name).ok_or_else(|| {
        OperationError::new(
            "not_found",
            format!("no agent `{name}` waits for a question; `ask` with `keep` makes one"),
        )
    })?;
    let Some(queue) = &entry.queue else {
        let message = format!(
            "the agent `{name}` ends with its answer; `ask` with `keep` makes one that goes on"
        );
        return Err(OperationError::new("ended", message));
    };
    // The client may well be the tool that the run waits for: the request would wait for itself.
    let is_question = matches!(queued.request, ChatRequest::Say(_));
    if !is_question && entry.calls.is_waiting() {
        let message = format!(
            "the agent `{name}` is busy: its run waits for the answer to a call; answer it first, or cancel the run"
        );
        return Err(OperationError::new("busy", message));
    }
    queue
        .try_send(queued)
        .map_err(|_| OperationError::new("busy", format!("{MAX_WAITING} requests wait already")))
}

fn begin(
    server: &Arc<PipeServer>,
    id: &Option<RequestId>,
    name: &str,
    request: AgentRequest,
) -> Result<(), OperationError> {
    let (entry, queue) = server.agents.add(server, name, request.conversation)?;
    entry.calls.begin(id.clone());
    let task = AgentTask {
        name: name.to_owned(),
        entry,
        server: Arc::clone(server),
    };
    let counted = server.count_task();
    tokio::spawn(async move {
        task.begin(request, queue).await;
        drop(counted);
    });
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
