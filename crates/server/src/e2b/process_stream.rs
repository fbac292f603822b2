//! The methods of `process.Process` that follow a process: `Start` and `Connect`.

use super::connect::{
    ClientGone, RpcCode, RpcError, StreamSender, failed_stream, keepalive_of, stream_response,
    timeout_of,
};
use super::process::{Pty, Selector};
use super::sandbox::Sandbox;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{ProcessEnd, ProcessStream, Spawn};
use cellblock_session::{AttachedProcess, ProcessEvent, ProcessEvents};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a client wants to be started.
#[derive(Debug, Deserialize)]
pub(super) struct StartRequest {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConnectRequest {
    process: Selector,
}

/// Starts a process and follows it.
pub(super) async fn start(
    sandbox: &Arc<Sandbox>,
    headers: &HeaderMap,
    request: StartRequest,
) -> Response {
    let started = async {
        let spawn = spawn_of(sandbox, request).await?;
        Ok::<_, RpcError>(sandbox.live.session.spawn_attached(spawn).await?)
    };
    match started.await {
        Ok(AttachedProcess { process, events }) => {
            follow(sandbox, headers, process.info().pid, events)
        }
        Err(error) => failed_stream(error).await,
    }
}

/// Follows a process that runs, from now on.
pub(super) async fn connect(
    sandbox: &Arc<Sandbox>,
    headers: &HeaderMap,
    request: ConnectRequest,
) -> Response {
    match sandbox.process(&request.process) {
        Ok(process) => {
            let events = process.attach(u64::MAX);
            follow(sandbox, headers, process.info().pid, events)
        }
        Err(error) => failed_stream(error).await,
    }
}

async fn spawn_of(sandbox: &Sandbox, request: StartRequest) -> Result<Spawn, RpcError> {
    let config = request.process;
    let cwd = config.cwd.filter(|cwd| !cwd.is_empty());
    let cwd = cwd.map_or_else(|| sandbox.home(), |cwd| sandbox.absolute(&cwd));
    if sandbox.live.session.paths().stat(&cwd).await.is_err() {
        return Err(RpcError::invalid(format!("cwd '{cwd}' does not exist")));
    }
    let mut env = sandbox.settings.variables.clone();
    if request.pty.is_some() {
        let terminal = ("TERM", "xterm-256color");
        env.entry(terminal.0.into()).or_insert(terminal.1.into());
    }
    env.extend(config.envs);
    let mut spawn = Spawn::new(std::iter::once(config.cmd).chain(config.args));
    spawn.cwd = Some(cwd);
    spawn.env = env;
    spawn.tag = request.tag;
    spawn.pty = request.pty.map(Pty::terminal_size);
    // Clients that do not say so expect that they can write to the process.
    spawn.stdin = request.stdin.unwrap_or(true) && spawn.pty.is_none();
    Ok(spawn)
}

fn follow(
    sandbox: &Arc<Sandbox>,
    headers: &HeaderMap,
    pid: u32,
    events: ProcessEvents,
) -> Response {
    let (sender, response) = stream_response();
    let follower = Follower {
        sandbox: Arc::clone(sandbox),
        ends_at: timeout_of(headers).map(|timeout| Instant::now() + timeout),
        keepalive: keepalive_of(headers),
    };
    tokio::spawn(follower.run(pid, events, sender));
    response
}

/// Passes on what a process writes, until it ends, the client's time is over or the client is gone. The process goes on in the last two cases.
struct Follower {
    sandbox: Arc<Sandbox>,
    ends_at: Option<Instant>,
    keepalive: Duration,
}

/// Why a stream ends.
enum StreamEnd {
    Done,
    ClientGone,
    TimeOver,
    SandboxGone,
}

impl From<ClientGone> for StreamEnd {
    fn from(_: ClientGone) -> StreamEnd {
        StreamEnd::ClientGone
    }
}

impl Follower {
    async fn run(self, pid: u32, events: ProcessEvents, sender: StreamSender) {
        let end = match self.pass_on(pid, events, &sender).await {
            Ok(end) | Err(end) => end,
        };
        match end {
            StreamEnd::Done => sender.end(Ok(())).await,
            StreamEnd::ClientGone => {}
            StreamEnd::TimeOver => {
                let error =
                    RpcError::new(RpcCode::DeadlineExceeded, "the time of the call is over");
                sender.end(Err(error)).await;
            }
            StreamEnd::SandboxGone => sender.break_off().await,
        }
    }

    async fn pass_on(
        &self,
        pid: u32,
        mut events: ProcessEvents,
        sender: &StreamSender,
    ) -> Result<StreamEnd, StreamEnd> {
        let start = json!({"event": {"start": {"pid": pid}}});
        sender.send(&start).await?;
        loop {
            let time_over = async {
                match self.ends_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                () = self.sandbox.gone.cancelled() => return Ok(StreamEnd::SandboxGone),
                event = events.next() => event,
                () = sender.closed() => return Ok(StreamEnd::ClientGone),
                () = time_over => return Ok(StreamEnd::TimeOver),
                () = tokio::time::sleep(self.keepalive) => {
                    sender.send(&json!({"event": {"keepalive": {}}})).await?;
                    continue;
                }
            };
            match event {
                Some(ProcessEvent::Output { stream, bytes, .. }) => {
                    sender.send(&output_json(stream, &bytes)).await?;
                    let hint = match stream {
                        ProcessStream::Stderr => {
                            let text = String::from_utf8_lossy(&bytes);
                            self.sandbox.network_hint.for_text(&text)
                        }
                        ProcessStream::Stdout | ProcessStream::Pty => None,
                    };
                    if let Some(hint) = hint {
                        sender.send(&output_json(stream, hint.as_bytes())).await?;
                    }
                }
                Some(ProcessEvent::Dropped { .. }) => {}
                Some(ProcessEvent::End(end)) => {
                    // A sandbox that is ended takes its processes along; that is not the end of a command.
                    if self.sandbox.gone.is_cancelled() {
                        return Ok(StreamEnd::SandboxGone);
                    }
                    sender
                        .send(&json!({"event": {"end": end_json(&end)}}))
                        .await?;
                    return Ok(StreamEnd::Done);
                }
                None => return Ok(StreamEnd::Done),
            }
        }
    }
}

fn output_json(stream: ProcessStream, bytes: &[u8]) -> Value {
    let name = match stream {
        ProcessStream::Stdout => "stdout",
        ProcessStream::Stderr => "stderr",
        ProcessStream::Pty => "pty",
    };
    let mut data = serde_json::Map::new();
    data.insert(name.to_owned(), STANDARD.encode(bytes).into());
    json!({"event": {"data": data}})
}

/// How a process ended, in the words of Go's `os/exec`, which envd passes on.
fn end_json(end: &ProcessEnd) -> Value {
    match (end.exit_code, end.signal) {
        (Some(code), _) => json!({
            "exitCode": code,
            "exited": true,
            "status": format!("exit status {code}"),
        }),
        (None, signal) => {
            let status = format!("signal: {}", signal_words(signal.unwrap_or(9)));
            json!({"exitCode": -1, "exited": false, "status": status, "error": status})
        }
    }
}

fn signal_words(signal: i32) -> String {
    let words = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}"),
    };
    words.to_owned()
}
