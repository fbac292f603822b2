//! The requests of a run to the model: every prompt and observation as it was sent.

use super::Route;
use super::runs::{find, stored};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use cellblock_agent::StoredRequest;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    let read = Access::Needs(Scope::Read);
    vec![
        Route::new(
            Method::GET,
            "/v1/runs/{run}/requests",
            read,
            "List the requests of a run to the model",
            list,
        )
        .answers(200, "step, tokens and the number of messages of each"),
        Route::new(
            Method::GET,
            "/v1/runs/{run}/requests/{request}",
            read,
            "A request of a run to the model, with every message as it was sent",
            describe,
        )
        .answers(
            200,
            "messages, tools and options; secrets and the bytes of pictures are left out",
        ),
    ]
}

async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Path(run): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &run).await?;
    let requests = stored(&state, &row).await?.requests;
    let requests = requests.iter().enumerate();
    let requests: Vec<Value> = requests
        .map(|(index, request)| summary(index + 1, request))
        .collect();
    Ok(Json(json!({"requests": requests})))
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path((run, number)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &run).await?;
    let requests = stored(&state, &row).await?.requests;
    let index = number.parse().ok().and_then(|n: usize| n.checked_sub(1));
    let request = index.and_then(|index| requests.get(index).map(|found| (index, found)));
    let (index, request) = request.ok_or_else(|| ApiError::not_found("request"))?;
    let mut json = summary(index + 1, request);
    json["messages"] = json!(request.messages);
    json["tools"] = json!(request.tools);
    json["options"] = json!(request.options);
    Ok(Json(json))
}

fn summary(number: usize, request: &StoredRequest) -> Value {
    json!({
        "request": number,
        "at": request.at,
        "step": request.step,
        "tokens": request.tokens,
        "template": request.template,
        "message_count": request.messages.len(),
        "first_new": request.first_new,
    })
}
