//! Operations of the pipe on a session of the server: what the Python package does through `Remote` beside cells.
//!
//! The body is the operation as on the pipe, `{"op": "stat", "path": "/tmp"}`. Operations with one answer give it as JSON. `spawn`,
//! `proc_attach` and `watch` give a stream of server-sent events: first the answer, then the events of the pipe. A client that goes away
//! ends its watch; a process goes on, and can be attached to again.

use super::Route;
use super::table::BodyKind;
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::live::LiveSession;
use crate::state::AppState;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::sse::{Event as ServerSentEvent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use cellblock_host::operations::{answer_question, process_event, read_events, work_with_files};
use cellblock_protocol::Event;
use cellblock_protocol::pipe::{FileOperation, Operation, parse_line};
use cellblock_session::{AttachedProcess, Below, PathWatch, Process, ProcessEvents};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The longest body: a part of a file as base64.
const MAX_BODY_BYTES: usize = 16_000_000;
/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The longest time that `events` waits for one.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/operations",
            Access::Needs(Scope::Run),
            "Do an operation of the pipe: files by absolute path, processes, watches, events, questions, pause, resume and freeze",
            operate,
        )
        .takes_kind(BodyKind::Object(
            "an operation of the pipe with its fields, as docs/protocol.md has them",
        ))
        .max_body_bytes(MAX_BODY_BYTES)
        .answers(200, "the answer of the pipe as `answer`, or a stream of events"),
    ]
}

async fn operate(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let live = state.session(&caller, &id).await?;
    let request = parse_line(&body).map_err(|error| ApiError::invalid(error.message))?;
    let session = &live.session;
    let answer = match request.operation {
        Operation::Spawn(spawn) => {
            let AttachedProcess { process, events } = session.spawn_attached(*spawn).await?;
            let info = json!(process.info());
            live.publish("spawned", info.clone());
            state
                .audit(caller.id(), "process.start", Some(&id), None)
                .await;
            let answer = json!({"proc": info["proc"], "pid": info["pid"]});
            let source = Source::Process(process, events);
            return Ok(stream(&state, &live, answer, source));
        }
        Operation::ProcAttach { proc, after } => {
            let process = session.process(&proc)?;
            let events = process.attach(after);
            let source = Source::Process(process, events);
            return Ok(stream(&state, &live, json!({}), source));
        }
        Operation::Watch { path, recursive } => {
            let below = match recursive {
                true => Below::Watched,
                false => Below::NotWatched,
            };
            let watch = session.paths().watch(&path, below).await?;
            let answer = json!({"watch": WATCH});
            return Ok(stream(&state, &live, answer, Source::Watch(watch)));
        }
        Operation::Freeze { name } => {
            json!({"snapshot": state.freeze_session(&caller, &live, name).await?})
        }
        // The stream is the watch: it ends with its connection.
        Operation::Unwatch { .. } => json!({}),
        Operation::Procs => json!(session.processes()),
        Operation::ProcInput { proc, bytes } => {
            session.process(&proc)?.write(&bytes).await?;
            json!({})
        }
        Operation::ProcClose { proc } => {
            session.process(&proc)?.close_input().await?;
            json!({})
        }
        Operation::ProcSignal { proc, signal } => {
            let process = session.process(&proc)?;
            match signal {
                Some(signal) => process.signal(signal).await?,
                None => process.kill().await,
            }
            json!({})
        }
        Operation::ProcResize { proc, size } => {
            session.process(&proc)?.resize(size)?;
            json!({})
        }
        Operation::Events { after, wait } => {
            read_events(session, after, wait.min(MAX_WAIT)).await?
        }
        Operation::Files(FileOperation::CopyIn { .. } | FileOperation::CopyOut { .. }) => {
            return Err(unsupported(
                "open files of another machine cannot be copied",
            ));
        }
        Operation::Files(operation) => work_with_files(session, operation).await?,
        operation => match answer_question(session, &operation).await {
            Some(answer) => answer?,
            None => {
                return Err(unsupported(
                    "this operation has a route of its own, or none",
                ));
            }
        },
    };
    Ok(Json(json!({"answer": answer})).into_response())
}

fn unsupported(message: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message)
}

/// The name of a watch in its own stream.
const WATCH: &str = "w";

/// Where the events of a stream come from.
enum Source {
    Process(Process, ProcessEvents),
    Watch(PathWatch),
}

/// The answer, and then the events until their end.
fn stream(state: &AppState, live: &Arc<LiveSession>, answer: Value, source: Source) -> Response {
    let first = json!({"event": "answer", "answer": answer});
    let reader = OperationReader {
        stop: state.stop().clone(),
        _counted: state.count_reader(),
        // A session that is looked at is not put to sleep.
        _live: Arc::clone(live),
        source,
        ready: VecDeque::from([first]),
        is_over: false,
    };
    let events = futures_util::stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        let event = ServerSentEvent::default().data(event.to_string());
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

struct OperationReader {
    stop: tokio_util::sync::CancellationToken,
    _counted: crate::state::ReaderGuard,
    _live: Arc<LiveSession>,
    source: Source,
    ready: VecDeque<Value>,
    is_over: bool,
}

impl OperationReader {
    async fn next(&mut self) -> Option<Value> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        if self.is_over {
            return None;
        }
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => return None,
            () = self.read() => {}
        }
        self.ready.pop_front()
    }

    /// Waits for the next events.
    async fn read(&mut self) {
        match &mut self.source {
            Source::Process(process, events) => match events.next().await {
                Some(event) => {
                    let event = process_event(&process.info().proc, event);
                    self.is_over = matches!(event, Event::ProcEnd { .. });
                    self.ready.push_back(json!(event));
                }
                None => self.is_over = true,
            },
            Source::Watch(watch) => {
                let watch = watch.next().await;
                self.is_over = watch.is_none();
                let name = || WATCH.to_owned();
                let changes = watch.into_iter().flatten();
                let changes = changes.map(|change| {
                    json!(Event::Fs {
                        watch: name(),
                        change
                    })
                });
                self.ready.extend(changes);
                if self.is_over {
                    self.ready.push_back(json!(Event::FsEnd { watch: name() }));
                }
            }
        }
    }
}
