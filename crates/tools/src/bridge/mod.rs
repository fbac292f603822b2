//! The bridge: cells whose code calls tools of the host.

mod responses;

use crate::{Answer, Call, Caller, Failure, OnToolEvent, Part, ToolError, ToolEvent, ToolRunner};
use cellblock_protocol::{Cell, CellResult, Event, ToolArguments};
use cellblock_session::{Running, Session};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

pub(crate) use responses::Responses;

/// The limit for the memory of the parsed arguments of all unanswered calls together, in multiples of the limit for one call.
const MAX_PENDING_CALL_SIZES: usize = 4;

const NO_INPUT: &str =
    "input() cannot be answered: no person can type here; pass the value in as a variable";

/// The outcome of a cell whose code may have called tools.
#[derive(Clone, Debug)]
pub struct CellOutcome {
    /// The result of the cell. Markers of tool results in its output are replaced by their contents.
    pub result: CellResult,
    /// Notes for the model, for example that a person edited a call.
    pub notes: Vec<String>,
    /// Pictures and documents whose markers were in the output, in order.
    pub attachments: Vec<Part>,
}

impl ToolRunner {
    /// Runs a cell in the session and answers the tool calls of its code. Dropping the future interrupts the
    /// cell.
    pub async fn run_cell(
        &self,
        cell: Cell,
        on_event: Option<&OnToolEvent>,
    ) -> Result<CellOutcome, ToolError> {
        let session = self.session().await?;
        if let Some(mut result) = self.take_happened(&cell.code) {
            let attachments = self.responses().expand(&mut result);
            return Ok(CellOutcome {
                result,
                notes: Vec::new(),
                attachments,
            });
        }
        self.listen_to_late_output(&session);
        self.ask_about_hosts(&session, on_event);
        let running = session.start(cell)?;
        let mut driver = CellDriver {
            runner: self,
            session: &session,
            on_event,
            notes: self.take_loss_note().into_iter().collect(),
            calls: 0,
            pending_bytes: 0,
        };
        let mut running = InterruptOnDrop {
            runner: self,
            session: &session,
            running: Some(running),
        };
        let ended = driver.drive(&mut running).await;
        let mut notes = driver.notes;
        notes.extend(self.take_late_output());
        let mut result = ended.map_err(ToolError::new)?;
        let attachments = self.responses().expand(&mut result);
        Ok(CellOutcome {
            result,
            notes,
            attachments,
        })
    }
}

/// Answers the events of one running cell.
struct CellDriver<'a> {
    runner: &'a ToolRunner,
    session: &'a Session,
    on_event: Option<&'a OnToolEvent>,
    notes: Vec<String>,
    calls: usize,
    /// The size of the arguments of all unanswered calls.
    pending_bytes: usize,
}

impl CellDriver<'_> {
    /// Answers calls and questions until the cell has ended.
    async fn drive(&mut self, cell: &mut InterruptOnDrop<'_>) -> Result<CellResult, String> {
        let mut pending = FuturesUnordered::new();
        let Some(running) = &mut cell.running else {
            return Err("the cell is over".to_owned());
        };
        let result = loop {
            tokio::select! {
                biased;
                event = running.next() => match event {
                    Some(Event::Result { result }) => break Ok(*result),
                    Some(Event::Error { message, .. }) => break Err(message),
                    None => break Err("the session ended".to_owned()),
                    Some(Event::ToolCall { call, name, arguments }) => {
                        self.send(|| ToolEvent::Cell(Event::ToolCall {
                            call: call.clone(),
                            name: name.clone(),
                            arguments: arguments.clone(),
                        }));
                        match self.admit(&name, &arguments) {
                            Ok(bytes) => pending.push(self.answer(call, name, arguments, bytes)),
                            Err(failure) => self.session.tool_result(&call, Err(failure.to_string())),
                        }
                    }
                    Some(Event::InputRequest { call, .. }) => {
                        self.session.input(&call, Err(NO_INPUT.to_owned()));
                    }
                    Some(event) => self.send(|| ToolEvent::Cell(event)),
                },
                Some((answer, bytes)) = pending.next(), if !pending.is_empty() => {
                    self.pending_bytes -= bytes;
                    self.finish(answer);
                }
            }
        };
        cell.running = None;
        result
    }

    /// Checks the number and the size of calls. Returns how many bytes of memory the call may hold while it waits.
    fn admit(&mut self, name: &str, arguments: &ToolArguments) -> Result<usize, Failure> {
        let limits = self.runner.limits();
        if self.calls >= limits.max_calls_per_cell {
            return Err(Failure::TooManyCalls {
                limit: limits.max_calls_per_cell,
            });
        }
        self.calls += 1;
        // One call alone is bounded by the session, and by `limits.max_bytes`.
        let bytes = arguments.memory_when_parsed();
        let limit = limits.max_bytes.saturating_mul(MAX_PENDING_CALL_SIZES);
        if self.pending_bytes > 0 && self.pending_bytes + bytes > limit {
            return Err(Failure::TooLarge {
                tool: name.chars().take(64).collect(),
                what: "arguments, with those of the calls that still wait,",
                bytes: self.pending_bytes + bytes,
                limit,
            });
        }
        self.pending_bytes += bytes;
        Ok(bytes)
    }

    /// Runs a call of the cell. Returns the answer with the size of the arguments.
    fn answer(
        &self,
        call: String,
        name: String,
        arguments: ToolArguments,
        bytes: usize,
    ) -> impl Future<Output = (Answer, usize)> + use<> {
        let (runner, on_event) = (self.runner.clone(), self.on_event.cloned());
        let call = Call {
            id: call,
            name,
            arguments: arguments.as_json().into(),
            caller: Caller::Code,
        };
        async move {
            let answer = match on_event {
                Some(on_event) => runner.call_with_events(call, Some(on_event)).await,
                None => runner.call(call).await,
            };
            (answer, bytes)
        }
    }

    /// Sends the answer of a call to the code.
    fn finish(&mut self, answer: Answer) {
        self.send(|| ToolEvent::Answered {
            call: answer.id.clone(),
            name: answer.name.clone(),
            ok: answer.is_ok(),
            took: answer.took,
        });
        self.notes.extend(answer.notes);
        let mut responses = self.runner.responses();
        responses.deliver(self.session, &answer.id, answer.outcome);
    }

    fn send(&self, event: impl FnOnce() -> ToolEvent) {
        if let Some(on_event) = self.on_event {
            on_event(event());
        }
    }
}

/// Interrupts a cell whose outcome is not waited for any more.
struct InterruptOnDrop<'a> {
    runner: &'a ToolRunner,
    session: &'a Session,
    running: Option<Running>,
}

impl Drop for InterruptOnDrop<'_> {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        self.session.interrupt();
        // The next cell waits until this one has ended.
        self.runner.end_in_background(async move {
            while let Some(event) = running.next().await {
                if let Event::ToolCall { call, .. } = event {
                    running.tool_result(&call, Err("the cell was cancelled".to_owned()));
                }
            }
        });
    }
}
