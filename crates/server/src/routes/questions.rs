//! Questions of an editor: what can stand at the cursor, what stands there, whether code is complete.

use super::Route;
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use cellblock_protocol::{Cursor, Detail};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    let read = Access::Needs(Scope::Read);
    vec![
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/complete",
            read,
            "What can stand at a cursor: names, attributes, arguments, modules, keys, files",
            complete,
        )
        .takes::<CursorRequest>(),
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/inspect",
            read,
            "What stands at a cursor: its signature, type and documentation",
            inspect,
        )
        .takes::<InspectRequest>(),
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/is_complete",
            read,
            "Whether code can run as it is, or needs more lines",
            is_complete,
        )
        .takes::<CodeRequest>(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CursorRequest {
    /// The source text. It need not be complete.
    code: String,
    /// The place of the cursor, in code points from the beginning.
    pos: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InspectRequest {
    /// The source text. It need not be complete.
    code: String,
    /// The place of the cursor, in code points from the beginning.
    pos: u64,
    /// 1 for the source text too.
    #[serde(default)]
    detail: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CodeRequest {
    code: String,
}

async fn complete(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<CursorRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let cursor = Cursor::new(request.code, request.pos);
    Ok(Json(json!(live.session.complete(cursor).await?)))
}

async fn inspect(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<InspectRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let detail = match request.detail {
        0 => Detail::Summary,
        1 => Detail::Source,
        _ => return Err(ApiError::invalid("detail: 0 or 1")),
    };
    let cursor = Cursor::new(request.code, request.pos);
    Ok(Json(json!(live.session.inspect_at(cursor, detail).await?)))
}

async fn is_complete(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<CodeRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    Ok(Json(json!(live.session.is_complete(&request.code).await?)))
}
