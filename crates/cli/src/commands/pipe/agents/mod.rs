//! Agents on the pipe: `ask`, `template`, `say`, `cancel` and `approve`.
//!
//! A run has the name of its request's session, and a task of its own. Its events are those of `ask --json`; the last one is `outcome`.

mod calls;

use super::operations::OperationError;
use super::server::PipeServer;
use crate::agent_run::{AgentRunArgs, RunRecorder, RunSetup, read_files};
use crate::args::ToolServers;
use crate::failure::Usage;
use crate::terminal::Console;
use calls::{ClientApprover, ClientTool};
use cellblock::Host;
use cellblock::agent::{
    CancellationToken, Conversation, Observer, Outcome, RunEvent, Template, TemplateRun, Verify,
};
use cellblock::pipe::{
    AfterAnswer, AgentOperation, AgentRequest, AgentTask, ApprovalsBy, RequestId, Response,
};
use cellblock::tools::Approver;
use clap::Parser;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

pub(crate) use calls::{ClientAnswer, ClientCalls};

/// The most agents at a time.
const MAX_AGENTS: usize = 256;
/// The most questions of one conversation that wait.
const MAX_QUESTIONS: usize = 64;
/// Events that wait to be written. A run waits when there are more.
const MAX_EVENTS: usize = 256;

/// The agents of a pipe.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    runs: Mutex<HashMap<String, AgentEntry>>,
}

/// An agent that answers, or that waits for the next question.
#[derive(Clone, Debug)]
struct AgentEntry {
    calls: ClientCalls,
    /// Ends the run of now.
    cancel: Arc<Mutex<CancellationToken>>,
    /// Interrupts the cell that runs.
    interrupt: Arc<tokio::sync::Notify>,
    /// The next questions; `None` where the conversation ends with its answer.
    questions: Option<mpsc::Sender<(Option<RequestId>, String)>>,
}

impl AgentEntry {
    fn cancel(&self) {
        lock(&self.cancel).cancel();
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
            entry.calls.end("the run was ended");
            entry.cancel();
        }
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
            entry.questions = None;
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
            return match say(&server.agents, &id, &name, question) {
                Ok(()) => None,
                Err(error) => Some(error.response(id, name)),
            };
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

fn say(
    agents: &Agents,
    id: &Option<RequestId>,
    name: &str,
    question: String,
) -> Result<(), OperationError> {
    let runs = lock(&agents.runs);
    let entry = runs.get(name).ok_or_else(|| {
        OperationError::new(
            "not_found",
            format!("no agent `{name}` waits for a question; `ask` with `keep` makes one"),
        )
    })?;
    let Some(questions) = &entry.questions else {
        let message = format!(
            "the agent `{name}` ends with its answer; `ask` with `keep` makes one that goes on"
        );
        return Err(OperationError::new("ended", message));
    };
    questions
        .try_send((id.clone(), question))
        .map_err(|_| OperationError::new("busy", format!("{MAX_QUESTIONS} questions wait already")))
}

fn begin(
    server: &Arc<PipeServer>,
    id: &Option<RequestId>,
    name: &str,
    request: AgentRequest,
) -> Result<(), OperationError> {
    let mut runs = lock(&server.agents.runs);
    if runs.contains_key(name) {
        let message =
            format!("there is an agent `{name}` already; close it first, or choose another name");
        return Err(OperationError::new("exists", message));
    }
    if runs.len() >= MAX_AGENTS {
        let message = format!("{MAX_AGENTS} agents run already; close some first");
        return Err(OperationError::new("busy", message));
    }
    if server.is_stopping() || server.input_has_ended() {
        return Err(OperationError::new("ended", "the pipe is about to end"));
    }
    let (sender, questions) = mpsc::channel(MAX_QUESTIONS);
    let entry = AgentEntry {
        calls: ClientCalls::new(name, server.writer.clone()),
        cancel: Arc::default(),
        interrupt: Arc::default(),
        questions: (request.conversation == AfterAnswer::GoesOn).then_some(sender),
    };
    entry.calls.begin(id.clone());
    runs.insert(name.to_owned(), entry.clone());
    drop(runs);
    let task = AgentRun {
        name: name.to_owned(),
        entry,
        server: Arc::clone(server),
    };
    let counted = server.count_task();
    tokio::spawn(async move {
        task.live(request, questions).await;
        drop(counted);
    });
    Ok(())
}

/// The task of one agent.
struct AgentRun {
    name: String,
    entry: AgentEntry,
    server: Arc<PipeServer>,
}

/// An agent that can be asked.
struct Ready {
    conversation: Conversation,
    question: String,
    model: String,
    servers: ToolServers,
    console: Console,
}

impl AgentRun {
    async fn live(
        mut self,
        request: AgentRequest,
        mut questions: mpsc::Receiver<(Option<RequestId>, String)>,
    ) {
        // The sender in the table is the only one, so that closing the agent ends the questions.
        self.entry.questions = None;
        let token = lock(&self.entry.cancel).clone();
        let preparing = self.prepare(request);
        let prepared = tokio::select! {
            prepared = preparing => prepared.map_err(|error| OperationError::new("agent", words(&error))),
            () = token.cancelled() => Err(OperationError::new("ended", "the run was ended before it began")),
        };
        let mut ready = match prepared {
            Ok(ready) => ready,
            Err(error) => {
                self.forget();
                let response = error.response(self.entry.calls.request(), self.name.clone());
                return self.server.writer.send(response).await;
            }
        };
        let mut question = std::mem::take(&mut ready.question);
        loop {
            let answered = self.answer(&mut ready, &question).await;
            let goes_on = lock(&self.server.agents.runs)
                .get(&self.name)
                .is_some_and(|entry| entry.questions.is_some());
            if !goes_on {
                self.forget();
            }
            self.server.writer.send(answered).await;
            let next = match goes_on {
                true => questions.recv().await,
                false => None,
            };
            let Some((id, next)) = next else { break };
            self.entry.calls.begin(id);
            let mut cancel = lock(&self.entry.cancel);
            if cancel.is_cancelled() && self.server.agents.has(&self.name) {
                *cancel = CancellationToken::new();
            }
            question = next;
        }
        self.forget();
        ready.conversation.executor().close().await;
        ready.servers.close().await;
    }

    fn forget(&self) {
        self.server.agents.close(&self.name);
    }

    /// Answers one question: its events are written, and the last line is returned.
    async fn answer(&self, ready: &mut Ready, question: &str) -> Response {
        let id = self.entry.calls.request();
        let options = json!({"pipe": true});
        let recorder = RunRecorder::begin(question, &ready.model, options, &ready.console);
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

    async fn prepare(&self, request: AgentRequest) -> anyhow::Result<Ready> {
        let console = self.server.console.clone();
        let options = RunOptions::read(&request.options)?;
        let (mut args, _) = options.args.resolve()?;
        args.model = args.model.or_found(&console).await?;
        let untrusted = args.session.untrusted_directories();
        let paths: Vec<PathBuf> = request.files.iter().map(PathBuf::from).collect();
        let files = tokio::task::spawn_blocking(move || read_files(&paths, &untrusted)).await??;
        let calls = &self.entry.calls;
        let tools = request.tools.into_iter();
        let setup = RunSetup {
            files,
            host: self.shared_host(&args),
            tools: tools.map(|spec| ClientTool::shared(spec, calls)).collect(),
            approver: (request.approvals == ApprovalsBy::Client)
                .then(|| Arc::new(ClientApprover(calls.clone())) as Arc<dyn Approver>),
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
            AgentTask::Question(question) => TemplateRun { agent, question },
            AgentTask::Template { text, arguments } => {
                let template = Template::from_markdown(&text);
                let template = template.map_err(|error| Usage::plain(error.to_string()))?;
                agent
                    .prepare_template(&template, arguments)
                    .map_err(unfit)?
            }
        };
        Ok(Ready {
            conversation: agent.conversation(),
            question,
            model: agent.model_name().to_owned(),
            servers,
            console,
        })
    }

    /// The host of the pipe, which is warm, unless the run wants another Python or other packages.
    fn shared_host(&self, args: &AgentRunArgs) -> Option<Host> {
        args.wants_no_other_python()
            .then(|| self.server.host.clone())
    }
}

/// The options of a run: the long options of `cellblock ask`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct RunOptions {
    #[command(flatten)]
    args: AgentRunArgs,
    #[arg(long)]
    verify: bool,
}

impl RunOptions {
    fn read(options: &Map<String, Value>) -> anyhow::Result<RunOptions> {
        let mut words = Vec::new();
        for (name, value) in options {
            let is_name = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '-');
            if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
                return Err(Usage::plain(format!("there is no option {name:?}")));
            }
            let flag = format!("--{}", name.replace('_', "-"));
            let values = match value {
                Value::Array(values) => values.iter().collect(),
                one => vec![one],
            };
            for value in values {
                match value {
                    Value::Null | Value::Bool(false) => {}
                    Value::Bool(true) => words.push(flag.clone()),
                    Value::String(text) => words.push(format!("{flag}={text}")),
                    Value::Number(number) => words.push(format!("{flag}={number}")),
                    other => {
                        let problem = format!("{name}: a text or a number is needed, got {other}");
                        return Err(Usage::plain(problem));
                    }
                }
            }
        }
        RunOptions::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            Usage::plain(first.trim_start_matches("error: ").to_owned())
        })
    }
}

/// An error with what led to it.
fn words(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
