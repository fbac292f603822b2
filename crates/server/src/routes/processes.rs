//! Processes beside the interpreter: started, listed, ended, and followed by WebSocket, as a terminal does.

use super::Route;
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::{JsonBody, Query};
use crate::live::LiveSession;
use crate::state::AppState;
use axum::Json;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use cellblock_protocol::{ProcessStream, Spawn, TerminalSize, parse_json_within};
use cellblock_session::{Process, ProcessEvent, ProcessEvents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The largest message of a client: a paste into a terminal.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// How often a silent socket is tried. Proxies close silent connections after a minute.
const PING_INTERVAL: Duration = Duration::from_secs(25);
/// How long a client may take to read a piece of output. The process waits for slow readers.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn routes() -> Vec<Route> {
    let (read, run) = (Access::Needs(Scope::Read), Access::Needs(Scope::Run));
    vec![
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/processes",
            run,
            "Start a process beside the interpreter, behind the same walls; with `pty` in a terminal",
            spawn,
        )
        .takes::<SpawnRequest>()
        .answers(201, "the process"),
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/processes",
            read,
            "List the processes that run",
            list,
        ),
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/processes/{process}",
            read,
            "A process, and how it ended",
            describe,
        ),
        Route::new(
            Method::DELETE,
            "/v1/sessions/{session}/processes/{process}",
            run,
            "End a process with all that it started",
            kill,
        ),
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/processes/{process}/signal",
            run,
            "Send a signal to a process",
            signal,
        )
        .takes::<SignalRequest>(),
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/processes/{process}/attach",
            run,
            "Follow a process by WebSocket: its output from the first byte on, input, resizing, its end",
            attach,
        )
        .query("after", "only output after so many bytes")
        .answers(101, "a WebSocket; docs/server.md describes its messages"),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpawnRequest {
    /// The program and its arguments.
    argv: Vec<String>,
    /// The working directory; the workspace unless told.
    cwd: Option<String>,
    /// Variables beside those of the session.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Whether something will be written to the standard input.
    #[serde(default)]
    stdin: bool,
    /// The size of a terminal in place of the pipes.
    pty: Option<Size>,
    /// A text that the list shows.
    tag: Option<String>,
    /// The seconds after which the process is ended.
    timeout: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Size {
    cols: u16,
    rows: u16,
}

impl From<Size> for TerminalSize {
    fn from(size: Size) -> TerminalSize {
        TerminalSize {
            cols: size.cols.max(1),
            rows: size.rows.max(1),
        }
    }
}

async fn spawn(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<SpawnRequest>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let live = state.session(&caller, &id).await?;
    let timeout = match request.timeout {
        Some(seconds) => Some(
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| ApiError::invalid("timeout: a number of seconds"))?,
        ),
        None => None,
    };
    let wanted = Spawn {
        argv: request.argv,
        cwd: request.cwd,
        env: request.env,
        stdin: request.stdin,
        pty: request.pty.map(TerminalSize::from),
        tag: request.tag,
        timeout,
    };
    let process = live.session.spawn(wanted).await?;
    let info = json!(process.info());
    live.publish("spawned", info.clone());
    tokio::spawn(tell_end(Arc::clone(&live), process));
    state
        .audit(caller.id(), "process.start", Some(&id), None)
        .await;
    Ok((StatusCode::CREATED, Json(info)))
}

/// Tells readers of the session when a process has ended.
async fn tell_end(live: Arc<LiveSession>, process: Process) {
    let end = process.wait().await;
    let mut fields = json!(end);
    fields["proc"] = json!(process.info().proc);
    live.publish("process_ended", fields);
}

async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    Ok(Json(json!({"processes": live.session.processes()})))
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let process = live.session.process(&name)?;
    let mut told = json!(process.info());
    told["end"] = json!(process.end());
    Ok(Json(told))
}

async fn kill(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    live.session.process(&name)?.kill().await;
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignalRequest {
    /// The number of the signal.
    signal: i32,
}

async fn signal(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    JsonBody(request): JsonBody<SignalRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    live.session.process(&name)?.signal(request.signal).await?;
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize)]
struct AttachQuery {
    after: Option<u64>,
}

async fn attach(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    Query(query): Query<AttachQuery>,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let live = state.session(&caller, &id).await?;
    let process = live.session.process(&name)?;
    let socket = socket.map_err(ApiError::no_websocket)?;
    let events = process.attach(query.after.unwrap_or(0));
    let follower = Follower {
        process,
        events,
        state,
    };
    Ok(socket
        .max_message_size(MAX_MESSAGE_BYTES)
        .on_upgrade(|socket| follower.run(socket)))
}

/// A client that follows a process.
struct Follower {
    process: Process,
    events: ProcessEvents,
    state: AppState,
}

/// What a client says in a text message. Binary messages are input.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum ClientMessage {
    /// The terminal has another size.
    Resize { cols: u16, rows: u16 },
    /// Sends a signal.
    Signal { signal: i32 },
    /// Nothing more will be written.
    CloseInput,
}

impl Follower {
    async fn run(mut self, mut socket: WebSocket) {
        let mut ping = tokio::time::interval(PING_INTERVAL);
        loop {
            let message = tokio::select! {
                () = self.state.stop().cancelled() => break,
                event = self.events.next() => match event {
                    Some(event) => message_of(event),
                    None => break,
                },
                _ = ping.tick() => Message::Ping(Bytes::new()),
                received = socket.recv() => match received {
                    Some(Ok(message)) => match self.take(message).await {
                        Ok(()) => continue,
                        Err(problem) => {
                            text(&json!({"event": "error", "message": problem}))
                        }
                    },
                    _ => return,
                },
            };
            // The process goes on without a client that does not read.
            match tokio::time::timeout(SEND_TIMEOUT, socket.send(message)).await {
                Ok(Ok(())) => {}
                _ => return,
            }
        }
        let _ = socket.send(Message::Close(None)).await;
    }

    async fn take(&self, message: Message) -> Result<(), String> {
        let outcome = match message {
            Message::Binary(bytes) => self.process.write(&bytes).await,
            Message::Text(text) => match parse_json_within(text.as_bytes(), MAX_MESSAGE_BYTES) {
                Ok(ClientMessage::Resize { cols, rows }) => {
                    self.process.resize(Size { cols, rows }.into())
                }
                Ok(ClientMessage::Signal { signal }) => self.process.signal(signal).await,
                Ok(ClientMessage::CloseInput) => self.process.close_input().await,
                Err(error) => return Err(error.to_string()),
            },
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => Ok(()),
        };
        outcome.map_err(|error| error.to_string())
    }
}

/// An event as the client gets it. Output is binary: its first byte says which stream it is.
fn message_of(event: ProcessEvent) -> Message {
    match event {
        ProcessEvent::Output { stream, bytes, .. } => {
            let mut message = Vec::with_capacity(bytes.len() + 1);
            message.push(match stream {
                ProcessStream::Pty => 0,
                ProcessStream::Stdout => 1,
                ProcessStream::Stderr => 2,
            });
            message.extend_from_slice(&bytes);
            Message::Binary(message.into())
        }
        ProcessEvent::Dropped { bytes } => text(&json!({"event": "dropped", "bytes": bytes})),
        ProcessEvent::End(end) => {
            let mut fields = json!(end);
            fields["event"] = json!("end");
            text(&fields)
        }
    }
}

fn text(value: &Value) -> Message {
    Message::Text(value.to_string().into())
}
