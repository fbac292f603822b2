//! The task of one agent: it answers the questions of a conversation, one after the other.

use super::calls::ClientSide;
use super::options::RunOptions;
use super::{AgentEntry, ChatRequest, QueuedQuestion, lock};
use crate::agent_run::{AgentRunArgs, RunRecorder, RunSetup, read_files};
use crate::args::ToolServers;
use crate::commands::pipe::operations::OperationError;
use crate::commands::pipe::server::PipeServer;
use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::Host;
use cellblock::agent::{
    Agent, BoxFuture, Conversation, Observer, Outcome, RunEvent, Template, TemplateRun, Verify,
};
use cellblock::pipe::{AfterAnswer, AgentRequest, AgentTask as Task, RequestId, Response};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Events that wait to be written. A run waits when there are more.
const MAX_EVENTS: usize = 256;

/// The task of one agent.
pub(super) struct AgentTask {
    pub(super) name: String,
    pub(super) entry: AgentEntry,
    pub(super) server: Arc<PipeServer>,
}

/// An agent that can be asked.
struct Ready {
    conversation: Conversation,
    agent: Agent,
    /// What the client answers.
    client: ClientSide,
    /// Shared with forks: the last one closes them.
    servers: Arc<ToolServers>,
    console: Console,
}

impl AgentTask {
    /// Sets an agent up, answers its first question, and goes on as long as the conversation does.
    pub(super) async fn begin(
        self,
        request: AgentRequest,
        mut queue: mpsc::Receiver<QueuedQuestion>,
    ) {
        let conversation = request.conversation;
        let token = lock(&self.entry.cancel).clone();
        let preparing = self.prepare(request);
        let prepared = tokio::select! {
            prepared = preparing => prepared.map_err(|error| OperationError::new("agent", words(&error))),
            () = token.cancelled() => Err(OperationError::new("ended", "the run was ended before it began")),
        };
        let (mut ready, question) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.forget();
                let response = error.response(self.entry.calls.request(), self.name.clone());
                self.server.writer.send(response).await;
                return self.refuse_all(&mut queue).await;
            }
        };
        let answered = self.answer(&mut ready, &question).await;
        match conversation {
            AfterAnswer::GoesOn => {
                self.server.writer.send(answered).await;
                self.converse(ready, queue).await;
            }
            AfterAnswer::Ends => {
                // Before the last line: a client that reads it may use the name again.
                self.forget();
                self.server.writer.send(answered).await;
                ready.close().await;
            }
        }
    }

    /// Does what is asked, in order, until the agent is closed or no more requests can come.
    async fn converse(self, mut ready: Ready, mut queue: mpsc::Receiver<QueuedQuestion>) {
        while !self.entry.closed.is_cancelled()
            && let Some(QueuedQuestion { id, request }) = queue.recv().await
        {
            let done = match request {
                _ if self.entry.closed.is_cancelled() => Err(closed()),
                ChatRequest::Say(question) => {
                    self.entry.calls.begin(id);
                    self.entry.renew_cancel();
                    let answered = self.answer(&mut ready, &question).await;
                    self.server.writer.send(answered).await;
                    continue;
                }
                ChatRequest::Undo(cells) => undo(&mut ready.conversation, cells).await,
                ChatRequest::Fork => self.fork(&ready).await,
            };
            let response = match done {
                Ok(answer) => Response::answer(id, self.name.clone(), answer),
                Err(error) => error.response(id, self.name.clone()),
            };
            self.server.writer.send(response).await;
        }
        self.forget();
        self.refuse_all(&mut queue).await;
        ready.close().await;
    }

    /// Tells those that still wait that the conversation is over.
    async fn refuse_all(&self, queue: &mut mpsc::Receiver<QueuedQuestion>) {
        queue.close();
        while let Some(QueuedQuestion { id, .. }) = queue.recv().await {
            let response = closed().response(id, self.name.clone());
            self.server.writer.send(response).await;
        }
    }

    /// Makes a second conversation with a task of its own. Its calls carry its own name.
    async fn fork(&self, from: &Ready) -> Result<Value, OperationError> {
        let agents = &self.server.agents;
        let name = agents.fork_name(&self.server);
        let (entry, queue) = agents.add(&self.server, &name, AfterAnswer::GoesOn)?;
        let fork = AgentTask {
            name: name.clone(),
            entry,
            server: Arc::clone(&self.server),
        };
        let ready = match from.fork(&fork.entry).await {
            Ok(ready) => ready,
            Err(error) => {
                fork.forget();
                return Err(error);
            }
        };
        let counted = self.server.count_task();
        let conversing = fork.conversing(ready, queue);
        tokio::spawn(async move {
            conversing.await;
            drop(counted);
        });
        Ok(json!({ "session": name }))
    }

    /// [`converse`](Self::converse) as a value, because the type of a future cannot contain itself.
    fn conversing(
        self,
        ready: Ready,
        queue: mpsc::Receiver<QueuedQuestion>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.converse(ready, queue))
    }

    fn forget(&self) {
        self.server.agents.forget(&self.name, &self.entry);
    }

    /// Answers one question: its events are written, and the last line is returned.
    async fn answer(&self, ready: &mut Ready, question: &str) -> Response {
        let id = self.entry.calls.request();
        let options = json!({"pipe": true});
        let model = ready.agent.model_name();
        let recorder = RunRecorder::begin(question, model, options, &ready.console);
        if let Some(run) = recorder.id() {
            ready.conversation.set_run_id(&run);
        }
        let (events, mut written) = mpsc::channel::<Option<Value>>(MAX_EVENTS);
        let last_event = events.clone();
        let observer: Observer = Arc::new(move |event: &RunEvent| {
            let Ok(event) = serde_json::to_value(event).map(Some) else {
                return;
            };
            // Only where the reader of the pipe is slower than the run does the run wait for it.
            if let Err(mpsc::error::TrySendError::Full(event)) = events.try_send(event) {
                tokio::task::block_in_place(|| {
                    let _ = events.blocking_send(event);
                });
            }
        });
        let observer = recorder.observer(observer);
        let writer = self.server.writer.clone();
        let (name, id_of_events) = (self.name.clone(), id.clone());
        let writing = tokio::spawn(async move {
            while let Some(Some(event)) = written.recv().await {
                let line = Response::agent_event(id_of_events.clone(), name.clone(), event);
                writer.send(line).await;
            }
        });
        let token = lock(&self.entry.cancel).clone();
        let executor = Arc::clone(ready.conversation.executor());
        let mut asking = Box::pin(ready.conversation.ask(question, observer, token));
        let outcome = loop {
            tokio::select! {
                outcome = &mut asking => break outcome,
                () = self.entry.interrupt.notified() => executor.interrupt().await,
            }
        };
        drop(asking);
        // The conversation keeps the observer, so the end of the events is told.
        let _ = last_event.send(None).await;
        let _ = writing.await;
        match outcome {
            Ok(outcome) => {
                recorder.end(&outcome);
                self.outcome(id, &outcome)
            }
            Err(error) => self.error(id, &error.to_string()),
        }
    }

    fn outcome(&self, id: Option<RequestId>, outcome: &Outcome) -> Response {
        let event = json!({"event": "outcome", "outcome": outcome});
        Response::agent_event(id, self.name.clone(), event)
    }

    fn error(&self, id: Option<RequestId>, message: &str) -> Response {
        OperationError::new("agent", message).response(id, self.name.clone())
    }

    /// The agent that a request describes, and its first question.
    async fn prepare(&self, request: AgentRequest) -> anyhow::Result<(Ready, String)> {
        let console = self.server.console.clone();
        let options = RunOptions::read(&request.options)?;
        let (mut args, _) = options.args.resolve()?;
        args.model = args.model.or_found(&console).await?;
        let untrusted = args.session.untrusted_directories();
        let paths: Vec<PathBuf> = request.files.iter().map(PathBuf::from).collect();
        let files = tokio::task::spawn_blocking(move || read_files(&paths, &untrusted)).await??;
        let client = ClientSide {
            tools: request.tools,
            approvals: request.approvals,
        };
        let setup = RunSetup {
            files,
            host: self.shared_host(&args),
            tools: client.tools(&self.entry.calls),
            approver: client.approver(&self.entry.calls),
            ..RunSetup::default()
        };
        let model = args.model.open(&console).await?;
        let (mut builder, servers) = args.agent(model, setup, &console).await?;
        builder = builder.verify(match options.verify {
            true => Verify::On,
            false => Verify::Off,
        });
        for (name, value) in request.seed {
            builder = builder.variable(name, value);
        }
        if let Some(schema) = request.schema {
            builder = builder.answer_schema(schema);
        }
        let unfit = |error: cellblock::agent::AgentError| Usage::plain(error.to_string());
        let agent = builder.build().map_err(unfit)?;
        let TemplateRun { agent, question } = match request.task {
            Task::Question(question) => TemplateRun { agent, question },
            Task::Template { text, arguments } => {
                let template = Template::from_markdown(&text);
                let template = template.map_err(|error| Usage::plain(error.to_string()))?;
                agent
                    .prepare_template(&template, arguments)
                    .map_err(unfit)?
            }
        };
        let ready = Ready {
            conversation: agent.conversation(),
            agent,
            client,
            servers: Arc::new(servers),
            console,
        };
        Ok((ready, question))
    }

    /// The host of the pipe, which is warm, unless the run wants another Python or other packages.
    fn shared_host(&self, args: &AgentRunArgs) -> Option<Host> {
        args.wants_no_other_python()
            .then(|| self.server.host.clone())
    }
}

impl Ready {
    /// A copy over a fork of the session, whose calls go out under the name of this entry.
    async fn fork(&self, entry: &AgentEntry) -> Result<Ready, OperationError> {
        let refused = |message: String| OperationError::new("refused", message);
        let calls = &entry.calls;
        let agent = self
            .agent
            .for_fork(self.client.tools(calls), self.client.approver(calls))
            .map_err(|error| refused(error.to_string()))?;
        let forked = self.conversation.fork_for(&agent).await;
        Ok(Ready {
            conversation: forked.map_err(|error| refused(error.to_string()))?,
            agent,
            client: self.client.clone(),
            servers: Arc::clone(&self.servers),
            console: self.console.clone(),
        })
    }

    /// Ends the session, and the servers of tools that no fork needs any more.
    async fn close(self) {
        self.conversation.executor().close().await;
        if let Some(servers) = Arc::into_inner(self.servers) {
            servers.close().await;
        }
    }
}

async fn undo(conversation: &mut Conversation, cells: u64) -> Result<Value, OperationError> {
    let count = usize::try_from(cells).unwrap_or(usize::MAX);
    let undone = conversation.undo(count).await;
    let undone = undone.map_err(|error| OperationError::new("refused", error.to_string()))?;
    Ok(json!(undone))
}

fn closed() -> OperationError {
    OperationError::new("ended", "the conversation was closed")
}

/// An error with what led to it.
fn words(error: &anyhow::Error) -> String {
    format!("{error:#}")
}
