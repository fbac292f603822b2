//! The calls of tools written in Python: side by side, in one cell of their session.

use super::session::{LoadedFunction, RECEIVE_VALUE, SEND_VALUE, ToolsSource};
use crate::{Output, Part, ToolError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{Cell, CellResult, Event, Status};
use cellblock_session::{Running, Session};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// The most calls that run at the same time. The others wait.
const MAX_SIDE_BY_SIDE: usize = 32;
/// How long a call that is stopped may take to end. After that its thread is left alone.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How long the interpreter may not answer while a call is to be stopped. After that its session ends.
const SILENCE_GRACE: Duration = Duration::from_secs(15);
/// The time limit of the cell. Each call has its own, which its caller keeps.
const CELL_TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);
const SESSION_ENDED: &str = "the session of the tools ended";

/// The tools of a folder, ready to be called.
pub(super) struct ToolCalls {
    messages: mpsc::UnboundedSender<CallMessage>,
    next_call: AtomicU64,
}

/// The outcome of a call.
struct ToolReply {
    outcome: Result<Output, ToolError>,
    /// What the call printed.
    printed: String,
}

impl ToolReply {
    fn failed(message: impl Into<String>) -> ToolReply {
        ToolReply {
            outcome: Err(ToolError::new(message)),
            printed: String::new(),
        }
    }
}

enum CallMessage {
    Call(NewCall),
    /// The caller does not wait any more.
    Stop(u64),
}

struct NewCall {
    id: u64,
    name: String,
    arguments: Map<String, Value>,
    begun: oneshot::Sender<()>,
    reply: oneshot::Sender<ToolReply>,
}

impl ToolCalls {
    /// Opens the session of the tools, and starts the task that carries their calls. It ends when this value is dropped.
    pub(super) async fn load(
        source: ToolsSource,
    ) -> Result<(ToolCalls, Vec<LoadedFunction>), String> {
        let (session, functions) = source.start().await?;
        let (messages, received) = mpsc::unbounded_channel();
        tokio::spawn(carry_calls(source, session, received));
        let calls = ToolCalls {
            messages,
            next_call: AtomicU64::new(0),
        };
        Ok((calls, functions))
    }

    /// Calls a tool. Its time begins when the tool does. Dropping the future stops the call.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        time_limit: Duration,
    ) -> Result<Output, ToolError> {
        let id = self.next_call.fetch_add(1, Ordering::Relaxed);
        let (begun, has_begun) = oneshot::channel();
        let (reply, replied) = oneshot::channel();
        let name = name.to_owned();
        let call = NewCall {
            id,
            name: name.clone(),
            arguments,
            begun,
            reply,
        };
        let sent = self.messages.send(CallMessage::Call(call));
        sent.map_err(|_| ToolError::new(SESSION_ENDED))?;
        let mut stop = StopOnDrop(Some((id, self.messages.clone())));
        // A call that fails before it begins has its reply.
        let _ = has_begun.await;
        let Ok(outcome) = tokio::time::timeout(time_limit, replied).await else {
            let seconds = time_limit.as_secs_f64();
            let message = format!("`{name}` did not answer within {seconds} s and was given up");
            return Err(ToolError::new(message));
        };
        stop.0 = None;
        let ToolReply { outcome, printed } = outcome.map_err(|_| ToolError::new(SESSION_ENDED))?;
        if !printed.is_empty() {
            tracing::info!(tool = name, printed, "tool printed");
        }
        outcome
    }
}

/// Tells the task that a call is not waited for any more.
struct StopOnDrop(Option<(u64, mpsc::UnboundedSender<CallMessage>)>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some((id, messages)) = &self.0 {
            // Where the task has ended, so has the call.
            let _ = messages.send(CallMessage::Stop(*id));
        }
    }
}

/// Carries calls to the session until no more can come. A session that ended is opened again for the next call.
async fn carry_calls(
    source: ToolsSource,
    mut session: Session,
    mut messages: mpsc::UnboundedReceiver<CallMessage>,
) {
    while let Some(message) = messages.recv().await {
        let CallMessage::Call(call) = message else {
            continue;
        };
        if session.end().is_some() {
            match source.start().await {
                Ok((opened, _)) => session = opened,
                Err(problem) => {
                    // The caller may have gone.
                    let _ = call.reply.send(ToolReply::failed(problem));
                    continue;
                }
            }
        }
        let code = format!("sys.modules['cellblock_serve'].serve({RECEIVE_VALUE}, {SEND_VALUE})");
        match session.start(Cell::new(code).timeout(CELL_TIME_LIMIT)) {
            Ok(running) => {
                CallsOfCell::new(running)
                    .serve(&session, call, &mut messages)
                    .await
            }
            Err(error) => {
                let _ = call.reply.send(ToolReply::failed(error.to_string()));
            }
        }
    }
    session.close().await;
}

/// The calls of one cell: it begins with a call, takes those that come meanwhile, and ends when all have ended.
struct CallsOfCell {
    running: Running,
    /// Calls that have not begun.
    waiting: VecDeque<NewCall>,
    active: BTreeMap<u64, ActiveCall>,
    /// Calls that the code shall stop.
    to_stop: VecDeque<u64>,
    /// The question of the code for the next call, which waits for its answer.
    question: Option<String>,
    /// When the code was told that there are no more calls. Its cell must end soon.
    over_since: Option<Instant>,
}

struct ActiveCall {
    reply: oneshot::Sender<ToolReply>,
    stopped_at: Option<Instant>,
}

impl CallsOfCell {
    fn new(running: Running) -> CallsOfCell {
        CallsOfCell {
            running,
            waiting: VecDeque::new(),
            active: BTreeMap::new(),
            to_stop: VecDeque::new(),
            question: None,
            over_since: None,
        }
    }

    async fn serve(
        mut self,
        session: &Session,
        first: NewCall,
        messages: &mut mpsc::UnboundedReceiver<CallMessage>,
    ) {
        self.waiting.push_back(first);
        let mut has_callers = true;
        loop {
            let takes_more = has_callers && self.over_since.is_none();
            let next_check = self.next_check();
            tokio::select! {
                biased;
                event = self.running.next() => match event {
                    Some(Event::ToolCall { call, name, arguments }) if name == RECEIVE_VALUE => {
                        drop(arguments);
                        self.question = Some(call);
                    }
                    Some(Event::ToolCall { call, arguments, .. }) => {
                        self.running.tool_result(&call, Ok(Value::Null));
                        self.finish(arguments.to_map());
                    }
                    Some(Event::InputRequest { call, .. }) => {
                        self.running.input(&call, Err("a tool cannot ask for input".to_owned()));
                    }
                    Some(Event::Result { result }) => {
                        if !result.output.is_empty() {
                            // Of threads and programs that tools started: which tool, is not known.
                            tracing::info!(printed = result.output, "tools printed");
                        }
                        let why = why_ended(&result, self.active.len());
                        return self.fail_active(&why);
                    }
                    Some(Event::Error { message, .. }) => return self.fail_active(&message),
                    None => return self.fail_active(SESSION_ENDED),
                    Some(_) => {}
                },
                message = messages.recv(), if takes_more => match message {
                    Some(CallMessage::Call(call)) => self.waiting.push_back(call),
                    Some(CallMessage::Stop(id)) => self.stop(id),
                    None => has_callers = false,
                },
                () = until(next_check) => if !self.give_up_stopped() {
                    session.close().await;
                    return self.fail_active("the session of the tools did not answer any more and was ended");
                },
            }
            self.answer_question();
        }
    }

    /// Tells the code what to do next, where it waits for that.
    fn answer_question(&mut self) {
        let Some(question) = self.question.take() else {
            return;
        };
        let answer = if let Some(id) = self.to_stop.pop_front() {
            json!({ "stop": id })
        } else if self.active.len() < MAX_SIDE_BY_SIDE
            && let Some(call) = self.waiting.pop_front()
        {
            // The caller may have gone; then the message to stop the call follows.
            let _ = call.begun.send(());
            let arguments = Value::Object(call.arguments).to_string();
            let answer = json!({ "id": call.id, "name": call.name, "arguments": arguments });
            let active = ActiveCall {
                reply: call.reply,
                stopped_at: None,
            };
            self.active.insert(call.id, active);
            answer
        } else if self.active.is_empty() && self.waiting.is_empty() {
            self.over_since = Some(Instant::now());
            Value::Null
        } else {
            self.question = Some(question);
            return;
        };
        self.running.tool_result(&question, Ok(answer));
    }

    fn stop(&mut self, id: u64) {
        self.waiting.retain(|call| call.id != id);
        if let Some(call) = self.active.get_mut(&id) {
            call.stopped_at = Some(Instant::now());
            self.to_stop.push_back(id);
        }
    }

    /// Gives the result of a call to its caller.
    fn finish(&mut self, mut given: Map<String, Value>) {
        let id = given.remove("id").and_then(|id| id.as_u64());
        let Some(call) = id.and_then(|id| self.active.remove(&id)) else {
            return;
        };
        let printed = given.get("printed").and_then(Value::as_str);
        let printed = printed.unwrap_or_default().to_owned();
        let outcome = output(given);
        // The caller may have gone.
        let _ = call.reply.send(ToolReply { outcome, printed });
    }

    /// The time when a call that is to be stopped must have ended, or the code must have answered.
    fn next_check(&self) -> Option<Instant> {
        if let Some(since) = self.over_since {
            return Some(since + SILENCE_GRACE);
        }
        let grace = match self.question {
            Some(_) => STOP_GRACE,
            None => SILENCE_GRACE,
        };
        let stopped = self.active.values().filter_map(|call| call.stopped_at);
        stopped.min().map(|at| at + grace)
    }

    /// Leaves the threads of stopped calls alone that do not end. Whether the code still answers.
    fn give_up_stopped(&mut self) -> bool {
        let now = Instant::now();
        self.active
            .retain(|_, call| call.stopped_at.is_none_or(|at| now < at + STOP_GRACE));
        self.question.is_some()
    }

    fn fail_active(self, message: &str) {
        let waiting = self.waiting.into_iter().map(|call| call.reply);
        let active = self.active.into_values().map(|call| call.reply);
        for reply in waiting.chain(active) {
            // The caller may have gone.
            let _ = reply.send(ToolReply::failed(message));
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Why calls have no result although their cell has ended.
fn why_ended(result: &CellResult, calls: usize) -> String {
    match (&result.error, result.status) {
        (_, Status::Crashed) if calls > 1 => {
            "the session of the tools crashed, in this call or in one beside it".to_owned()
        }
        (_, Status::Crashed) => "the tool crashed".to_owned(),
        (Some(error), _) => format!("{}: {}", error.type_, error.value),
        (None, status) => format!("the cell of the tools ended with {status}"),
    }
}

/// What a tool returned.
fn output(mut given: Map<String, Value>) -> Result<Output, ToolError> {
    let data = given.remove("data").unwrap_or_default();
    match (given.get("kind").and_then(Value::as_str), data) {
        (Some("error"), Value::String(message)) => Err(ToolError::new(message)),
        (Some("text"), Value::String(text)) => Ok(Output::text(text)),
        (Some("json"), value) => Ok(Output::json(value)),
        // Code gets the value with its tags, and a model the text.
        (Some("value"), value) => {
            let text = given.get("text").and_then(Value::as_str);
            let text = text.unwrap_or_default().to_owned();
            Ok(Output {
                structured: Some(value),
                parts: vec![Part::Text(text)],
            })
        }
        (Some(mime), Value::String(base64)) => Ok(Output {
            structured: None,
            parts: vec![Part::blob(mime, STANDARD.decode(base64)?)],
        }),
        _ => Err(ToolError::new("the tool gave no result")),
    }
}
