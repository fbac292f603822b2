//! Runs: followed, cancelled, resumed, decided about, verified and exported.

use super::cells::{MAX_RESULT_BYTES, ToolResultRequest};
use super::sse::{self, WantedEvents};
use super::{BodyKind, Route};
use crate::agents::{ExportKind, LiveRun, export};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::{JsonBody, Query, attachment};
use crate::state::AppState;
use crate::store::RunRow;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use cellblock_agent::{RunProgress, StoredRun};
use cellblock_tools::Decision;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Vec<Route> {
    let (read, run) = (Access::Needs(Scope::Read), Access::Needs(Scope::Run));
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            get.clone(),
            "/v1/runs",
            read,
            "List the caller's runs, the newest first",
            list,
        ),
        Route::new(
            get.clone(),
            "/v1/runs/{run}",
            read,
            "Describe a run",
            describe,
        ),
        Route::new(
            get.clone(),
            "/v1/runs/{run}/events",
            read,
            "Follow a run, as server-sent events; docs/agent.md has the events",
            events,
        )
        .query(
            "after",
            "only events with a higher `seq`; the header Last-Event-ID means the same",
        )
        .answers(
            200,
            "a stream of events; 410 where they are not kept any more: read the record",
        ),
        Route::new(
            get.clone(),
            "/v1/runs/{run}/record",
            read,
            "Everything that was kept of a run",
            record,
        ),
        Route::new(
            post.clone(),
            "/v1/runs/{run}/cancel",
            run,
            "End a run",
            cancel,
        ),
        Route::new(
            post.clone(),
            "/v1/runs/{run}/resume",
            run,
            "Go on with a run that was cut off",
            resume,
        )
        .answers(202, "the run"),
        Route::new(
            post.clone(),
            "/v1/runs/{run}/approvals/{approval}",
            run,
            "Decide about a call that waits for a person",
            decide,
        )
        .takes::<DecisionRequest>(),
        Route::new(
            post.clone(),
            "/v1/runs/{run}/tool_result",
            run,
            "Answer a call of a tool that the question brought along",
            tool_result,
        )
        .takes_kind(BodyKind::Object("`call`, and `result` or `error`"))
        .max_body_bytes(MAX_RESULT_BYTES),
        Route::new(
            post,
            "/v1/runs/{run}/verify",
            run,
            "Run the cells of the run's session again in a clean one, and tell what differs",
            verify,
        ),
        Route::new(
            get,
            "/v1/runs/{run}/export",
            read,
            "A run as a file",
            export_run,
        )
        .query("as", "py, ipynb, html or md"),
    ]
}

async fn list(State(state): State<AppState>, caller: Caller) -> Result<Json<Value>, ApiError> {
    let runs = state.store().runs(caller.id(), None).await?;
    let mut open = match state.cluster() {
        Some(cluster) => cluster.open_runs_of(&caller.user.name).await?,
        None => Vec::new(),
    };
    // A run of the queue may have been cut off on this node, and go on elsewhere.
    let is_open = |id: &str| open.iter().any(|run| run["id"] == id);
    let rows = runs.iter().filter(|row| !is_open(&row.id));
    let rows: Vec<Value> = rows.map(|row| json!(row)).collect();
    open.extend(rows);
    Ok(Json(json!({"runs": open})))
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &id).await?;
    Ok(Json(run_json(&state, &row)))
}

/// A run as JSON, with what waits for a decision.
pub(crate) fn run_json(state: &AppState, row: &RunRow) -> Value {
    let live = state.runs().get(&row.user, &row.id);
    let mut json = serde_json::to_value(row).unwrap_or_default();
    json["seq"] = live.as_ref().map(|run| run.ring.newest()).into();
    json["approvals"] = live
        .map(|run| run.approvals.all())
        .unwrap_or_default()
        .into();
    json
}

pub(crate) async fn find(state: &AppState, caller: &Caller, id: &str) -> Result<RunRow, ApiError> {
    let row = state.store().run(caller.id(), id).await?;
    row.ok_or_else(|| ApiError::not_found("run"))
}

async fn events(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    find(&state, &caller, &id).await?;
    let run = state.runs().get(caller.id(), &id).ok_or_else(|| {
        ApiError::new(
            StatusCode::GONE,
            "events_gone",
            "the events of this run are not in memory any more",
        )
        .hint("read /record")
    })?;
    let after = sse::position(&run.ring, &headers, query.after)?;
    Ok(sse::stream(&state, Arc::clone(&run.ring), after, WantedEvents::All).into_response())
}

#[derive(Debug, Deserialize)]
struct EventsQuery {
    after: Option<u64>,
}

async fn record(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &id).await?;
    let stored = stored(&state, &row).await?;
    let outcome = match stored.progress {
        RunProgress::Ended(end) => end.outcome,
        RunProgress::Running | RunProgress::CutOff => Value::Null,
    };
    let events = stored
        .events
        .into_iter()
        .map(|stored| json!({"at": stored.at, "event": stored.event}));
    Ok(Json(json!({
        "run": run_json(&state, &row),
        "events": events.collect::<Vec<Value>>(),
        "outcome": outcome,
        "incomplete": stored.incomplete,
    })))
}

pub(super) async fn stored(state: &AppState, row: &RunRow) -> Result<StoredRun, ApiError> {
    let id = row
        .record
        .clone()
        .ok_or_else(|| ApiError::not_found("record"))?;
    let store = state.run_store();
    let read = tokio::task::spawn_blocking(move || store.read(&id)).await;
    let read = read.map_err(|error| ApiError::internal(error.to_string()))?;
    read.map_err(|error| ApiError::new(StatusCode::NOT_FOUND, "not_found", error.to_string()))
}

fn live(state: &AppState, caller: &Caller, id: &str) -> Result<Arc<LiveRun>, ApiError> {
    let run = state
        .runs()
        .get(caller.id(), id)
        .filter(|run| !run.is_over());
    run.ok_or_else(ended)
}

fn ended() -> ApiError {
    ApiError::conflict("ended", "the run does not go on any more")
}

async fn cancel(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    // A run is told as ended a moment before it leaves memory: a caller that has read it is told the same here.
    if find(&state, &caller, &id).await?.status != "running" {
        return Err(ended());
    }
    live(&state, &caller, &id)?.cancel.cancel();
    Ok(Json(json!({})))
}

async fn resume(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let row = find(&state, &caller, &id).await?;
    if row.status != "cut_off" {
        return Err(ApiError::conflict(
            "ended",
            format!("the run is not cut off: {}", row.status),
        ));
    }
    let chat = row.chat.clone().unwrap_or_default();
    let chat = state.store().chat(caller.id(), &chat).await?;
    let chat = chat.ok_or_else(|| ApiError::not_found("chat of this run"))?;
    state.resume_run(&caller, chat, row).await?;
    let row = find(&state, &caller, &id).await?;
    Ok((StatusCode::ACCEPTED, Json(run_json(&state, &row))))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DecisionRequest {
    /// `accept`, `always`, `edit` (with `arguments`), `respond` (with `text`) or `reject` (perhaps with `text`).
    decision: String,
    arguments: Option<Map<String, Value>>,
    text: Option<String>,
}

async fn decide(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, approval)): Path<(String, String)>,
    JsonBody(request): JsonBody<DecisionRequest>,
) -> Result<Json<Value>, ApiError> {
    find(&state, &caller, &id).await?;
    let decision = match (request.decision.as_str(), request.arguments, request.text) {
        ("accept", None, None) => Decision::Accept,
        ("always", None, None) => Decision::Always,
        ("edit", Some(arguments), None) => Decision::Edit(arguments),
        ("respond", None, Some(text)) => Decision::Respond(text),
        ("reject", None, text) => Decision::Reject(text),
        _ => {
            return Err(ApiError::invalid(
                "decision: accept, always, edit with `arguments`, respond with `text`, or reject",
            ));
        }
    };
    live(&state, &caller, &id)?
        .approvals
        .decide(&approval, decision)?;
    state
        .audit(
            caller.id(),
            "run.approval",
            Some(&id),
            Some(request.decision),
        )
        .await;
    Ok(Json(json!({})))
}

async fn tool_result(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ToolResultRequest>,
) -> Result<Json<Value>, ApiError> {
    find(&state, &caller, &id).await?;
    let (call, answer) = request.answer()?;
    live(&state, &caller, &id)?.calls.answer(&call, answer)?;
    Ok(Json(json!({})))
}

async fn verify(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &id).await?;
    let session = row
        .session
        .ok_or_else(|| ApiError::conflict("no_code", "the run ran no code"))?;
    Ok(Json(state.verify_session(&caller, &session).await?))
}

#[derive(Debug, Deserialize)]
struct ExportQuery {
    r#as: Option<String>,
}

async fn export_run(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    let row = find(&state, &caller, &id).await?;
    let name = query.r#as.as_deref().unwrap_or("md");
    let kind = ExportKind::of(name)?;
    let stored = stored(&state, &row).await?;
    let journal = match &row.session {
        Some(session) if kind != ExportKind::Markdown => {
            Some(state.journal(&caller, session).await?)
        }
        _ => None,
    };
    let text = export(&stored, journal.as_ref(), kind)?;
    state
        .audit(caller.id(), "run.export", Some(&id), Some(name.to_owned()))
        .await;
    attachment(
        &format!("{id}.{name}"),
        "application/octet-stream",
        text.into(),
    )
}
