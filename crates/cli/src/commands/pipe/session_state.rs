//! The state of a session that the reading task needs while the session's own task is busy with a cell.

use cellblock::Session;
use serde_json::Value;
use std::collections::HashMap;

/// The state of one session, shared by its task and the task that reads requests.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// The session, while one is open.
    pub(crate) session: Option<Session>,
    /// The number of cells that are queued.
    pub(crate) runs_waiting: usize,
    is_running: bool,
    /// Whether an interrupt came for a cell that has not begun.
    interrupts_next: bool,
    /// The calls of the running cell that have no answer yet.
    calls: HashMap<String, CallKind>,
}

/// The kind of answer that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// `tool_result`
    Tool,
    /// `input`
    Input,
}

/// An answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallAnswer {
    /// `tool_result`
    Tool(Result<Value, String>),
    /// `input`
    Input(Result<String, String>),
}

impl SessionState {
    /// Notes that a cell begins.
    pub(crate) fn begin(&mut self) {
        self.is_running = true;
        self.runs_waiting = self.runs_waiting.saturating_sub(1);
        if std::mem::take(&mut self.interrupts_next) {
            self.interrupt();
        }
    }

    /// Notes that the cell has ended, and with it its calls.
    pub(crate) fn end(&mut self) {
        self.is_running = false;
        self.calls.clear();
    }

    /// Interrupts the running cell, or the next one that is queued. Without both, nothing happens.
    pub(crate) fn interrupt(&mut self) {
        match &self.session {
            Some(session) if self.is_running => session.interrupt(),
            _ => self.interrupts_next = self.runs_waiting > 0,
        }
    }

    /// Notes that the code waits for an answer.
    pub(crate) fn wait_for(&mut self, call: &str, kind: CallKind) {
        self.calls.insert(call.to_owned(), kind);
    }

    /// Whether the code waits for an answer, so that nothing else can be done in the session before it comes.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Passes an answer to the session. `Err` says why no call takes it.
    pub(crate) fn answer(&mut self, call: &str, answer: CallAnswer) -> Result<(), String> {
        let kind = match answer {
            CallAnswer::Tool(_) => CallKind::Tool,
            CallAnswer::Input(_) => CallKind::Input,
        };
        match self.calls.get(call) {
            None => return Err(format!("no call `{call}` waits for an answer")),
            Some(waiting) if *waiting != kind => {
                return Err(format!(
                    "the call `{call}` waits for {}",
                    waiting.operation()
                ));
            }
            Some(_) => {}
        }
        self.calls.remove(call);
        if let Some(session) = &self.session {
            match answer {
                CallAnswer::Tool(outcome) => session.tool_result(call, outcome),
                CallAnswer::Input(outcome) => session.input(call, outcome),
            }
        }
        Ok(())
    }

    /// Refuses every call that waits.
    pub(crate) fn refuse_calls(&mut self, reason: &str) {
        for (call, kind) in std::mem::take(&mut self.calls) {
            if let Some(session) = &self.session {
                kind.refuse(session, &call, reason);
            }
        }
    }
}

impl CallKind {
    /// Answers a call with an error.
    pub(crate) fn refuse(self, session: &Session, call: &str, reason: &str) {
        match self {
            CallKind::Tool => session.tool_result(call, Err(reason.to_owned())),
            CallKind::Input => session.input(call, Err(reason.to_owned())),
        }
    }

    fn operation(self) -> &'static str {
        match self {
            CallKind::Tool => "`tool_result`",
            CallKind::Input => "`input`",
        }
    }
}
