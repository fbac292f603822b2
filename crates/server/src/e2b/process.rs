//! The methods of `process.Process` that answer at once.

use super::connect::{RpcCode, RpcError, envelopes};
use super::sandbox::Sandbox;
use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::TerminalSize;
use cellblock_session::Process;
use serde::Deserialize;
use serde_json::{Value, json};

/// Names a process by its id or its tag.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

/// The size of a terminal, as clients send it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Pty {
    size: PtySize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PtySize {
    #[serde(default)]
    cols: u32,
    #[serde(default)]
    rows: u32,
}

impl Pty {
    pub(super) fn terminal_size(self) -> TerminalSize {
        let bounded = |size: u32, default: u16| match u16::try_from(size) {
            Ok(0) => default,
            Ok(size) => size,
            Err(_) => u16::MAX,
        };
        TerminalSize {
            cols: bounded(self.size.cols, 80),
            rows: bounded(self.size.rows, 24),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct InputRequest {
    process: Selector,
    input: Input,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SelectRequest {
    process: Selector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SignalRequest {
    process: Selector,
    signal: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UpdateRequest {
    process: Selector,
    pty: Option<Pty>,
}

impl Sandbox {
    /// The running process that a selector names.
    pub(super) fn process(&self, selector: &Selector) -> Result<Process, RpcError> {
        let is_wanted = |pid: u32, tag: Option<&str>| match (selector.pid, &selector.tag) {
            (Some(wanted), _) => pid == wanted,
            (None, Some(wanted)) => tag == Some(wanted),
            (None, None) => false,
        };
        let running = self.live.session.processes();
        let found = running
            .iter()
            .find(|info| is_wanted(info.pid, info.tag.as_deref()));
        let found = found.and_then(|info| self.live.session.process(&info.proc).ok());
        found.ok_or_else(|| {
            RpcError::not_found(match (selector.pid, &selector.tag) {
                (Some(pid), _) => format!("process with pid {pid} not found"),
                (None, Some(tag)) => format!(
                    "process with tag {} not found",
                    tag.chars().take(64).collect::<String>()
                ),
                (None, None) => "the request names no process".to_owned(),
            })
        })
    }
}

/// Lists the processes that clients started and that run.
pub(super) fn list(sandbox: &Sandbox) -> Value {
    let running = sandbox.live.session.processes();
    let processes = running.iter().map(|info| {
        let (command, arguments) = info
            .argv
            .split_first()
            .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut process = json!({
            "config": {"cmd": command, "args": arguments, "envs": {}, "cwd": info.cwd},
            "pid": info.pid,
        });
        if let Some(tag) = &info.tag {
            process["tag"] = tag.as_str().into();
        }
        process
    });
    json!({"processes": processes.collect::<Vec<Value>>()})
}

/// Writes to the standard input or the terminal of a process.
pub(super) async fn send_input(
    sandbox: &Sandbox,
    request: InputRequest,
) -> Result<Value, RpcError> {
    let process = sandbox.process(&request.process)?;
    write(&process, request.input).await
}

async fn write(process: &Process, input: Input) -> Result<Value, RpcError> {
    let text = input.stdin.or(input.pty).unwrap_or_default();
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| RpcError::invalid(format!("the input is no base64: {error}")))?;
    process.write(&bytes).await.map_err(failed_write)?;
    Ok(json!({}))
}

/// An input that cannot be written to is a state of the process and not a fault of the message.
fn failed_write(error: cellblock_session::Error) -> RpcError {
    RpcError::new(RpcCode::FailedPrecondition, error.to_string())
}

/// Writes the messages of a client's stream one after the other. The first one names the process.
pub(super) async fn stream_input(sandbox: &Sandbox, body: &Bytes) -> Result<Value, RpcError> {
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct InputMessage {
        start: Option<SelectRequest>,
        data: Option<InputRequest>,
    }
    let mut process: Option<Process> = None;
    for message in envelopes(body)? {
        let message: InputMessage = serde_json::from_slice(message)
            .map_err(|error| RpcError::invalid(format!("the message cannot be read: {error}")))?;
        if let Some(start) = message.start {
            process = Some(sandbox.process(&start.process)?);
        }
        if let Some(data) = message.data {
            let process = process
                .as_ref()
                .ok_or_else(|| RpcError::invalid("the first message must name the process"))?;
            write(process, data.input).await?;
        }
    }
    Ok(json!({}))
}

/// Sends a signal to a process. `SIGKILL` ends everything that the process started too.
pub(super) async fn send_signal(
    sandbox: &Sandbox,
    request: SignalRequest,
) -> Result<Value, RpcError> {
    const SIGTERM: i32 = 15;
    let process = sandbox.process(&request.process)?;
    match request.signal.as_str() {
        "SIGNAL_SIGKILL" => process.kill().await,
        "SIGNAL_SIGTERM" => process.signal(SIGTERM).await.map_err(failed_write)?,
        _ => {
            return Err(RpcError::invalid(
                "signal: SIGNAL_SIGKILL or SIGNAL_SIGTERM",
            ));
        }
    }
    Ok(json!({}))
}

/// Closes the standard input of a process.
pub(super) async fn close_stdin(
    sandbox: &Sandbox,
    request: SelectRequest,
) -> Result<Value, RpcError> {
    let process = sandbox.process(&request.process)?;
    process.close_input().await.map_err(failed_write)?;
    Ok(json!({}))
}

/// Gives the terminal of a process another size.
pub(super) async fn update(sandbox: &Sandbox, request: UpdateRequest) -> Result<Value, RpcError> {
    let process = sandbox.process(&request.process)?;
    if let Some(pty) = request.pty {
        process.resize(pty.terminal_size()).map_err(failed_write)?;
    }
    Ok(json!({}))
}
