//! envd, the service inside a sandbox: files over HTTP, and the methods of its two Connect services.

use super::connect::{RpcCode, RpcError, failed_stream, stream_request, unary_request};
use super::error::E2bError;
use super::lookup::{Admitted, check_user};
use super::sandbox::Sandbox;
use super::{filesystem, http_files, process, process_stream, watch};
use crate::http::HeldBytes;
use crate::state::AppState;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// The longest message of a call.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The routes of envd.
pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/health", get(health))
        .route("/envs", get(variables))
        .route("/metrics", get(super::metrics::metrics_inside))
        .route("/files", get(http_files::read).post(http_files::write))
        .route("/{service}/{method}", post(call))
        .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
        .fallback(|| async { E2bError::not_found("envd has no such path") })
}

/// File URLs that name no sandbox: the one whose access token made the signature is meant.
pub(super) fn signed_files_router() -> Router<AppState> {
    Router::new().route(
        "/files",
        get(http_files::read_signed).post(http_files::write_signed),
    )
}

async fn health(State(state): State<AppState>, headers: HeaderMap) -> Result<StatusCode, E2bError> {
    state.check_health(&headers).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn variables(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Value>, E2bError> {
    let sandbox = state.sandbox_of(&headers).await?;
    Ok(Json(json!(sandbox.settings.variables)))
}

/// A call of a Connect service.
async fn call(
    Path((service, method)): Path<(String, String)>,
    headers: HeaderMap,
    // Errors before the call begins are those of the proxy in front of envd.
    Admitted { sandbox, body, .. }: Admitted<E2bError>,
) -> Response {
    let call = Call {
        sandbox,
        headers,
        body,
    };
    if let Err(error) = check_user(&call.headers) {
        return call.refuse(error.into()).await;
    }
    match (service.as_str(), method.as_str()) {
        ("process.Process", method) => call.process(method).await,
        ("filesystem.Filesystem", method) => call.filesystem(method).await,
        _ => call.refuse(unknown_method(&service, &method)).await,
    }
}

fn unknown_method(service: &str, method: &str) -> RpcError {
    let shown = |text: &str| text.chars().take(64).collect::<String>();
    RpcError::new(
        RpcCode::Unimplemented,
        format!("there is no method {}/{}", shown(service), shown(method)),
    )
}

/// A call that was let in.
struct Call {
    sandbox: Arc<Sandbox>,
    headers: HeaderMap,
    body: HeldBytes,
}

impl Call {
    async fn process(self, method: &str) -> Response {
        match method {
            "Start" => match self.stream() {
                Ok(request) => process_stream::start(&self.sandbox, &self.headers, request).await,
                Err(error) => failed_stream(error).await,
            },
            "Connect" => match self.stream() {
                Ok(request) => process_stream::connect(&self.sandbox, &self.headers, request).await,
                Err(error) => failed_stream(error).await,
            },
            "StreamInput" => self.answer(process::stream_input(&self.sandbox, &self.body).await),
            "List" => self.answer(Ok(process::list(&self.sandbox))),
            "SendInput" => self.unary(process::send_input).await,
            "SendSignal" => self.unary(process::send_signal).await,
            "CloseStdin" => self.unary(process::close_stdin).await,
            "Update" => self.unary(process::update).await,
            other => self.refuse(unknown_method("process.Process", other)).await,
        }
    }

    async fn filesystem(self, method: &str) -> Response {
        match method {
            "Stat" => self.unary(filesystem::stat).await,
            "ListDir" => self.unary(filesystem::list_dir).await,
            "MakeDir" => self.unary(filesystem::make_dir).await,
            "Move" => self.unary(filesystem::move_entry).await,
            "Remove" => self.unary(filesystem::remove).await,
            "CreateWatcher" => self.unary(watch::create_watcher).await,
            "GetWatcherEvents" => self.unary(watch::watcher_events).await,
            "RemoveWatcher" => self.unary(watch::remove_watcher).await,
            "WatchDir" => match self.stream() {
                Ok(request) => watch::watch_dir(&self.sandbox, &self.headers, request).await,
                Err(error) => failed_stream(error).await,
            },
            other => {
                self.refuse(unknown_method("filesystem.Filesystem", other))
                    .await
            }
        }
    }

    fn stream<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        stream_request(&self.headers, &self.body)
    }

    async fn unary<T: DeserializeOwned>(
        &self,
        method: impl AsyncFnOnce(&Sandbox, T) -> Result<Value, RpcError>,
    ) -> Response {
        let request = unary_request(&self.headers, &self.body);
        let outcome = match request {
            Ok(request) => method(&self.sandbox, request).await,
            Err(error) => Err(error),
        };
        self.answer(outcome)
    }

    fn answer(&self, outcome: Result<Value, RpcError>) -> Response {
        match outcome {
            Ok(answer) => Json(answer).into_response(),
            Err(error) => error.into_response(),
        }
    }

    /// The error in the form that the kind of the call needs.
    async fn refuse(&self, error: RpcError) -> Response {
        match stream_request::<Value>(&self.headers, &self.body) {
            Ok(_) => failed_stream(error).await,
            Err(_) => error.into_response(),
        }
    }
}
