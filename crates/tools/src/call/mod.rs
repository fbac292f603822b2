//! A call of a tool: what goes in, what comes out, what may happen meanwhile, and its limits.

mod failure;
mod output;
mod recording;

use crate::{CellOutcome, PURPOSE_FIELD, ToolRunner};
use cellblock_protocol::{Cell, CellResult, Event};
use cellblock_session::Session;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use failure::{FORBIDDEN, NO_PERSON, NOT_FROM_CODE, REJECTED};
pub use failure::{Failure, ToolError};
pub(crate) use output::json_size;
pub use output::{Answer, IntoOutput, Json, Output, Part};
pub(crate) use recording::Replay;
pub use recording::{EarlierCalls, HappenedCell, RecordedCall, Recording};

/// The deepest nesting of arguments. `serde_json` reads no deeper text, and recursive functions would use up
/// their stack.
const MAX_DEPTH: usize = 128;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The id, given by the caller and returned with the answer.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, not checked yet.
    pub arguments: Arguments,
    /// The kind of caller.
    pub caller: Caller,
}

/// The arguments of a call as the caller sent them.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// A text that should be a JSON object, as models send it.
    Text(String),
    /// A JSON object.
    Object(Map<String, Value>),
}

/// The kind of caller. Only a model must give a purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A language model.
    Model,
    /// Code in a session.
    Code,
    /// An MCP client.
    Mcp,
    /// A person, or a program of the host.
    User,
}

impl Call {
    /// A call by a model.
    pub fn by_model(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<Arguments>,
    ) -> Call {
        Call {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            caller: Caller::Model,
        }
    }

    /// A call by a person or a program, without an id and a purpose.
    pub fn by_user(name: impl Into<String>, arguments: impl Into<Arguments>) -> Call {
        Call {
            id: String::new(),
            name: name.into(),
            arguments: arguments.into(),
            caller: Caller::User,
        }
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Arguments {
        Arguments::Text(text)
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Arguments {
        Arguments::Text(text.to_owned())
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(map: Map<String, Value>) -> Arguments {
        Arguments::Object(map)
    }
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Arguments {
        match value {
            Value::Object(map) => Arguments::Object(map),
            other => Arguments::Text(other.to_string()),
        }
    }
}

impl Arguments {
    /// The arguments as an object, if they are one of at most `max_bytes`.
    pub(crate) fn read(self, tool: &str, max_bytes: usize) -> Result<Map<String, Value>, Failure> {
        let bytes = match &self {
            Arguments::Text(text) => text.len(),
            Arguments::Object(map) => map
                .iter()
                .map(|(key, value)| key.len() + 4 + bounded_size(value))
                .sum(),
        };
        if bytes > max_bytes {
            return Err(Failure::TooLarge {
                tool: tool.to_owned(),
                what: "arguments",
                bytes,
                limit: max_bytes,
            });
        }
        let not_json = |problem: String| Failure::NotJson {
            tool: tool.to_owned(),
            problem,
        };
        match self {
            // Many models send an empty text for no arguments.
            Arguments::Text(text) if text.trim().is_empty() => Ok(Map::new()),
            Arguments::Text(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(map)) => Ok(map),
                Ok(other) => Err(not_json(format!("it is {}", json_kind(&other)))),
                Err(error) => Err(not_json(describe_json_error(&error))),
            },
            Arguments::Object(map)
                if map.values().any(|value| is_deeper_than(value, MAX_DEPTH)) =>
            {
                Err(not_json(TOO_DEEP.to_owned()))
            }
            Arguments::Object(map) => Ok(map),
        }
    }
}

/// Removes the purpose from the arguments and returns it. The order of the rest is kept.
pub(crate) fn take_purpose(map: &mut Map<String, Value>) -> Option<Value> {
    map.shift_remove(PURPOSE_FIELD)
}

const TOO_DEEP: &str = "it is nested deeper than 128 levels";

fn describe_json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.contains("recursion limit") {
        TOO_DEEP.to_owned()
    } else {
        text
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The size of a value; 0 where it is nested too deep, because counting is recursive.
fn bounded_size(value: &Value) -> usize {
    if is_deeper_than(value, MAX_DEPTH) {
        0
    } else {
        json_size(value)
    }
}

/// Whether a value is nested deeper than so many levels. Looks no further down.
fn is_deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => {
            levels == 0 || items.iter().any(|item| is_deeper_than(item, levels - 1))
        }
        Value::Object(map) => {
            levels == 0 || map.values().any(|item| is_deeper_than(item, levels - 1))
        }
        _ => false,
    }
}

/// A time limit that is never reached, for tools with a time limit of their own.
pub const NO_TIME_LIMIT: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The limits of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallLimits {
    /// The most calls that the code of one cell may make. Default 10 000.
    pub max_calls_per_cell: usize,
    /// The most bytes of the arguments, and of the result, of one call. Default 16 MiB, at most 40 MiB.
    pub max_bytes: usize,
    /// The time limit of one call, for tools that have none of their own. The time in which a person decides is
    /// not counted. Default 120 s.
    pub time_limit: Duration,
}

impl CallLimits {
    /// The largest [`CallLimits::max_bytes`]: a result is sent to the session in one frame of 64 MiB, and base64
    /// makes it a third longer.
    pub(crate) const LARGEST_MAX_BYTES: usize = 40 << 20;
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits {
            max_calls_per_cell: 10_000,
            max_bytes: 16 << 20,
            time_limit: Duration::from_secs(120),
        }
    }
}

/// An event while a call runs, for readers that follow the call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolEvent {
    /// An event of the running cell: output, a display, a call of a tool.
    Cell(Event),
    /// A tool that the running cell called has answered.
    Answered {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        name: String,
        /// Whether the call has a result.
        ok: bool,
        /// How long the call took.
        took: Duration,
    },
    /// A call waits for the decision of a person.
    AwaitingApproval {
        /// The name of the tool.
        tool: String,
    },
    /// The answer of a call outside of the session was recorded.
    Recorded(Box<RecordedCall>),
    /// The plan has a new version.
    PlanChanged {
        /// The number of the version.
        version: usize,
        /// The plan tree as Markdown.
        markdown: String,
    },
}

/// A function that gets the events of a call. It is called while the call waits, so it must return quickly.
pub type OnToolEvent = Arc<dyn Fn(ToolEvent) + Send + Sync>;

/// What a tool knows of the call that it answers.
#[derive(Clone)]
pub struct Context {
    pub(crate) call: Arc<str>,
    pub(crate) caller: Caller,
    pub(crate) purpose: Option<Arc<str>>,
    pub(crate) runner: ToolRunner,
    pub(crate) on_event: Option<OnToolEvent>,
    /// Where the result of a cell goes, for a caller that takes it typed.
    pub(crate) result_slot: Option<ResultSlot>,
}

/// Takes the result of a cell from the tool that runs code to its caller.
pub(crate) type ResultSlot = Arc<Mutex<Option<CellResult>>>;

impl Context {
    /// The id of the call.
    pub fn call(&self) -> &str {
        &self.call
    }

    /// The kind of caller.
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Why the caller calls, if it said so.
    pub fn purpose(&self) -> Option<&str> {
        self.purpose.as_deref()
    }

    /// The runner of the call. It has the session and the other tools of the run.
    pub fn runner(&self) -> &ToolRunner {
        &self.runner
    }

    /// A value that lives as long as the run: one value of each type, shared by all tools. At first it is the
    /// type's default.
    pub fn state<T: Default + Send + 'static>(&self) -> Arc<Mutex<T>> {
        self.runner.state()
    }

    /// Runs a cell in the session of this run. Its output goes to the events of this call as it comes.
    pub async fn run_cell(&self, cell: Cell) -> Result<CellOutcome, ToolError> {
        self.runner.run_cell(cell, self.on_event.as_ref()).await
    }

    /// Lets a session ask the person of this run about hosts, with the events of this call.
    pub(crate) fn ask_about_hosts(&self, session: &Session) {
        self.runner.ask_about_hosts(session, self.on_event.as_ref());
    }

    /// Sends an event of this call.
    pub fn send(&self, event: ToolEvent) {
        if let Some(on_event) = &self.on_event {
            on_event(event);
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context")
            .field("call", &self.call)
            .field("caller", &self.caller)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}
