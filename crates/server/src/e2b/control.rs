//! The control plane: sandboxes are created, looked at, paused, resumed and ended by the owner of an API key.

use super::create::{checked_life, create, detail_json, sandbox_json};
use super::error::E2bError;
use super::listing::list;
use super::metrics::{metrics, metrics_of_many};
use super::sandbox::{RunState, Sandbox, lock};
use super::snapshots;
use super::time::rfc3339;
use crate::auth::{Access, Caller, Scope, authorize};
use crate::error::ApiError;
use crate::http::hold_body;
use crate::state::AppState;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The routes, behind the check of the API key.
pub(super) fn router(state: &AppState) -> Router<AppState> {
    Router::new()
        .route("/sandboxes", post(create).get(list))
        .route("/v2/sandboxes", post(create).get(list))
        .route("/sandboxes/metrics", get(metrics_of_many))
        .route("/sandboxes/{id}", get(describe).delete(kill))
        .route("/v2/sandboxes/{id}", get(describe))
        .route("/sandboxes/{id}/timeout", post(set_timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/v2/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/resume", post(connect))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/metrics", get(metrics))
        .route("/sandboxes/{id}/network", put(network))
        .route("/sandboxes/{id}/logs", get(logs))
        .route("/v2/sandboxes/{id}/logs", get(logs))
        .route("/sandboxes/{id}/fork", post(snapshots::fork))
        .route("/sandboxes/{id}/snapshots", post(snapshots::create))
        .route("/snapshots", get(snapshots::list))
        .route("/templates/{id}", delete(snapshots::remove))
        .layer(from_fn_with_state(state.clone(), hold_body_of_key))
        .layer(from_fn_with_state(state.clone(), authorize_key))
}

/// Finds out whose API key a request carries. Errors have the form that clients of E2B read.
pub(super) async fn authorize_key(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let access = Access::Needs(Scope::Run);
    answer(authorize(State((state, access)), request, next).await)
}

async fn hold_body_of_key(state: State<AppState>, request: Request, next: Next) -> Response {
    answer(hold_body(state, request, next).await)
}

fn answer(outcome: Result<Response, ApiError>) -> Response {
    outcome.unwrap_or_else(|error| E2bError::from(error).into_response())
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    Ok(Json(detail_json(&state, &sandbox)))
}

async fn kill(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    state.kill_sandbox(&sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize)]
struct TimeoutRequest {
    timeout: Option<u64>,
}

async fn set_timeout(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<TimeoutRequest>,
) -> Result<StatusCode, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    sandbox.set_timeout(checked_life(request.timeout)?);
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize)]
struct RefreshRequest {
    duration: Option<u64>,
}

async fn refresh(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Option<Json<RefreshRequest>>,
) -> Result<StatusCode, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let wanted = body.and_then(|Json(request)| request.duration);
    sandbox.extend(checked_life(wanted)?);
    Ok(StatusCode::NO_CONTENT)
}

async fn connect(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Option<Json<TimeoutRequest>>,
) -> Result<(StatusCode, Json<Value>), E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let wanted = body.and_then(|Json(request)| request.timeout);
    let life = checked_life(wanted)?;
    let was_paused = sandbox.life().state == RunState::Paused;
    if was_paused {
        state.resume_sandbox(&sandbox).await?;
        sandbox.set_timeout(life);
    } else {
        sandbox.extend(life);
    }
    let status = match was_paused {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(sandbox_json(&state, &sandbox))))
}

#[derive(Debug, Default, Deserialize)]
struct PauseRequest {
    memory: Option<bool>,
}

async fn pause(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Option<Json<PauseRequest>>,
) -> Result<StatusCode, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    if sandbox.life().state == RunState::Paused {
        return Err(E2bError::new(
            StatusCode::CONFLICT,
            format!("sandbox \"{id}\" is already paused"),
        ));
    }
    if body.is_some_and(|Json(request)| request.memory == Some(false)) {
        return Err(E2bError::not_offered(
            "a pause that forgets the memory is not offered; leave `memory` out and variables and processes stay",
        ));
    }
    state.pause_sandbox(&sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl AppState {
    /// Stops all processes of a sandbox. A cell that runs is interrupted first: a session pauses between cells only.
    pub(super) async fn pause_sandbox(&self, sandbox: &Sandbox) -> Result<(), E2bError> {
        const MAX_WAIT: Duration = Duration::from_secs(10);
        const POLL_INTERVAL: Duration = Duration::from_millis(20);
        let sessions = sandbox.sessions();
        let begun = tokio::time::Instant::now();
        for (index, session) in sessions.iter().enumerate() {
            loop {
                match session.pause().await {
                    Ok(()) => break,
                    Err(cellblock_session::Error::Busy { .. }) if begun.elapsed() < MAX_WAIT => {
                        session.interrupt();
                        tokio::time::sleep(POLL_INTERVAL).await;
                    }
                    Err(error) => {
                        for paused in &sessions[..index] {
                            let _ = paused.resume().await;
                        }
                        return Err(error.into());
                    }
                }
            }
        }
        sandbox.set_state(RunState::Paused);
        Ok(())
    }

    /// Lets a paused sandbox go on.
    pub(super) async fn resume_sandbox(&self, sandbox: &Sandbox) -> Result<(), E2bError> {
        for session in sandbox.sessions() {
            session.resume().await?;
        }
        sandbox.set_state(RunState::Running);
        Ok(())
    }
}

impl Sandbox {
    /// The session of the sandbox, and those of its other contexts.
    fn sessions(&self) -> Vec<cellblock_host::Session> {
        let contexts = lock(&self.contexts);
        let others = contexts.iter().filter_map(|context| context.own_session());
        std::iter::once(self.live.session.clone())
            .chain(others)
            .collect()
    }
}

async fn network() -> E2bError {
    E2bError::not_offered(
        "the network of a running sandbox cannot be changed; its operator opens hosts with `cellblock serve --e2b-allow HOST`",
    )
}

async fn logs(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let journal = state.journal(&caller, &sandbox.live.id).await?;
    let summary = journal.summary();
    let entries = summary.cells.iter().map(|cell| {
        json!({
            "timestamp": rfc3339(super::time::from_unix(cell.begun_at)),
            "level": "info",
            "message": format!("cell {}", cell.number),
            "fields": {"code": cell.cell.code},
        })
    });
    let entries: Vec<Value> = entries.collect();
    Ok(Json(json!({"logs": entries, "logEntries": entries})))
}
