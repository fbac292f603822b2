//! The routes: one table from which the router and the OpenAPI document are made.

mod accounts;
mod archive;
mod cells;
mod chat_branches;
pub(crate) mod chats;
pub(crate) mod completions;
mod evaluations;
mod files;
mod history;
mod keys;
mod login;
mod machine;
pub(crate) mod mcp;
mod nodes;
pub(crate) mod openapi;
mod openid;
mod operations;
mod processes;
mod questions;
mod requests;
mod runs;
mod service;
mod sessions;
mod shares;
mod snapshots;
pub(crate) mod sse;
mod table;
mod tokens;
mod uploads;

pub(crate) use chat_branches::fork_chat;
pub(crate) use chats::new_chat;
pub(crate) use table::{BodyKind, Route};

use crate::e2b;
use crate::error::ApiError;
use crate::http::{add_security_headers, check_request, refuse_compressed_body};
use crate::state::AppState;
use crate::web;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Every route of the API.
pub(crate) fn all() -> Vec<Route> {
    [
        service::routes(),
        login::routes(),
        openid::routes(),
        accounts::routes(),
        tokens::routes(),
        sessions::routes(),
        snapshots::routes(),
        cells::routes(),
        questions::routes(),
        files::routes(),
        archive::routes(),
        processes::routes(),
        operations::routes(),
        chats::routes(),
        chat_branches::routes(),
        shares::routes(),
        evaluations::routes(),
        machine::routes(),
        nodes::routes(),
        completions::routes(),
        mcp::routes(),
        runs::routes(),
        requests::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The router with all checks around it.
pub(crate) fn router(state: &AppState) -> Router {
    let mut paths: BTreeMap<&'static str, axum::routing::MethodRouter<AppState>> = BTreeMap::new();
    for route in all() {
        let path = route.path;
        let handler = route.into_handler(state);
        let merged = match paths.remove(path) {
            Some(others) => others.merge(handler),
            None => handler,
        };
        paths.insert(path, merged);
    }
    let mut router = Router::new();
    for (path, handlers) in paths {
        let handlers = handlers.fallback(|| async {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "unknown_op",
                "this path does not take this method",
            )
        });
        router = router.route(path, handlers);
    }
    router
        .merge(web::router(state))
        .merge(e2b::router(state))
        .merge(crate::jupyter::router(state))
        .merge(crate::librechat::router(state))
        .fallback(|| async { ApiError::not_found("path") })
        .layer(from_fn_with_state(state.clone(), e2b::dispatch))
        .layer(from_fn(|request, next| {
            refuse_compressed_body(request, next, e2b::decompresses_body)
        }))
        .layer(from_fn_with_state(state.clone(), check_request))
        .layer(from_fn_with_state(state.clone(), add_security_headers))
        .layer(from_fn_with_state(state.clone(), count))
        .with_state(state.clone())
}

async fn count(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let metrics = state.metrics();
    metrics.requests.fetch_add(1, Ordering::Relaxed);
    if response.status().is_client_error() {
        metrics.refused.fetch_add(1, Ordering::Relaxed);
    } else if response.status().is_server_error() {
        metrics.failed.fetch_add(1, Ordering::Relaxed);
    }
    response
}
