//! What the code of one cell asks of the outside: tool calls and questions.

use cellblock_protocol::guest::ToHead;
use cellblock_protocol::{ToolCall, ToolOutcome};
use serde_json::{Map, Value};
use std::collections::HashMap;
use tokio::time::Instant;

/// Tool calls of one cell that a result lists, in number and with their arguments together.
const MOST_LISTED: usize = 10_000;
const MOST_BYTES: usize = 16 << 20;

/// The calls of a cell: those that the result will list, and those that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    listed: Vec<ToolCall>,
    bytes: usize,
    waiting: HashMap<String, Waiting>,
}

/// Something without an answer yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    what: Asked,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    /// A call of a tool, and its place in the list, if it is listed.
    Tool(Option<usize>),
    Question,
}

impl Calls {
    /// Someone is waited for.
    pub(crate) fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A tool call that someone will answer.
    pub(crate) fn call(&mut self, call: &str, name: &str, arguments: &Map<String, Value>) {
        let index = self.list(call, name, arguments, ToolOutcome::Unanswered);
        self.expect(call, Asked::Tool(index));
    }

    /// A tool call that is refused at once.
    pub(crate) fn refuse(&mut self, call: &str, name: &str, arguments: &Map<String, Value>) {
        self.list(call, name, arguments, ToolOutcome::Error);
    }

    /// A question that someone will answer.
    pub(crate) fn question(&mut self, call: &str) {
        self.expect(call, Asked::Question);
    }

    /// Whether this answers something that waits. The second answer to a call answers nothing.
    pub(crate) fn is_answered_by(&mut self, answer: &ToHead) -> bool {
        let (call, outcome) = match answer {
            ToHead::ToolResult { call, outcome } => (call, outcome.is_ok()),
            ToHead::ToolContent { call, .. } | ToHead::Input { call, .. } => (call, true),
            _ => return false,
        };
        let Some(waiting) = self.waiting.remove(call) else {
            return false;
        };
        let outcome = if outcome {
            ToolOutcome::Ok
        } else {
            ToolOutcome::Error
        };
        self.settle(waiting, Some(outcome));
        true
    }

    /// Answers for those who were asked and have gone.
    pub(crate) fn refuse_waiting(&mut self) -> Vec<ToHead> {
        const REASON: &str = "nobody listens any more";
        let waiting = std::mem::take(&mut self.waiting);
        let answer = |(call, waiting): (String, Waiting)| {
            self.settle(waiting, Some(ToolOutcome::Error));
            match waiting.what {
                Asked::Tool(_) => ToHead::ToolResult {
                    call,
                    outcome: Err(REASON.to_owned()),
                },
                Asked::Question => ToHead::Input {
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
            self.settle(waiting, None);
        }
        self.listed
    }

    fn expect(&mut self, call: &str, what: Asked) {
        let since = Instant::now();
        self.waiting
            .insert(call.to_owned(), Waiting { what, since });
    }

    /// Notes in the list how long it waited, and what came of it.
    fn settle(&mut self, waiting: Waiting, outcome: Option<ToolOutcome>) {
        let Asked::Tool(Some(index)) = waiting.what else {
            return;
        };
        if let Some(call) = self.listed.get_mut(index) {
            call.ms = waiting.since.elapsed().as_secs_f64() * 1e3;
            call.outcome = outcome.unwrap_or(call.outcome);
        }
    }

    fn list(
        &mut self,
        call: &str,
        name: &str,
        arguments: &Map<String, Value>,
        outcome: ToolOutcome,
    ) -> Option<usize> {
        self.bytes += name.len() + weight_of(arguments);
        if self.listed.len() >= MOST_LISTED || self.bytes > MOST_BYTES {
            return None;
        }
        self.listed.push(ToolCall {
            call: call.to_owned(),
            name: name.to_owned(),
            arguments: arguments.clone(),
            ms: 0.0,
            outcome,
        });
        Some(self.listed.len() - 1)
    }
}

/// About what a value takes in memory.
fn weight(value: &Value) -> usize {
    const NODE: usize = 72;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => weight_of(map),
        _ => 0,
    }
}

fn weight_of(map: &Map<String, Value>) -> usize {
    map.iter()
        .map(|(key, value)| key.len() + weight(value))
        .sum()
}
