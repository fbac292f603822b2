//! Reports of evaluations: kept, listed and compared.

use super::{BodyKind, Route};
use crate::auth::{Access, Caller, Scope, random_id};
use crate::error::ApiError;
use crate::http::{JsonBody, Query};
use crate::state::AppState;
use crate::store::EvaluationRow;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use cellblock_eval::{EvalReport, TaskChange};
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest report.
const MAX_REPORT_BYTES: usize = 16 << 20;

pub(super) fn routes() -> Vec<Route> {
    let (read, run) = (Access::Needs(Scope::Read), Access::Needs(Scope::Run));
    vec![
        Route::new(
            Method::POST,
            "/v1/evaluations",
            run,
            "Keep the report of an evaluation, as `cellblock eval --out FILE` writes it",
            add,
        )
        .takes_kind(BodyKind::Object("a report of `cellblock eval`"))
        .max_body_bytes(MAX_REPORT_BYTES)
        .answers(201, "the evaluation"),
        Route::new(
            Method::GET,
            "/v1/evaluations",
            read,
            "List the caller's evaluations with their scores, the newest first",
            list,
        ),
        Route::new(
            Method::GET,
            "/v1/evaluations/{evaluation}",
            read,
            "The report of an evaluation",
            describe,
        ),
        Route::new(
            Method::DELETE,
            "/v1/evaluations/{evaluation}",
            run,
            "Remove an evaluation",
            remove,
        ),
        Route::new(
            Method::GET,
            "/v1/evaluations/{evaluation}/compare",
            read,
            "What changed since an earlier evaluation, task by task",
            compare,
        )
        .query("with", "the id of the earlier evaluation"),
    ]
}

async fn add(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(report): JsonBody<EvalReport>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let format = serde_json::to_value(report.format).unwrap_or_default();
    let row = EvaluationRow {
        id: random_id("e")?,
        user: caller.id().to_owned(),
        suite: report.suite.clone(),
        model: report.model.clone(),
        format: format.as_str().map(str::to_owned),
        score: report.totals.score,
        passed: count(report.totals.passed),
        tasks: count(report.totals.tasks),
        date: report.date.clone(),
        created_at: state.store().now(),
    };
    let text =
        serde_json::to_string(&report).map_err(|error| ApiError::internal(error.to_string()))?;
    state.store().add_evaluation(row.clone(), text).await?;
    Ok((StatusCode::CREATED, Json(json!(row))))
}

async fn list(State(state): State<AppState>, caller: Caller) -> Result<Json<Value>, ApiError> {
    let rows = state.store().evaluations(caller.id()).await?;
    Ok(Json(json!({"evaluations": rows})))
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!(find(&state, &caller, &id).await?)))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    match state.store().remove_evaluation(caller.id(), &id).await? {
        true => Ok(Json(json!({}))),
        false => Err(ApiError::not_found("evaluation")),
    }
}

#[derive(Debug, Deserialize)]
struct CompareQuery {
    with: Option<String>,
}

async fn compare(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<CompareQuery>,
) -> Result<Json<Value>, ApiError> {
    let report = find(&state, &caller, &id).await?;
    let with = query
        .with
        .ok_or_else(|| ApiError::invalid("with: the id of an earlier evaluation"))?;
    let earlier = find(&state, &caller, &with).await?;
    let found = report.compare_with(&earlier);
    let changes = |all: &[TaskChange]| -> Vec<Value> {
        all.iter()
            .map(|change| json!({"task": change.task, "problems": change.problems}))
            .collect()
    };
    Ok(Json(json!({
        "score_before": found.score_before, "score_now": found.score_now,
        "regressions": changes(&found.regressions), "improvements": changes(&found.improvements),
        "added": found.added, "removed": found.removed,
    })))
}

async fn find(state: &AppState, caller: &Caller, id: &str) -> Result<EvalReport, ApiError> {
    let text = state.store().evaluation_report(caller.id(), id).await?;
    let text = text.ok_or_else(|| ApiError::not_found("evaluation"))?;
    serde_json::from_str(&text).map_err(|error| ApiError::internal(error.to_string()))
}
