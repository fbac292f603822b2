//! Sessions: opened, listed, looked at, taken back, forked, closed.

use super::history::{export, journal, usage, vars};
use super::sse::{self, WantedEvents};
use super::{BodyKind, Route};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::{JsonBody, Query, attachment};
use crate::live::{DisplayFiles, LiveSession};
use crate::sessions::{NewSession, title};
use crate::state::AppState;
use crate::store::{SessionRow, SessionStatus};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use cellblock_protocol::{SessionOptions, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The longest body of `open`: seeds may be large.
const MAX_OPEN_BYTES: usize = 16 << 20;

pub(super) fn routes() -> Vec<Route> {
    let (read, run) = (Access::Needs(Scope::Read), Access::Needs(Scope::Run));
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(post.clone(), "/v1/sessions", run, "Open a session", open)
            .takes_kind(BodyKind::Object(
                "`title`, and the fields of `open` in docs/protocol.md: limits, imports, seed, setup, env, atomic, …; or `from`, the name of a snapshot",
            ))
            .max_body_bytes(MAX_OPEN_BYTES)
            .answers(201, "the session"),
        Route::new(get.clone(), "/v1/sessions", read, "List the caller's sessions, the newest first", list),
        Route::new(get.clone(), "/v1/sessions/{session}", read, "Describe a session", describe),
        Route::new(Method::PATCH, "/v1/sessions/{session}", run, "Change the title of a session", rename)
            .takes::<TitleRequest>(),
        Route::new(Method::DELETE, "/v1/sessions/{session}", run, "Close a session; its journal stays, unless `forget=true` deletes everything of it (in a cluster)", close),
        Route::new(
            get.clone(),
            "/v1/sessions/{session}/events",
            read,
            "Follow everything that happens in a session, as server-sent events",
            events,
        )
        .query("after", "only events with a higher `seq`; the header Last-Event-ID means the same")
        .answers(200, "a stream of events; 410 where events after this number are not kept any more"),
        Route::new(post.clone(), "/v1/sessions/{session}/undo", run, "Take back the last cells", undo)
            .takes::<UndoRequest>(),
        Route::new(
            post.clone(),
            "/v1/sessions/{session}/fork",
            run,
            "Copy a session with its variables and files; with `at`, the cells until then run again in a clean session",
            fork,
        )
        .takes::<ForkRequest>()
        .answers(201, "the copy"),
        Route::new(post.clone(), "/v1/sessions/{session}/reset", run, "Forget all variables; files stay", reset),
        Route::new(post.clone(), "/v1/sessions/{session}/seed", run, "Bind variables", seed)
            .takes_kind(BodyKind::Object("`variables`: names with JSON values"))
            .max_body_bytes(MAX_OPEN_BYTES),
        Route::new(
            post,
            "/v1/sessions/{session}/tools",
            run,
            "Offer tools to the code; calls come as events `tool_call`",
            tools,
        )
        .takes_kind(BodyKind::Object("`tools`: a list of name, description and parameters")),
        Route::new(get.clone(), "/v1/sessions/{session}/checkpoints", read, "What can be gone back to", checkpoints),
        Route::new(get.clone(), "/v1/sessions/{session}/vars", read, "List the variables", vars)
            .query("at", "the number of a cell: the variables as they were after it, from the journal"),
        Route::new(get.clone(), "/v1/sessions/{session}/vars/{name}", read, "Look at one variable", variable),
        Route::new(get.clone(), "/v1/sessions/{session}/journal", read, "Every cell with its result", journal),
        Route::new(
            get.clone(),
            "/v1/sessions/{session}/export",
            read,
            "The cells whose effects were kept, as a script or notebook",
            export,
        )
        .query("as", "py, ipynb, md or html"),
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/verify",
            run,
            "Run the cells again in a clean session, and tell what differs",
            verify,
        ),
        Route::new(get.clone(), "/v1/sessions/{session}/usage", read, "What the cells of a session have used", usage),
        Route::new(
            get,
            "/v1/sessions/{session}/displays/{name}",
            read,
            "A large display that an event refers to by `$file`",
            display,
        ),
    ]
}

async fn open(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(mut body): JsonBody<Map<String, Value>>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let title = match body.remove("title") {
        None | Some(Value::Null) => None,
        Some(Value::String(title)) => Some(title),
        Some(_) => return Err(ApiError::invalid("title: a text")),
    };
    let live = match body.remove("from") {
        Some(Value::String(snapshot)) if body.is_empty() => {
            state
                .open_from_snapshot(&caller, &snapshot, title.as_deref())
                .await?
        }
        Some(_) => {
            return Err(ApiError::invalid(
                "from: the name of a snapshot, with no other field but `title`",
            ));
        }
        None => {
            let options = SessionOptions::try_from(body).map_err(cellblock_session::Error::from)?;
            let new = NewSession {
                title,
                options,
                chat: None,
            };
            state.open_session(&caller, new).await?
        }
    };
    let row = state.session_row(&caller, &live.id).await?;
    Ok((StatusCode::CREATED, Json(session_json(&row, Some(&live)))))
}

async fn list(State(state): State<AppState>, caller: Caller) -> Result<Json<Value>, ApiError> {
    if let Some(cluster) = state.cluster() {
        let rows = cluster.rows(&caller).await?;
        let sessions = rows.iter().map(|(row, placed)| {
            let mut session = session_json(row, None);
            session["node"] = json!(placed.entry.node);
            if placed.entry.state == cellblock_cluster::engine::SessionState::Live {
                session["state"] = json!("live");
            }
            session
        });
        return Ok(Json(json!({"sessions": sessions.collect::<Vec<_>>()})));
    }
    let rows = state.store().sessions(caller.id()).await?;
    let sessions = rows
        .iter()
        .map(|row| session_json(row, state.live().get(&row.id).as_ref()));
    Ok(Json(json!({"sessions": sessions.collect::<Vec<_>>()})))
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = state.session_row(&caller, &id).await?;
    Ok(Json(session_json(&row, state.live().get(&id).as_ref())))
}

/// A session as JSON. `state` is `live`, `asleep` (it comes back from its journal with the next request) or `closed`.
pub(crate) fn session_json(row: &SessionRow, live: Option<&Arc<LiveSession>>) -> Value {
    let state = match (row.status, live) {
        (SessionStatus::Closed, _) => "closed",
        (SessionStatus::Open, Some(_)) => "live",
        (SessionStatus::Open, None) => "asleep",
    };
    json!({
        "id": row.id,
        "title": row.title,
        "state": state,
        "reason": row.reason,
        "parent": row.parent,
        "chat": row.chat,
        "created_at": row.created_at,
        "memory": row.memory,
        "rebuilt": row.life > 0,
        "live": live.map(|live| json!({
            "seq": live.ring.newest(),
            "cells": live.last_cell(),
            "queued": live.queued(),
            "waiting_calls": live.waiting_calls(),
            "isolation": live.session.rung().to_string(),
            "time_limit": live.session.time_limit().as_secs_f64(),
            "rebuilt": live.rebuilt,
        })),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TitleRequest {
    title: String,
}

async fn rename(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<TitleRequest>,
) -> Result<Json<Value>, ApiError> {
    let row = state.session_row(&caller, &id).await?;
    let title = title(Some(&request.title), &row.title)?;
    let row = SessionRow { title, ..row };
    match state.cluster() {
        Some(cluster) => cluster.rename(&caller.user.name, &row).await?,
        None => state.store().set_session_title(&id, &row.title).await?,
    }
    Ok(Json(session_json(&row, state.live().get(&id).as_ref())))
}

#[derive(Debug, Deserialize)]
struct CloseQuery {
    #[serde(default)]
    forget: bool,
}

async fn close(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<CloseQuery>,
) -> Result<Json<Value>, ApiError> {
    state.session_row(&caller, &id).await?;
    if query.forget {
        let no_cluster = || ApiError::invalid("forget: only a cluster deletes journals so");
        let cluster = state.cluster().ok_or_else(no_cluster)?;
        state.close_session(&id).await?;
        let told = cluster.forget(&id).await?;
        state
            .audit(caller.id(), "session.forget", Some(&id), None)
            .await;
        return Ok(Json(told));
    }
    state.close_session(&id).await?;
    state
        .audit(caller.id(), "session.close", Some(&id), None)
        .await;
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize)]
struct EventsQuery {
    after: Option<u64>,
}

async fn events(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let live = state.session(&caller, &id).await?;
    let after = sse::position(&live.ring, &headers, query.after)?;
    Ok(sse::stream(&state, Arc::clone(&live.ring), after, WantedEvents::All).into_response())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    /// How many cells; 1 unless told.
    pub(super) n: Option<usize>,
}

async fn undo(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<UndoRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    Ok(Json(undo_cells(&live, request.n.unwrap_or(1)).await?))
}

/// Takes back the last cells of a session, and tells the readers of its events.
pub(super) async fn undo_cells(live: &LiveSession, cells: usize) -> Result<Value, ApiError> {
    let undone = live.session.undo(cells).await?;
    let undone = serde_json::to_value(&undone).unwrap_or_default();
    // The cell that the session stands at now is no cell that the event belongs to.
    let mut fields = undone.clone();
    if let Some(cell) = fields
        .as_object_mut()
        .and_then(|fields| fields.remove("cell"))
    {
        fields["to_cell"] = cell;
    }
    live.publish("undone", fields);
    Ok(undone)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkRequest {
    /// The number of a cell: the copy begins where the session stood after it, 0 for the beginning; where the session stands unless told.
    at: Option<u64>,
}

async fn fork(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ForkRequest>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let live = state.session(&caller, &id).await?;
    let fork = state.fork_session(&caller, &live, request.at).await?;
    let row = state.session_row(&caller, &fork.id).await?;
    let mut answer = session_json(&row, Some(&fork));
    let not_copied = fork.session.not_copied();
    if !not_copied.is_empty() {
        answer["not_copied"] = json!(not_copied);
    }
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn reset(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    live.session.reset().await?;
    live.publish("reset", json!({}));
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedRequest {
    variables: cellblock_protocol::Seed,
}

async fn seed(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<SeedRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let names: Vec<String> = request.variables.keys().cloned().collect();
    live.session.seed(request.variables).await?;
    live.publish("seeded", json!({"names": names}));
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsRequest {
    tools: Vec<ToolSpec>,
}

async fn tools(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ToolsRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    live.session.set_tools(request.tools).await?;
    Ok(Json(json!({})))
}

async fn checkpoints(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let list = live.session.checkpoints().await?;
    Ok(Json(
        json!({"state": list.state, "checkpoints": list.entries}),
    ))
}

async fn variable(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let inspection = live.session.inspect(&name).await?;
    Ok(Json(serde_json::to_value(&inspection).unwrap_or_default()))
}

async fn verify(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(state.verify_session(&caller, &id).await?))
}

async fn display(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    state.session_row(&caller, &id).await?;
    let displays = DisplayFiles::new(state.displays_directory(&id));
    let path = displays
        .path(&name)
        .ok_or_else(|| ApiError::not_found("display"))?;
    let contents = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
    let contents = contents.ok().and_then(Result::ok);
    let contents = contents.ok_or_else(|| ApiError::not_found("display"))?;
    // Pictures that cannot hold scripts are shown; everything else is saved.
    let mime = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("png") => Some("image/png"),
        Some("jpg") => Some("image/jpeg"),
        Some("gif") => Some("image/gif"),
        Some("webp") => Some("image/webp"),
        _ => None,
    };
    let mut response = match mime {
        Some(mime) => ([(CONTENT_TYPE, mime)], contents).into_response(),
        None => attachment(&name, "application/octet-stream", contents.into())?,
    };
    // The name is a hash of the contents.
    let forever = HeaderValue::from_static("private, max-age=31536000, immutable");
    response
        .headers_mut()
        .insert(axum::http::header::CACHE_CONTROL, forever);
    Ok(response)
}
