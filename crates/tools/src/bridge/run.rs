//! A cell whose code may call tools.

use super::deliver::deliver;
use crate::{Answer, Call, Caller, Failure, Happening, Part, ToolError, Watcher, Workbench};
use cellblock_protocol::{Cell, CellResult, Event, ToolArguments};
use cellblock_session::{Running, Session};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

/// The memory of the parsed arguments of all calls that wait for an answer, in multiples of what one call may have.
const MOST_WAITING: usize = 4;

const NOBODY_TYPES: &str =
    "input() cannot be answered: nobody is there to type; pass the value in as a variable";

/// A cell that ran, with what its tools left.
#[derive(Clone, Debug)]
pub struct RanCell {
    /// The result, with the contents of tools where their markers stood.
    pub result: CellResult,
    /// What the model should be told of the calls: that a person edited one, for example.
    pub notes: Vec<String>,
    /// Pictures and documents whose markers stood in the output, in order.
    pub attachments: Vec<Part>,
}

impl Workbench {
    /// Runs a cell in the session and answers the calls of its code. Dropping the future interrupts the cell.
    pub async fn run_cell(
        &self,
        cell: Cell,
        watcher: Option<&Watcher>,
    ) -> Result<RanCell, ToolError> {
        let session = self.session().await?;
        let running = session.start(cell)?;
        let mut attended = Attended {
            workbench: self,
            session: &session,
            watcher,
            notes: self.take_loss().into_iter().collect(),
            calls: 0,
            waiting_bytes: 0,
        };
        let mut running = InterruptOnDrop {
            workbench: self,
            session: &session,
            running: Some(running),
        };
        let ended = attended.attend(&mut running).await;
        let notes = attended.notes;
        let mut result = ended.map_err(ToolError::new)?;
        let attachments = self.lock_responses().expand(&mut result);
        Ok(RanCell {
            result,
            notes,
            attachments,
        })
    }
}

struct Attended<'a> {
    workbench: &'a Workbench,
    session: &'a Session,
    watcher: Option<&'a Watcher>,
    notes: Vec<String>,
    calls: usize,
    waiting_bytes: usize,
}

impl Attended<'_> {
    /// Answers everything until the cell is over.
    async fn attend(&mut self, cell: &mut InterruptOnDrop<'_>) -> Result<CellResult, String> {
        let mut open = FuturesUnordered::new();
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
                        self.tell(|| Happening::Cell(Event::ToolCall {
                            call: call.clone(),
                            name: name.clone(),
                            arguments: arguments.clone(),
                        }));
                        match self.admit(&name, &arguments) {
                            Ok(bytes) => open.push(self.answer(call, name, arguments, bytes)),
                            Err(failure) => self.session.tool_result(&call, Err(failure.to_string())),
                        }
                    }
                    Some(Event::InputRequest { call, .. }) => {
                        self.session.input(&call, Err(NOBODY_TYPES.to_owned()));
                    }
                    Some(event) => self.tell(|| Happening::Cell(event)),
                },
                Some((answer, bytes)) = open.next(), if !open.is_empty() => {
                    self.waiting_bytes -= bytes;
                    self.done(answer);
                }
            }
        };
        cell.running = None;
        result
    }

    /// Whether the call may be made at all; how many bytes of memory it may hold while it waits.
    fn admit(&mut self, name: &str, arguments: &ToolArguments) -> Result<usize, Failure> {
        let limits = self.workbench.limits();
        if self.calls >= limits.calls_per_cell {
            return Err(Failure::TooManyCalls {
                limit: limits.calls_per_cell,
            });
        }
        self.calls += 1;
        // One call alone is bounded by the session, and by `limits.bytes`.
        let bytes = arguments.memory_when_parsed();
        let limit = limits.bytes.saturating_mul(MOST_WAITING);
        if self.waiting_bytes > 0 && self.waiting_bytes + bytes > limit {
            return Err(Failure::TooLarge {
                tool: name.chars().take(64).collect(),
                what: "arguments, with those of the calls that still wait,",
                bytes: self.waiting_bytes + bytes,
                limit,
            });
        }
        self.waiting_bytes += bytes;
        Ok(bytes)
    }

    fn answer(
        &self,
        call: String,
        name: String,
        arguments: ToolArguments,
        bytes: usize,
    ) -> impl Future<Output = (Answer, usize)> + use<> {
        let (workbench, watcher) = (self.workbench.clone(), self.watcher.cloned());
        let call = Call {
            id: call,
            name,
            arguments: arguments.as_json().into(),
            caller: Caller::Code,
        };
        async move {
            let answer = match watcher {
                Some(watcher) => workbench.call_watched(call, Some(watcher)).await,
                None => workbench.call(call).await,
            };
            (answer, bytes)
        }
    }

    fn done(&mut self, answer: Answer) {
        self.tell(|| Happening::Answered {
            call: answer.id.clone(),
            name: answer.name.clone(),
            ok: answer.is_ok(),
            took: answer.took,
        });
        self.notes.extend(answer.notes);
        deliver(
            self.session,
            &answer.id,
            answer.outcome,
            self.workbench.responses(),
        );
    }

    fn tell(&self, happening: impl FnOnce() -> Happening) {
        if let Some(watcher) = self.watcher {
            watcher(happening());
        }
    }
}

/// Stops the cell when nobody waits for it any more.
struct InterruptOnDrop<'a> {
    workbench: &'a Workbench,
    session: &'a Session,
    running: Option<Running>,
}

impl Drop for InterruptOnDrop<'_> {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        self.session.interrupt();
        // The next cell waits until this one is gone.
        self.workbench.leave(async move {
            while let Some(event) = running.next().await {
                if let Event::ToolCall { call, .. } = event {
                    running.tool_result(&call, Err("the cell was cancelled".to_owned()));
                }
            }
        });
    }
}
