//! The tool calls and the requests for input of one cell.

use cellblock_protocol::guest::ToHead;
use cellblock_protocol::{ToolArguments, ToolCall, ToolOutcome};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// Tool calls of one cell that a result lists, in number and with their arguments together.
const MAX_LISTED: usize = 10_000;
const MAX_LISTED_BYTES: usize = 16 << 20;
/// Calls and questions that wait for an answer at the same time, in number and in bytes together.
const MAX_WAITING: usize = 10_000;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Different tools of one cell that are named where the cell is taken back.
const MAX_REACHED: usize = 100;

/// The calls of a cell: those that the result will list, and those that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    listed: Vec<ToolCall>,
    bytes: usize,
    waiting: HashMap<String, PendingCall>,
    waiting_bytes: usize,
    /// The tools that were called and not refused at once.
    reached: BTreeSet<String>,
}

/// Something without an answer yet.
#[derive(Clone, Copy, Debug)]
struct PendingCall {
    what: PendingKind,
    since: Instant,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum PendingKind {
    /// A call of a tool, and its place in the list, if it is listed.
    Tool(Option<usize>),
    Question,
}

impl Calls {
    /// Whether the cell waits for an answer from outside.
    pub(crate) fn has_pending(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A tool call that waits for its answer; or why it is refused at once.
    pub(crate) fn call(
        &mut self,
        call: &str,
        name: &str,
        arguments: &ToolArguments,
    ) -> Result<(), String> {
        let bytes = call.len() + name.len() + arguments.as_json().len();
        if let Err(reason) = self.check_room(bytes) {
            self.refuse(call, name, arguments);
            return Err(reason);
        }
        if self.reached.len() < MAX_REACHED {
            self.reached.insert(name.to_owned());
        }
        let index = self.list(call, name, arguments, ToolOutcome::Unanswered);
        self.expect(call, PendingKind::Tool(index), bytes);
        Ok(())
    }

    /// The tools that were called. What they did outside the session stays, whatever becomes of the cell.
    pub(crate) fn reached(&self) -> &BTreeSet<String> {
        &self.reached
    }

    /// A tool call that is refused at once.
    pub(crate) fn refuse(&mut self, call: &str, name: &str, arguments: &ToolArguments) {
        self.list(call, name, arguments, ToolOutcome::Error);
    }

    /// A question that waits for its answer; or why it is refused at once.
    pub(crate) fn question(&mut self, call: &str, prompt: &str) -> Result<(), String> {
        let bytes = call.len() + prompt.len();
        self.check_room(bytes)?;
        self.expect(call, PendingKind::Question, bytes);
        Ok(())
    }

    /// Whether an answer belongs to a call that waits. The second answer to a call belongs to none.
    pub(crate) fn is_answered_by(&mut self, answer: &ToHead) -> bool {
        let (call, outcome) = match answer {
            ToHead::ToolResult { call, outcome } => (call, outcome.is_ok()),
            ToHead::ToolContent { call, .. } | ToHead::Input { call, .. } => (call, true),
            _ => return false,
        };
        let Some(waiting) = self.waiting.remove(call) else {
            return false;
        };
        self.waiting_bytes -= waiting.bytes;
        let outcome = if outcome {
            ToolOutcome::Ok
        } else {
            ToolOutcome::Error
        };
        self.record_outcome(waiting, Some(outcome));
        true
    }

    /// Answers the calls whose readers have gone.
    pub(crate) fn refuse_waiting(&mut self) -> Vec<ToHead> {
        const REASON: &str = "nobody listens any more";
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let answer = |(call, waiting): (String, PendingCall)| {
            self.record_outcome(waiting, Some(ToolOutcome::Error));
            match waiting.what {
                PendingKind::Tool(_) => ToHead::ToolResult {
                    call,
                    outcome: Err(REASON.to_owned()),
                },
                PendingKind::Question => ToHead::Input {
                    call,
                    outcome: Err(REASON.to_owned()),
                },
            }
        };
        waiting.into_iter().map(answer).collect()
    }

    /// The list, when the cell is over: what still waits will not be answered.
    pub(crate) fn into_list(mut self) -> Vec<ToolCall> {
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            self.record_outcome(waiting, None);
        }
        self.listed
    }

    /// Whether one more call may wait. Its answer may be slow, and what waits is in the host's memory.
    fn check_room(&self, bytes: usize) -> Result<(), String> {
        if self.waiting.len() >= MAX_WAITING {
            Err(format!(
                "{MAX_WAITING} calls of this cell wait for an answer already"
            ))
        } else if self.waiting_bytes + bytes > MAX_WAITING_BYTES {
            Err(format!(
                "the calls of this cell that wait for an answer would have more than {} MiB together",
                MAX_WAITING_BYTES >> 20
            ))
        } else {
            Ok(())
        }
    }

    fn expect(&mut self, call: &str, what: PendingKind, bytes: usize) {
        let since = Instant::now();
        let waiting = PendingCall { what, since, bytes };
        self.waiting_bytes += bytes;
        if let Some(before) = self.waiting.insert(call.to_owned(), waiting) {
            // Only forged frames use an id twice.
            self.waiting_bytes -= before.bytes;
        }
    }

    /// Notes in the list how long it waited, and what came of it.
    fn record_outcome(&mut self, waiting: PendingCall, outcome: Option<ToolOutcome>) {
        let PendingKind::Tool(Some(index)) = waiting.what else {
            return;
        };
        if let Some(call) = self.listed.get_mut(index) {
            call.time = waiting.since.elapsed();
            call.outcome = outcome.unwrap_or(call.outcome);
        }
    }

    fn list(
        &mut self,
        call: &str,
        name: &str,
        arguments: &ToolArguments,
        outcome: ToolOutcome,
    ) -> Option<usize> {
        self.bytes += call.len() + name.len() + arguments.as_json().len();
        if self.listed.len() >= MAX_LISTED || self.bytes > MAX_LISTED_BYTES {
            return None;
        }
        self.listed.push(ToolCall {
            call: call.to_owned(),
            name: name.to_owned(),
            arguments: arguments.clone(),
            time: Duration::ZERO,
            outcome,
        });
        Some(self.listed.len() - 1)
    }
}
