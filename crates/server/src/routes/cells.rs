//! Cells: run, interrupted, and answered while they wait.

use super::keys::{self, Queued};
use super::sse::{self, WantedEvents};
use super::{BodyKind, Route};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::{JsonBody, Query};
use crate::live::{AnswerTo, has_large_displays, result_json};
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use cellblock_protocol::{Cell, MAX_CODE_BYTES, Stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The longest result of a tool.
pub(super) const MAX_RESULT_BYTES: usize = 16 << 20;

pub(super) fn routes() -> Vec<Route> {
    let (read, run) = (Access::Needs(Scope::Read), Access::Needs(Scope::Run));
    let post = Method::POST;
    vec![
        Route::new(
            post.clone(),
            "/v1/sessions/{session}/cells",
            run,
            "Run a cell; with `Accept: text/event-stream` the answer is the stream of its events",
            start,
        )
        .query("wait", "1: answer with the result when the cell is over")
        .takes_kind(BodyKind::Object(
            "`code`, and perhaps `timeout` (seconds) and `atomic`",
        ))
        // In JSON a character can take six.
        .max_body_bytes(2 * MAX_CODE_BYTES)
        .answers(202, "the number of the cell; its events tell the rest"),
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/cells/{cell}/output",
            read,
            "A page of what a cell wrote",
            output,
        )
        .query("stream", "stdout, stderr or output")
        .query("offset", "where the page begins, in bytes")
        .query("length", "how long the page is, in bytes"),
        Route::new(
            post.clone(),
            "/v1/sessions/{session}/interrupt",
            run,
            "Stop the running cell",
            interrupt,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{session}/input",
            run,
            "Answer code that waits in input()",
            input,
        )
        .takes::<InputRequest>(),
        Route::new(
            post.clone(),
            "/v1/sessions/{session}/tool_result",
            run,
            "Answer code that waits for a tool",
            tool_result,
        )
        .takes_kind(BodyKind::Object("`call`, and `result` or `error`"))
        .max_body_bytes(MAX_RESULT_BYTES),
        Route::new(
            post,
            "/v1/sessions/{session}/compute",
            run,
            "Evaluate one expression in a throw-away copy of the session",
            compute,
        )
        .takes::<ComputeRequest>(),
    ]
}

#[derive(Debug, Deserialize)]
struct StartQuery {
    wait: Option<String>,
}

async fn start(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<StartQuery>,
    headers: HeaderMap,
    JsonBody(cell): JsonBody<Cell>,
) -> Result<Response, ApiError> {
    let live = state.session(&caller, &id).await?;
    let wants_events = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .any(|accept| accept.contains("text/event-stream"));
    let wants_number = query.wait.is_none_or(|wait| wait == "0" || wait == "false");
    let after = live.ring.newest();
    let queued = match (state.cluster(), keys::idempotency_key(&headers)?) {
        (Some(cluster), Some(key)) => {
            keys::queue(&state, cluster, &caller, &live, cell, key).await?
        }
        _ => Queued::New(state.queue_cell(&caller, &live, cell).await?),
    };
    let (number, outcome) = match queued {
        Queued::New(queued) => queued,
        Queued::Done(result) if wants_events => {
            let ring = keys::ring_of(&live, *result).await;
            return Ok(sse::stream(&state, ring, 0, WantedEvents::All).into_response());
        }
        Queued::Done(result) => {
            let (answer, outcome) = oneshot::channel();
            let number = result.cell;
            let _ = answer.send(Ok(result));
            (number, outcome)
        }
    };
    if wants_events {
        let ring = Arc::clone(&live.ring);
        return Ok(sse::stream(&state, ring, after, WantedEvents::Cell(number)).into_response());
    }
    if wants_number {
        let answer = json!({"session": id, "cell": number, "after": after});
        return Ok((StatusCode::ACCEPTED, Json(answer)).into_response());
    }
    let outcome = outcome
        .await
        .unwrap_or_else(|_| Err(live.ended_error("it was closed")))?;
    if !has_large_displays(&outcome) {
        return Ok(Json(result_json(*outcome, &id, &live.displays)).into_response());
    }
    let displays = live.displays.clone();
    let made = tokio::task::spawn_blocking(move || result_json(*outcome, &id, &displays));
    let result = made
        .await
        .map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Json(result).into_response())
}

#[derive(Debug, Deserialize)]
struct OutputQuery {
    stream: Option<Stream>,
    offset: Option<u64>,
    length: Option<u64>,
}

async fn output(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, cell)): Path<(String, u64)>,
    Query(query): Query<OutputQuery>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let stream = query.stream.unwrap_or(Stream::Output);
    let (offset, length) = (query.offset.unwrap_or(0), query.length.unwrap_or(u64::MAX));
    let text = live
        .session
        .read_output(cell, stream, offset, length)
        .await?;
    Ok(Json(json!({"text": text})))
}

async fn interrupt(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    live.session.interrupt();
    live.publish("interrupted", json!({"by": caller.user.name}));
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InputRequest {
    call: String,
    text: Option<String>,
    error: Option<String>,
}

async fn input(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<InputRequest>,
) -> Result<Json<Value>, ApiError> {
    let answer = match (request.text, request.error) {
        (Some(text), None) => Ok(text),
        (None, Some(error)) => Err(error),
        _ => return Err(ApiError::invalid("either `text` or `error`")),
    };
    let live = state.session(&caller, &id).await?;
    live.answer(&request.call, AnswerTo::Input(answer))?;
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolResultRequest {
    call: String,
    #[serde(default, deserialize_with = "some")]
    result: Option<Value>,
    error: Option<String>,
}

impl ToolResultRequest {
    /// The call, and its result or why there is none.
    pub(super) fn answer(self) -> Result<(String, Result<Value, String>), ApiError> {
        match (self.result, self.error) {
            (Some(result), None) => Ok((self.call, Ok(result))),
            (None, Some(error)) => Ok((self.call, Err(error))),
            _ => Err(ApiError::invalid("either `result` or `error`")),
        }
    }
}

/// A field that is there, even if it is null.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

async fn tool_result(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ToolResultRequest>,
) -> Result<Json<Value>, ApiError> {
    let (call, answer) = request.answer()?;
    let live = state.session(&caller, &id).await?;
    live.answer(&call, AnswerTo::ToolCall(answer))?;
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ComputeRequest {
    /// One expression.
    code: String,
    /// What it is for.
    description: Option<String>,
}

async fn compute(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ComputeRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let description = request.description.unwrap_or_default();
    let computed = live.session.compute(&request.code, &description).await?;
    Ok(Json(serde_json::to_value(&computed).unwrap_or_default()))
}
