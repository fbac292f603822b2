//! The API of a Jupyter server: kernels by REST and WebSocket, as JupyterLab's gateway client and Open WebUI ask for them.

mod channels;
mod frames;
mod kernels;

use crate::auth::{Access, Caller, Scope, authorize, mark_programs};
use crate::error::ApiError;
use crate::state::AppState;
use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use kernels::KERNEL_NAME;

pub(crate) use kernels::Kernels;
use serde_json::{Value, json};

/// The routes of this API.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let check = |scope| from_fn_with_state((state.clone(), Access::Needs(scope)), authorize);
    let reading = Router::new()
        .route("/api", get(version))
        .route("/api/kernelspecs", get(kernelspecs))
        .route("/api/kernelspecs/{name}", get(kernelspec))
        .layer(check(Scope::Read));
    let running = Router::new()
        .route("/api/kernels", get(list).post(start))
        .route("/api/kernels/{id}", get(show).delete(remove))
        .route("/api/kernels/{id}/interrupt", post(interrupt))
        .route("/api/kernels/{id}/restart", post(restart))
        .route("/api/kernels/{id}/channels", get(channels::connect))
        .layer(check(Scope::Run));
    reading.merge(running).layer(from_fn(take_credentials))
}

/// Takes the token of the query for that of the header: clients of this API send either.
async fn take_credentials(mut request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let token = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="))
        .filter(|token| !token.is_empty())
        .and_then(|token| HeaderValue::from_str(&format!("token {token}")).ok());
    if let Some(token) = token {
        let headers = request.headers_mut();
        headers.entry(AUTHORIZATION).or_insert(token);
    }
    mark_programs(request, next).await
}

async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

fn spec() -> Value {
    json!({
        "name": KERNEL_NAME,
        "resources": {},
        "spec": {
            "argv": [],
            "env": {},
            "display_name": "Cellblock (Python 3)",
            "language": "python",
            "interrupt_mode": "message",
            "metadata": {},
        },
    })
}

async fn kernelspecs() -> Json<Value> {
    Json(json!({"default": KERNEL_NAME, "kernelspecs": {KERNEL_NAME: spec()}}))
}

async fn kernelspec(Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    match name == KERNEL_NAME {
        true => Ok(Json(spec())),
        false => Err(ApiError::not_found("kernelspec")),
    }
}

async fn list(State(state): State<AppState>, caller: Caller) -> Json<Value> {
    let models: Vec<Value> = state
        .kernels()
        .of_user(caller.id())
        .iter()
        .map(|kernel| kernel.model())
        .collect();
    Json(json!(models))
}

async fn start(State(state): State<AppState>, caller: Caller) -> Result<Response, ApiError> {
    let kernel = state.kernels().start(&state, caller).await?;
    let location = format!("/api/kernels/{}", kernel.id);
    let headers = [(LOCATION, location)];
    Ok((StatusCode::CREATED, headers, Json(kernel.model())).into_response())
}

async fn show(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(state.kernels().get(caller.id(), &id)?.model()))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    state.kernels().get(caller.id(), &id)?;
    state.kernels().remove(&state, &id).await;
    Ok(StatusCode::NO_CONTENT)
}

async fn interrupt(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    state.kernels().get(caller.id(), &id)?.interrupt();
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let kernel = state.kernels().get(caller.id(), &id)?;
    kernel.restart(&state).await;
    Ok(Json(kernel.model()))
}
