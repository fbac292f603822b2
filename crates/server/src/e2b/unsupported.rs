//! What E2B offers and this server does not: each path answers 501 with a sentence.

use super::control::authorize_key;
use super::error::E2bError;
use crate::auth::Caller;
use crate::state::AppState;
use axum::extract::{Path, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use serde_json::{Value, json};

const TEMPLATES: &str = "templates are not built here: the environments of this server are its templates (`cellblock env`)";
const VOLUMES: &str = "volumes are not offered: a sandbox has the files of its workspace only";
const SECRETS: &str =
    "secrets are not offered: credentials stay outside of sandboxes, see docs/network.md";

/// The routes.
pub(super) fn router(state: &AppState) -> Router<AppState> {
    let templates = || any(|| async { E2bError::not_offered(TEMPLATES) });
    let volumes = || any(|| async { E2bError::not_offered(VOLUMES) });
    let secrets = || any(|| async { E2bError::not_offered(SECRETS) });
    Router::new()
        .route(
            "/templates",
            get(templates_list).fallback(|| async { E2bError::not_offered(TEMPLATES) }),
        )
        .route(
            "/v2/templates",
            get(templates_list).fallback(|| async { E2bError::not_offered(TEMPLATES) }),
        )
        .route("/v3/templates", templates())
        .route("/templates/tags", templates())
        .route("/templates/aliases/{alias}", get(alias))
        .route("/templates/{id}/{*rest}", templates())
        .route("/v2/templates/{*rest}", templates())
        .route("/volumes", volumes())
        .route("/volumes/{*rest}", volumes())
        .route("/secrets", secrets())
        .route("/secrets/{*rest}", secrets())
        .layer(from_fn_with_state(state.clone(), authorize_key))
}

/// A port of a sandbox on which one of its programs would listen.
pub(super) fn inbound_port(port: u16) -> Response {
    E2bError::not_offered(format!(
        "port {port} of a sandbox cannot be reached from outside: sandboxes of this server have no inbound network"
    ))
    .into_response()
}

/// The templates that every sandbox can be created from.
async fn templates_list(_: State<AppState>, _: Caller) -> Json<Value> {
    let template = |name: &str| {
        json!({
            "templateID": name,
            "aliases": [name],
            "names": [name],
            "buildID": name,
            "cpuCount": super::create::cpu_count(),
            "memoryMB": 1024,
            "diskSizeMB": 1024,
            "public": true,
            "buildStatus": "ready",
        })
    };
    Json(json!([template("base"), template("code-interpreter-v1")]))
}

async fn alias(
    State(state): State<AppState>,
    _: Caller,
    Path(alias): Path<String>,
) -> Result<Json<Value>, E2bError> {
    state.check_template(&alias)?;
    Ok(Json(json!({"templateID": alias, "public": true})))
}
