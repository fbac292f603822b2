//! The operations of the pipe: what a line asks for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::time::Duration;

use super::agent_operation::AgentOperation;
use super::file_operation::{FileOperation, absolute_path};
use crate::answers::questions::validate_question;
use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown_text};
use crate::json::quantity::Seconds;
use crate::options::seed::check_seed;
use crate::{
    Cell, CommKind, CommMessage, Cursor, Detail, Seed, SessionOptions, Spawn, Stream, TerminalSize,
    ToolSpec, validate_session_id,
};

/// The operation that a line of the pipe asks for.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    missing_docs,
    reason = "the fields are those of the wire; W2 and W4 of the contracts name them"
)]
pub enum Operation {
    /// Open a session with options of its own.
    Open(Box<SessionOptions>),
    /// Run a cell.
    Run(Cell),
    /// Evaluate one expression without touching the session.
    Compute { code: String, description: String },
    /// Bind variables.
    Seed { variables: Seed },
    /// List the variables.
    Vars,
    /// Look at one variable.
    Inspect { name: String },
    /// Say what can stand at a cursor.
    Complete(Cursor),
    /// Describe what stands at a cursor.
    InspectAt { cursor: Cursor, detail: Detail },
    /// Say whether source text needs more lines.
    IsComplete { code: String },
    /// Take back the last `n` kept cells.
    Undo { n: u64 },
    /// Make a second session that begins where this one stands.
    Fork,
    /// List the states that `undo` can reach.
    Checkpoints,
    /// Forget all variables.
    Reset,
    /// Stop the cell that runs.
    Interrupt,
    /// Write a file of the workspace.
    PutFile { path: String, contents: Vec<u8> },
    /// Read a file of the workspace, or a part of it. Offset and length are in bytes; without a length, up to its end.
    GetFile {
        path: String,
        offset: u64,
        length: Option<u64>,
    },
    /// List the files of the workspace.
    ListFiles,
    /// Read what a result left out. Offset and length are in bytes; without a length, as much as one answer holds.
    ReadOutput {
        cell: u64,
        stream: Stream,
        offset: u64,
        length: Option<u64>,
    },
    /// Start a process beside the interpreter.
    Spawn(Box<Spawn>),
    /// Write to the input of a process.
    ProcInput { proc: String, bytes: Vec<u8> },
    /// Close the input of a process.
    ProcClose { proc: String },
    /// Send a signal to the group of a process; without one, end the process with all that it started.
    ProcSignal { proc: String, signal: Option<i32> },
    /// Give the terminal of a process another size.
    ProcResize { proc: String, size: TerminalSize },
    /// List the processes that run.
    Procs,
    /// Read what a process writes, from the byte `after` of all its output on.
    ProcAttach { proc: String, after: u64 },
    /// Do something with the files that the session sees.
    Files(FileOperation),
    /// Watch a directory that the session sees.
    Watch { path: String, recursive: bool },
    /// End a watch.
    Unwatch { watch: String },
    /// Do something with an agent.
    Agent(AgentOperation),
    /// Read the events of the session after a number, or wait for the next one.
    Events { after: u64, wait: Duration },
    /// Stop all processes of the session.
    Pause,
    /// Let them go on.
    Resume,
    /// Keep the state aside under a name.
    Freeze { name: Option<String> },
    /// Open a session that begins with a state that was kept aside.
    OpenFrom { snapshot: String },
    /// Forget a state that was kept aside.
    Discard { snapshot: String },
    /// Offer these tools to the code, and no others.
    Tools { tools: Vec<ToolSpec> },
    /// End the session.
    Close,
    /// Answer a `tool_call` event.
    ToolResult {
        call: String,
        outcome: Result<Value, String>,
    },
    /// Answer an `input_request` event.
    Input {
        call: String,
        outcome: Result<String, String>,
    },
}

impl Operation {
    /// The names of all operations.
    pub const NAMES: &'static [&'static str] = &[
        "open",
        "run",
        "compute",
        "seed",
        "vars",
        "inspect",
        "complete",
        "inspect_at",
        "is_complete",
        "undo",
        "fork",
        "checkpoints",
        "reset",
        "interrupt",
        "put_file",
        "get_file",
        "list_files",
        "read_output",
        "spawn",
        "proc_input",
        "proc_close",
        "proc_signal",
        "proc_resize",
        "procs",
        "proc_attach",
        "stat",
        "list_dir",
        "make_dir",
        "move",
        "remove",
        "read",
        "write",
        "copy_in",
        "copy_out",
        "watch",
        "unwatch",
        "ask",
        "template",
        "say",
        "cancel",
        "approve",
        "events",
        "comm",
        "pause",
        "resume",
        "freeze",
        "discard",
        "tools",
        "close",
        "tool_result",
        "input",
    ];

    /// Reads the fields that belong to `op`; `None` when there is no such operation.
    pub(super) fn read(op: &str, map: Map<String, Value>) -> Option<Result<Self, Invalid>> {
        if op == "open" && map.contains_key("from") {
            return Some(open_from(map));
        }
        let mut fields = Fields::new(map);
        let (known, operation): (&[&str], _) = match op {
            // `open` hands all its fields on, also the unknown ones, to be refused there.
            "open" => {
                return Some(
                    SessionOptions::try_from(fields.rest()).map(|it| Self::Open(Box::new(it))),
                );
            }
            "run" => (Cell::FIELDS, Cell::take(&mut fields).map(Self::Run)),
            "compute" => (&["code", "description"], compute(&mut fields)),
            "seed" => (&["variables"], seed(&mut fields)),
            "vars" => (&[], Ok(Self::Vars)),
            "inspect" => (
                &["name"],
                fields.required("name").map(|name| Self::Inspect { name }),
            ),
            "complete" => (
                &["code", "pos"],
                Cursor::take(&mut fields).map(Self::Complete),
            ),
            "inspect_at" => (&["code", "pos", "detail"], inspect_at(&mut fields)),
            "is_complete" => (&["code"], is_complete(&mut fields)),
            "undo" => (&["n"], undo(&mut fields)),
            "fork" => (&[], Ok(Self::Fork)),
            "checkpoints" => (&[], Ok(Self::Checkpoints)),
            "reset" => (&[], Ok(Self::Reset)),
            "interrupt" => (&[], Ok(Self::Interrupt)),
            "put_file" => (&["path", "base64"], put_file(&mut fields)),
            "get_file" => (&["path", "offset", "length"], get_file(&mut fields)),
            "list_files" => (&[], Ok(Self::ListFiles)),
            "read_output" => (
                &["cell", "stream", "offset", "length"],
                read_output(&mut fields),
            ),
            "spawn" => (
                Spawn::FIELDS,
                Spawn::take(&mut fields).map(|spawn| Self::Spawn(Box::new(spawn))),
            ),
            "proc_input" => (&["proc", "base64"], proc_input(&mut fields)),
            "proc_close" => (
                &["proc"],
                fields.required("proc").map(|proc| Self::ProcClose { proc }),
            ),
            "proc_signal" => (&["proc", "signal"], proc_signal(&mut fields)),
            "proc_resize" => (&["proc", "cols", "rows"], proc_resize(&mut fields)),
            "procs" => (&[], Ok(Self::Procs)),
            "proc_attach" => (&["proc", "after"], proc_attach(&mut fields)),
            "watch" => (&["path", "recursive"], watch(&mut fields)),
            "unwatch" => (
                &["watch"],
                fields
                    .required("watch")
                    .map(|watch| Self::Unwatch { watch }),
            ),
            "tools" => (
                &["tools"],
                fields.required("tools").map(|tools| Self::Tools { tools }),
            ),
            "events" => (&["after", "wait"], events(&mut fields)),
            "comm" => (COMM_FIELDS, comm(&mut fields)),
            "pause" => (&[], Ok(Self::Pause)),
            "resume" => (&[], Ok(Self::Resume)),
            "freeze" => (
                &["name"],
                optional_name(&mut fields, "name").map(|name| Self::Freeze { name }),
            ),
            "discard" => (
                &["snapshot"],
                fields
                    .required("snapshot")
                    .map(|snapshot| Self::Discard { snapshot }),
            ),
            "close" => (&[], Ok(Self::Close)),
            "tool_result" => (&["call", "result", "error"], tool_result(&mut fields)),
            "input" => (&["call", "text", "error"], input(&mut fields)),
            other => match FileOperation::take(other, &mut fields) {
                Some((known, operation)) => (known, operation.map(Self::Files)),
                None => {
                    let (known, operation) = AgentOperation::take(other, &mut fields)?;
                    (known, operation.map(Self::Agent))
                }
            },
        };
        Some(operation.and_then(|operation| fields.finish(known).map(|()| operation)))
    }
}

fn watch(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::Watch {
        path: absolute_path(fields, "path")?,
        recursive: fields.optional("recursive")?.unwrap_or(false),
    })
}

fn compute(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::Compute {
        code: fields.required("code")?,
        description: fields.required("description")?,
    })
}

fn seed(fields: &mut Fields) -> Result<Operation, Invalid> {
    let variables = fields.required("variables")?;
    check_seed("variables", &variables)?;
    Ok(Operation::Seed { variables })
}

fn inspect_at(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::InspectAt {
        cursor: Cursor::take(fields)?,
        detail: fields.optional("detail")?.unwrap_or_default(),
    })
}

fn is_complete(fields: &mut Fields) -> Result<Operation, Invalid> {
    let code: String = fields.required("code")?;
    validate_question(&code)?;
    Ok(Operation::IsComplete { code })
}

fn undo(fields: &mut Fields) -> Result<Operation, Invalid> {
    match fields.optional("n")?.unwrap_or(1) {
        0 => Err(Invalid::value("n", "a whole number, 1 or more", "0")),
        n => Ok(Operation::Undo { n }),
    }
}

fn put_file(fields: &mut Fields) -> Result<Operation, Invalid> {
    let path = path(fields)?;
    let contents = base64(fields)?;
    Ok(Operation::PutFile { path, contents })
}

fn base64(fields: &mut Fields) -> Result<Vec<u8>, Invalid> {
    let text: String = fields.required("base64")?;
    STANDARD
        .decode(&text)
        .map_err(|error| Invalid::value("base64", "base64", error.to_string()))
}

fn proc_input(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::ProcInput {
        proc: fields.required("proc")?,
        bytes: base64(fields)?,
    })
}

fn proc_signal(fields: &mut Fields) -> Result<Operation, Invalid> {
    const EXPECTED: &str = "a number from 1 to 64, or null to end all that the process started";
    let proc = fields.required("proc")?;
    let number: Option<u64> = fields.optional("signal")?;
    let signal = match number {
        None => None,
        Some(signal @ 1..=64) => Some(signal as i32),
        Some(other) => return Err(Invalid::value("signal", EXPECTED, other.to_string())),
    };
    Ok(Operation::ProcSignal { proc, signal })
}

fn proc_resize(fields: &mut Fields) -> Result<Operation, Invalid> {
    let proc = fields.required("proc")?;
    let mut side = |name: &str| {
        let value: u64 = fields.required(name)?;
        let fits = u16::try_from(value).ok().filter(|value| *value > 0);
        fits.ok_or_else(|| Invalid::value(name, "a number from 1 to 65535", value.to_string()))
    };
    let (cols, rows) = (side("cols")?, side("rows")?);
    let size = TerminalSize { cols, rows };
    Ok(Operation::ProcResize { proc, size })
}

fn proc_attach(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::ProcAttach {
        proc: fields.required("proc")?,
        after: fields.optional("after")?.unwrap_or(0),
    })
}

fn get_file(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::GetFile {
        path: path(fields)?,
        offset: fields.optional("offset")?.unwrap_or(0),
        length: fields.optional("length")?,
    })
}

/// Only what no file can be called. That a path stays inside the workspace is checked where it is opened.
fn path(fields: &mut Fields) -> Result<String, Invalid> {
    let path: String = fields.required("path")?;
    if path.is_empty() || path.contains('\0') {
        return Err(Invalid::value(
            "path",
            "a path inside the workspace",
            shown_text(&path),
        ));
    }
    Ok(path)
}

/// The longest that `events` waits for the next event.
const MAX_EVENT_WAIT: f64 = 60.0;
const COMM_FIELDS: &[&str] = &["kind", "comm", "target", "data", "metadata", "buffers"];

fn events(fields: &mut Fields) -> Result<Operation, Invalid> {
    let wait = fields.optional::<Seconds>("wait")?;
    let seconds = wait
        .map_or(0.0, |seconds| seconds.0)
        .clamp(0.0, MAX_EVENT_WAIT);
    Ok(Operation::Events {
        after: fields.optional("after")?.unwrap_or(0),
        wait: Duration::from_secs_f64(seconds),
    })
}

/// A message of a front end is a cell, with a cell's events and result.
fn comm(fields: &mut Fields) -> Result<Operation, Invalid> {
    let kind: String = fields.required("kind")?;
    let kind = match kind.as_str() {
        "open" => CommKind::Open,
        "msg" => CommKind::Msg,
        "close" => CommKind::Close,
        other => {
            let expected = "open, msg or close";
            return Err(Invalid::value("kind", expected, shown_text(other)));
        }
    };
    let message = CommMessage {
        kind,
        comm: fields.required("comm")?,
        target: fields.optional("target")?,
        data: fields
            .optional::<Map<_, _>>("data")?
            .unwrap_or_default()
            .into(),
        metadata: fields.optional::<Map<_, _>>("metadata")?.map(Into::into),
        buffers: fields.optional("buffers")?.unwrap_or_default(),
    };
    message.to_cell().map(Operation::Run)
}

fn open_from(mut map: Map<String, Value>) -> Result<Operation, Invalid> {
    // The new session gets a name of its own, which the answer tells.
    map.shift_remove("session");
    let mut fields = Fields::new(map);
    let snapshot = fields.required("from")?;
    fields.finish(&["from"])?;
    Ok(Operation::OpenFrom { snapshot })
}

fn optional_name(fields: &mut Fields, name: &str) -> Result<Option<String>, Invalid> {
    let text: Option<String> = fields.optional(name)?;
    if let Some(text) = &text {
        validate_session_id(text)?;
    }
    Ok(text)
}

fn read_output(fields: &mut Fields) -> Result<Operation, Invalid> {
    Ok(Operation::ReadOutput {
        cell: fields.required("cell")?,
        stream: fields.optional("stream")?.unwrap_or(Stream::Output),
        offset: fields.optional("offset")?.unwrap_or(0),
        length: fields.optional("length")?,
    })
}

fn tool_result(fields: &mut Fields) -> Result<Operation, Invalid> {
    let call = fields.required("call")?;
    // A tool may well answer null, so `"result": null` is a result and only its absence is none.
    let outcome = match (fields.any("result"), fields.optional("error")?) {
        (_, Some(message)) => Err(message),
        (Some(result), None) => Ok(result),
        (None, None) => {
            return Err(Invalid::Missing {
                field: "result".to_owned(),
                expected: "`result` or `error`".to_owned(),
            });
        }
    };
    Ok(Operation::ToolResult { call, outcome })
}

fn input(fields: &mut Fields) -> Result<Operation, Invalid> {
    let call = fields.required("call")?;
    let outcome = match fields.optional("error")? {
        Some(message) => Err(message),
        None => Ok(fields.required("text")?),
    };
    Ok(Operation::Input { call, outcome })
}

impl Field for Stream {
    const EXPECTED: &'static str = "stdout, stderr or output";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let found = Self::ALL
            .into_iter()
            .find(|stream| value.as_str() == Some(stream.name()));
        found.ok_or_else(|| Self::refuse(name, &value))
    }
}
