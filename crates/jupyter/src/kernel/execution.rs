//! Running a cell: its events become messages, its result the reply.

use super::cell_text::{help_line, hides_value, next_input, notebook_forms};
use super::commands::Command;
use super::endings::{self, Failure};
use super::shell::ShellLoop;
use crate::message::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cellblock_protocol::{
    Cell, CellResult, CommKind, CommMessage, Cursor, Detail, Display, Event, Status,
};
use cellblock_session::{Running, Session};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Output is collected for this time, or up to this many bytes, before it is sent: front ends drown in small messages.
const STREAM_INTERVAL: Duration = Duration::from_millis(50);
const MAX_STREAM_BYTES: usize = 64 << 10;
/// How many cells of a session are remembered with their counts in the notebook.
const MAX_COUNTED_CELLS: usize = 10_000;

/// The counts of cells as a notebook shows them: `In [3]`.
///
/// A session numbers every cell, also silent ones and those for widgets, so the two differ.
#[derive(Debug, Default)]
pub(super) struct Counts {
    current: u64,
    by_cell: BTreeMap<u64, u64>,
}

impl Counts {
    pub(super) fn current(&self) -> u64 {
        self.current
    }

    fn note_cell(&mut self, cell: u64) {
        self.by_cell.insert(cell, self.current);
        if self.by_cell.len() > MAX_COUNTED_CELLS {
            self.by_cell.pop_first();
        }
    }

    /// The count of a cell of the session.
    pub(super) fn of_cell(&self, cell: u64) -> Option<u64> {
        self.by_cell.get(&cell).copied()
    }
}

/// What a client wants of a cell.
struct ExecuteRequest<'a> {
    message: &'a Message,
    code: &'a str,
    silent: bool,
    store_history: bool,
    allow_stdin: bool,
    stop_on_error: bool,
}

impl<'a> ExecuteRequest<'a> {
    fn read(message: &'a Message) -> Self {
        let silent = message.flag("silent", false);
        Self {
            message,
            code: message.text("code"),
            silent,
            store_history: message.flag("store_history", true) && !silent,
            allow_stdin: message.flag("allow_stdin", true),
            stop_on_error: message.flag("stop_on_error", true),
        }
    }

    fn parent(&self) -> &Map<String, Value> {
        &self.message.header
    }
}

/// How a request to execute ended.
enum Executed {
    Done {
        payload: Vec<Value>,
        value: Option<String>,
    },
    Failed(Failure),
}

/// Output that was not sent yet.
#[derive(Default)]
struct PendingOutput {
    stream: &'static str,
    text: String,
    due: Option<Instant>,
}

/// What a cell gave so far that goes into its reply, and the output that was not sent yet.
#[derive(Default)]
struct ExecutionProgress {
    pending: PendingOutput,
    /// What the front end shall offer as its next cell. Only the last one counts.
    next_input: Option<Value>,
}

impl ShellLoop {
    /// Answers an `execute_request`.
    pub(super) async fn execute(&mut self, message: &Message) {
        let request = ExecuteRequest::read(message);
        if request.store_history && !request.code.trim().is_empty() {
            self.counts.current += 1;
        }
        let count = self.counts.current();
        if !request.silent {
            let content = json!({"code": request.code, "execution_count": count});
            let parent = request.parent();
            self.outlet.publish("execute_input", parent, content).await;
        }
        let executed = self.run_request(&request).await;
        let mut metadata = json!({});
        let mut content = match executed {
            Executed::Done { payload, value } => {
                if request.store_history {
                    self.history.add(count, request.code, value.as_deref());
                }
                let expressions = self.user_expressions(message).await;
                json!({"status": "ok", "payload": payload, "user_expressions": expressions})
            }
            Executed::Failed(failure) => {
                if request.store_history {
                    self.history.add(count, request.code, None);
                }
                if request.stop_on_error {
                    self.abort_queue();
                }
                metadata["cellblock"] = failure.ending();
                let content = failure.content();
                if !request.silent {
                    let parent = request.parent();
                    self.outlet.publish("error", parent, content.clone()).await;
                }
                let mut reply = content;
                reply["status"] = "error".into();
                reply["payload"] = json!([]);
                reply["user_expressions"] = json!({});
                reply
            }
        };
        content["execution_count"] = count.into();
        self.outlet
            .reply_with("execute_reply", message, content, metadata)
            .await;
    }

    async fn run_request(&mut self, request: &ExecuteRequest<'_>) -> Executed {
        if request.code.trim().is_empty() {
            return Executed::Done {
                payload: Vec::new(),
                value: None,
            };
        }
        let session = match self.sessions.current().await {
            Ok(session) => session,
            Err(problem) => return Executed::Failed(Failure::of_kernel(problem)),
        };
        if let Some((name, detail)) = help_line(request.code) {
            return self.show_help(&session, name, detail).await;
        }
        if let Some(command) = Command::parse(request.code) {
            return self.run_command(request, command).await;
        }
        let mut cell = Cell::new(request.code).silent(request.silent);
        if request.store_history {
            cell = cell.count(self.counts.current());
        }
        self.run_cell(request, &session, cell).await
    }

    /// Handles the message of a front end to a widget. Its output belongs to the message.
    pub(super) async fn run_for_widget(&mut self, message: &Message, cell: Cell) {
        let request = ExecuteRequest {
            message,
            code: "",
            silent: true,
            store_history: false,
            allow_stdin: false,
            stop_on_error: false,
        };
        let Ok(session) = self.sessions.current().await else {
            return;
        };
        if let Executed::Failed(failure) = self.run_cell(&request, &session, cell).await {
            let parent = request.parent();
            self.outlet
                .publish("error", parent, failure.content())
                .await;
        }
    }

    async fn run_cell(
        &mut self,
        request: &ExecuteRequest<'_>,
        session: &Session,
        cell: Cell,
    ) -> Executed {
        let mut running = match session.start(cell) {
            Ok(running) => running,
            Err(error) => return Executed::Failed(Failure::of_kernel(error.to_string())),
        };
        // Answers to questions of earlier cells mean nothing to this one.
        while self.requests.stdin.try_recv().is_ok() {}
        let mut progress = ExecutionProgress::default();
        let mut question: Option<String> = None;
        loop {
            let due = progress.pending.due;
            let event = tokio::select! {
                event = running.next() => event,
                () = wait_until(due), if due.is_some() => {
                    self.send_output(request, &mut progress.pending).await;
                    continue;
                }
                reply = self.requests.stdin.recv(), if question.is_some() => {
                    if let (Some(call), Some(reply)) = (question.take(), reply) {
                        session.input(&call, Ok(reply.text("value").to_owned()));
                    }
                    continue;
                }
            };
            match event {
                Some(Event::Result { result }) => {
                    self.send_output(request, &mut progress.pending).await;
                    return self.finish(request, *result, progress.next_input).await;
                }
                Some(Event::Error { message, .. }) => {
                    self.send_output(request, &mut progress.pending).await;
                    return Executed::Failed(Failure::of_kernel(message));
                }
                Some(Event::InputRequest {
                    call,
                    prompt,
                    password,
                }) => {
                    self.send_output(request, &mut progress.pending).await;
                    let content = json!({"prompt": prompt, "password": password});
                    question = self.ask_client(request, &running, call, content).await;
                }
                Some(event) => self.show(request, event, &mut progress).await,
                None => {
                    let problem = "the session ended under the cell".to_owned();
                    return Executed::Failed(Failure::of_kernel(problem));
                }
            }
        }
    }

    /// Asks the client for a line of text. Returns the call that waits for it.
    async fn ask_client(
        &self,
        request: &ExecuteRequest<'_>,
        running: &Running,
        call: String,
        content: Value,
    ) -> Option<String> {
        if request.allow_stdin {
            self.outlet.ask(request.message, content).await;
            return Some(call);
        }
        let reason = "raw_input was called, but this frontend does not support input requests.";
        running.input(&call, Err(reason.to_owned()));
        None
    }

    /// Passes on an event of a cell that runs.
    async fn show(
        &mut self,
        request: &ExecuteRequest<'_>,
        event: Event,
        progress: &mut ExecutionProgress,
    ) {
        let pending = &mut progress.pending;
        match event {
            Event::Stdout { text } => self.add_output(request, pending, "stdout", &text).await,
            Event::Stderr { text } => self.add_output(request, pending, "stderr", &text).await,
            Event::Display(display) => {
                if let Some(wanted) = next_input(&display.mime) {
                    progress.next_input = Some(wanted);
                    return;
                }
                self.send_output(request, pending).await;
                self.show_display(request, display).await;
            }
            Event::ClearOutput { wait } => {
                self.send_output(request, pending).await;
                let (parent, content) = (request.parent(), json!({"wait": wait}));
                self.outlet.publish("clear_output", parent, content).await;
            }
            Event::Comm(message) => {
                self.send_output(request, pending).await;
                self.send_comm(request, message).await;
            }
            Event::ToolCall { call, .. } => {
                let session = self.sessions.current().await;
                if let Ok(session) = session {
                    session.tool_result(&call, Err("a notebook has no tools".to_owned()));
                }
            }
            _ => {}
        }
    }

    async fn show_display(&self, request: &ExecuteRequest<'_>, display: Display) {
        let kind = match display.update {
            true => "update_display_data",
            false => "display_data",
        };
        let metadata = display.metadata.map(|metadata| metadata.to_map());
        let mut content = json!({
            "data": notebook_forms(display.mime),
            "metadata": metadata.unwrap_or_default(),
            "transient": {},
        });
        if let Some(id) = display.display_id {
            content["transient"] = json!({"display_id": id});
        }
        self.outlet.publish(kind, request.parent(), content).await;
    }

    async fn send_comm(&mut self, request: &ExecuteRequest<'_>, message: CommMessage) {
        let kind = match message.kind {
            CommKind::Open => "comm_open",
            CommKind::Msg => "comm_msg",
            CommKind::Close => "comm_close",
        };
        self.note_comm(message.kind, &message.comm, message.target.as_deref());
        let mut content = json!({"comm_id": message.comm, "data": message.data.to_map()});
        if let Some(target) = message.target {
            content["target_name"] = target.into();
        }
        let metadata = message.metadata.map(|metadata| metadata.to_map());
        // Code of the session wrote them: what is no base64 is not sent.
        let buffers = message.buffers.iter();
        let buffers: Vec<Bytes> = buffers
            .filter_map(|buffer| STANDARD.decode(buffer).ok().map(Bytes::from))
            .collect();
        self.outlet
            .publish_with(kind, request.parent(), content, |message| {
                message.metadata = Value::Object(metadata.unwrap_or_default());
                message.buffers = buffers;
            })
            .await;
    }

    async fn finish(
        &mut self,
        request: &ExecuteRequest<'_>,
        result: CellResult,
        next_input: Option<Value>,
    ) -> Executed {
        let payload = Vec::from_iter(next_input);
        self.counts.note_cell(result.cell);
        let notice = endings::notice(&result, &self.counts);
        if let Some(notice) = notice {
            let content = json!({"name": "stderr", "text": notice});
            let parent = request.parent();
            self.outlet.publish("stream", parent, content).await;
        }
        if result.status != Status::Success {
            let advice = (self.about.advice)(&result);
            return Executed::Failed(Failure::of_cell(&result, &self.counts, advice));
        }
        let Some(value) = result.value.filter(|_| !hides_value(request.code)) else {
            return Executed::Done {
                payload,
                value: None,
            };
        };
        if !request.silent {
            let content = json!({
                "execution_count": self.counts.current(),
                "data": notebook_forms(value.mime),
                "metadata": {},
            });
            let parent = request.parent();
            self.outlet.publish("execute_result", parent, content).await;
        }
        Executed::Done {
            payload,
            value: Some(value.repr),
        }
    }

    /// Shows help about a name in the pager of the front end: `zip?`.
    async fn show_help(&self, session: &Session, name: &str, detail: Detail) -> Executed {
        match session.inspect_at(Cursor::at_end(name), detail).await {
            Ok(help) => {
                let data = match help.found {
                    true => json!(help.mime),
                    false => json!({"text/plain": format!("Object `{name}` not found.")}),
                };
                let page = json!({"source": "page", "data": data, "start": 0});
                Executed::Done {
                    payload: vec![page],
                    value: None,
                }
            }
            Err(error) => Executed::Failed(Failure::of_kernel(error.to_string())),
        }
    }

    async fn run_command(&mut self, request: &ExecuteRequest<'_>, command: Command) -> Executed {
        match command.run(&mut self.sessions, &self.counts).await {
            Ok(text) => {
                let content = json!({"name": "stdout", "text": text});
                let parent = request.parent();
                self.outlet.publish("stream", parent, content).await;
                Executed::Done {
                    payload: Vec::new(),
                    value: None,
                }
            }
            Err(problem) => Executed::Failed(Failure::of_kernel(problem)),
        }
    }

    /// Evaluates the expressions that a client sent along with a cell, each in a throw-away copy of the session.
    async fn user_expressions(&mut self, message: &Message) -> Map<String, Value> {
        let wanted = message.content.get("user_expressions");
        let wanted = wanted.and_then(Value::as_object).cloned();
        let mut answers = Map::new();
        for (name, expression) in wanted.unwrap_or_default() {
            let code = format!("repr({})", expression.as_str().unwrap_or_default());
            let computed = match self.sessions.current().await {
                Ok(session) => session.compute(&code, "").await,
                Err(problem) => {
                    answers.insert(name, Failure::of_kernel(problem).expression());
                    continue;
                }
            };
            let answer = match computed {
                Ok(computed) => match (computed.result, computed.error) {
                    (Some(text), _) => {
                        json!({"status": "ok", "data": {"text/plain": text}, "metadata": {}})
                    }
                    (None, error) => {
                        Failure::of_expression(&error.unwrap_or_default()).expression()
                    }
                },
                Err(error) => Failure::of_kernel(error.to_string()).expression(),
            };
            answers.insert(name, answer);
        }
        answers
    }

    async fn add_output(
        &mut self,
        request: &ExecuteRequest<'_>,
        pending: &mut PendingOutput,
        stream: &'static str,
        text: &str,
    ) {
        if pending.stream != stream {
            self.send_output(request, pending).await;
            pending.stream = stream;
        }
        pending.text.push_str(text);
        pending
            .due
            .get_or_insert_with(|| Instant::now() + STREAM_INTERVAL);
        if pending.text.len() >= MAX_STREAM_BYTES {
            self.send_output(request, pending).await;
        }
    }

    async fn send_output(&self, request: &ExecuteRequest<'_>, pending: &mut PendingOutput) {
        let PendingOutput { stream, text, .. } = std::mem::take(pending);
        if !text.is_empty() {
            let content = json!({"name": stream, "text": text});
            let parent = request.parent();
            self.outlet.publish("stream", parent, content).await;
        }
    }
}

async fn wait_until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}
