//! The control plane: sandboxes are created, looked at, paused, resumed and ended by the owner of an API key.

use super::create::{checked_life, cpu_count, create, detail_json, sandbox_json};
use super::error::E2bError;
use super::listing::list;
use super::sandbox::{RunState, Sandbox, lock};
use super::snapshots;
use super::time::{rfc3339, unix};
use crate::auth::{Access, Caller, Scope, authorize};
use crate::state::AppState;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use cellblock_protocol::Limits;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

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
        .layer(from_fn_with_state(state.clone(), authorize_key))
}

/// Finds out whose API key a request carries. Errors have the form that clients of E2B read.
pub(super) async fn authorize_key(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let access = Access::Needs(Scope::Run);
    match authorize(State((state, access)), request, next).await {
        Ok(response) => response,
        Err(error) => E2bError::from(error).into_response(),
    }
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
        const LOOK: Duration = Duration::from_millis(20);
        let sessions = sandbox.sessions();
        let begun = tokio::time::Instant::now();
        for (index, session) in sessions.iter().enumerate() {
            loop {
                match session.pause().await {
                    Ok(()) => break,
                    Err(cellblock_session::Error::Busy { .. }) if begun.elapsed() < MAX_WAIT => {
                        session.interrupt();
                        tokio::time::sleep(LOOK).await;
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

/// The times between which values are wanted, in seconds since 1970.
#[derive(Debug, Deserialize)]
struct MetricsQuery {
    start: Option<u64>,
    end: Option<u64>,
}

impl MetricsQuery {
    /// Whether a value of now is wanted. Values of the past are not kept. A client sends the end of its range a moment before it is read.
    fn includes(&self, now: u64) -> bool {
        const METRICS_INTERVAL: u64 = 5;
        let is_begun = self.start.is_none_or(|start| start <= now);
        let is_over = self
            .end
            .is_some_and(|end| end.saturating_add(METRICS_INTERVAL) < now);
        is_begun && !is_over
    }
}

async fn metrics(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    crate::http::Query(query): crate::http::Query<MetricsQuery>,
) -> Result<Json<Value>, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let mut values = Vec::new();
    if query.includes(unix(SystemTime::now())) {
        values.push(measure(&sandbox).await);
    }
    Ok(Json(json!(values)))
}

#[derive(Debug, Deserialize)]
struct ManyQuery {
    sandbox_ids: Option<String>,
}

async fn metrics_of_many(
    State(state): State<AppState>,
    caller: Caller,
    crate::http::Query(query): crate::http::Query<ManyQuery>,
) -> Result<Json<Value>, E2bError> {
    let mut found = serde_json::Map::new();
    for id in query.sandbox_ids.unwrap_or_default().split(',').take(100) {
        if let Ok(sandbox) = state.own_sandbox(&caller, id) {
            found.insert(sandbox.id.clone(), measure(&sandbox).await);
        }
    }
    Ok(Json(json!({"sandboxes": found})))
}

/// What a sandbox uses now. The memory is that of its files in use and is not known without asking the kernel for each process; the
/// limit stands for what the sandbox can take.
async fn measure(sandbox: &Sandbox) -> Value {
    let now = SystemTime::now();
    let files = sandbox.live.session.list_files().await.unwrap_or_default();
    let disk: u64 = files.iter().map(|file| file.bytes).sum();
    json!({
        "timestamp": rfc3339(now),
        "timestampUnix": unix(now),
        "cpuCount": cpu_count(),
        "cpuUsedPct": 0.0,
        "memUsed": 0,
        "memTotal": sandbox.live.memory,
        "memCache": 0,
        "diskUsed": disk,
        "diskTotal": Limits::default().disk,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_now_is_in_ranges_that_hold_now_alone() {
        let includes = |start, end| MetricsQuery { start, end }.includes(1000);
        assert!(includes(None, None));
        assert!(includes(Some(1000), None));
        assert!(includes(Some(900), Some(999)));
        assert!(includes(None, Some(u64::MAX)));
        assert!(!includes(Some(1001), None));
        assert!(!includes(Some(900), Some(990)));
    }
}
