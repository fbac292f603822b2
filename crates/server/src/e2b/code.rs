//! The code interpreter of a sandbox: cells and contexts. Its errors are plain text.

use super::contexts::{CodeContext, Language};
use super::error::E2bError;
use super::execute;
use super::javascript;
use super::lookup::Admitted;
use super::sandbox::{Sandbox, lock};
use crate::http::checked_values;
use crate::state::AppState;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest request.
const MAX_BODY_BYTES: usize = 17 << 20;

/// The routes of the code interpreter.
pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/health", get(health))
        .route("/execute", post(run))
        .route("/contexts", get(list).post(create))
        .route("/contexts/{id}", delete(remove))
        .route("/contexts/{id}/restart", post(restart))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .fallback(|| async { E2bError::not_found("the code interpreter has no such path") })
}

/// An error of the code interpreter: the sentence alone. A sandbox that is gone is told by the proxy in front of it, as JSON.
pub(super) struct CodeError(pub(super) E2bError);

impl IntoResponse for CodeError {
    fn into_response(self) -> Response {
        match self.0.status {
            StatusCode::BAD_GATEWAY => self.0.into_response(),
            status => (status, self.0.message).into_response(),
        }
    }
}

impl<E: Into<E2bError>> From<E> for CodeError {
    fn from(error: E) -> CodeError {
        CodeError(error.into())
    }
}

async fn health(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<&'static str, CodeError> {
    state.check_health(&headers).await?;
    Ok("OK")
}

#[derive(Debug, Deserialize)]
struct ExecuteRequest {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

async fn run(
    State(state): State<AppState>,
    Admitted { sandbox, body, .. }: Admitted<CodeError>,
) -> Result<Response, CodeError> {
    let request: ExecuteRequest = parse(&body)?;
    let context = match (&request.context_id, &request.language) {
        (Some(_), Some(_)) => {
            let message = "Only one of context_id or language can be provided";
            return Err(E2bError::bad_request(message).into());
        }
        (Some(id), None) => sandbox.context(id)?,
        (None, language) => {
            let language = Language::named(language.as_deref())?;
            sandbox.check_offered(language).await?;
            sandbox.default_context(language)
        }
    };
    let cell = execute::Execution {
        code: request.code,
        variables: request.env_vars.unwrap_or_default(),
    };
    Ok(execute::run(&state, sandbox, context, cell).await?)
}

async fn list(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Vec<Value>>, CodeError> {
    let sandbox = state.sandbox_of(&headers).await?;
    if sandbox.offers_javascript().await {
        // Clients expect it among the contexts of a new sandbox.
        sandbox.default_context(Language::JavaScript);
    }
    let contexts = lock(&sandbox.contexts);
    Ok(Json(
        contexts.iter().map(|context| context.json()).collect(),
    ))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContextRequest {
    cwd: Option<String>,
    language: Option<String>,
}

async fn create(
    State(state): State<AppState>,
    Admitted { sandbox, body, .. }: Admitted<CodeError>,
) -> Result<Json<Value>, CodeError> {
    let request: ContextRequest = parse(&body)?;
    let language = Language::named(request.language.as_deref())?;
    sandbox.check_offered(language).await?;
    let context = CodeContext::create(&state, &sandbox, language, request.cwd).await?;
    Ok(Json(context.json()))
}

async fn remove(
    State(state): State<AppState>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<StatusCode, CodeError> {
    let sandbox = state.sandbox_of(&headers).await?;
    let context = sandbox.context(&id)?;
    lock(&sandbox.contexts).retain(|other| other.id != context.id);
    context.remove(&state, &sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(
    State(state): State<AppState>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<StatusCode, CodeError> {
    let sandbox = state.sandbox_of(&headers).await?;
    sandbox.context(&id)?.restart(&sandbox).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, E2bError> {
    let body = if body.is_empty() { b"{}" } else { body };
    checked_values(body)?;
    serde_json::from_slice(body)
        .map_err(|error| E2bError::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))
}

impl Sandbox {
    /// The context with this id.
    fn context(&self, id: &str) -> Result<Arc<CodeContext>, E2bError> {
        let contexts = lock(&self.contexts);
        let found = contexts.iter().find(|context| context.id == id).cloned();
        found.ok_or_else(|| {
            let shown: String = id.chars().take(64).collect();
            E2bError::not_found(format!("Context {shown} not found"))
        })
    }

    /// The context for cells that name none.
    fn default_context(&self, language: Language) -> Arc<CodeContext> {
        let id = CodeContext::default_id(&self.live, language);
        let mut contexts = lock(&self.contexts);
        if let Some(found) = contexts.iter().find(|context| context.id == id) {
            return Arc::clone(found);
        }
        let context = CodeContext::default_for(&self.live, language);
        // Before those that were made by a request: clients take the last of the list for the newest.
        let place = contexts.len().min(1);
        contexts.insert(place, Arc::clone(&context));
        context
    }

    /// Refuses a language that this sandbox has no interpreter for.
    async fn check_offered(&self, language: Language) -> Result<(), E2bError> {
        if language != Language::JavaScript || self.offers_javascript().await {
            return Ok(());
        }
        Err(E2bError::not_offered(
            "the language `javascript` is not offered: this server has no `node`; cells are python or bash",
        ))
    }

    /// Whether the sandbox has `node`.
    async fn offers_javascript(&self) -> bool {
        let look = || javascript::is_there(&self.live.session);
        *self.has_node.get_or_init(look).await
    }
}
