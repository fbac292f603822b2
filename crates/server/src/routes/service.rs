//! Health, readiness, counters and the description of the API.

use super::{Route, openapi};
use crate::auth::{Access, Scope};
use crate::error::ApiError;
use crate::metrics::Gauges;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    let public = Access::Public;
    vec![
        Route::new(
            Method::GET,
            "/healthz",
            public,
            "Say that the process lives",
            health,
        ),
        Route::new(
            Method::GET,
            "/readyz",
            public,
            "Say whether requests can be served",
            ready,
        ),
        Route::new(
            Method::GET,
            "/metrics",
            Access::Needs(Scope::Admin),
            "Counters in the text format of Prometheus",
            metrics,
        ),
        Route::new(
            Method::GET,
            "/v1/openapi.json",
            public,
            "This description",
            description,
        ),
        Route::new(
            Method::GET,
            "/v1/server",
            public,
            "Version of the server, and how callers log in",
            server,
        ),
    ]
}

async fn health() -> &'static str {
    "ok\n"
}

async fn ready(State(state): State<AppState>) -> Result<&'static str, ApiError> {
    if state.stop().is_cancelled() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server stops",
        ));
    }
    state.store().ping().await?;
    Ok("ok\n")
}

async fn metrics(State(state): State<AppState>) -> impl IntoResponse {
    let gauges = Gauges {
        live_sessions: state.live().all().len(),
        running_runs: state.runs().running().len(),
        event_readers: state.readers(),
    };
    let mut text = state.metrics().render(gauges);
    if let Some(cluster) = state.cluster() {
        text += &cluster.render_metrics().await;
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

async fn description() -> Json<Value> {
    Json(openapi::document())
}

async fn server(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    let needs_setup = !state.store().has_admin().await?;
    let login = match state.authentication() {
        crate::Authentication::Users => "password",
        crate::Authentication::Header(_) => "proxy",
        crate::Authentication::Off => "none",
    };
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "login": login,
        "openid": state.openid().is_some(),
        "is_cluster": state.cluster().is_some(),
        "needs_setup": needs_setup && login == "password",
    })))
}
