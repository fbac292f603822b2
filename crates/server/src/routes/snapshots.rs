//! Snapshots of sessions: listed and forgotten. They are made by the operation `freeze`, and sessions are opened `from` them.

use super::Route;
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/snapshots",
            Access::Needs(Scope::Read),
            "List the snapshots of the caller's sessions",
            list,
        ),
        Route::new(
            Method::DELETE,
            "/v1/snapshots/{snapshot}",
            Access::Needs(Scope::Run),
            "Forget a snapshot; sessions that began with it go on",
            remove,
        ),
    ]
}

async fn list(State(state): State<AppState>, caller: Caller) -> Json<Value> {
    let snapshots = state.session_snapshots(&caller);
    let snapshots = snapshots.iter().map(|kept| {
        json!({
            "id": kept.id,
            "name": kept.name,
            "session": kept.of,
            "cells": kept.last_cell,
            "memory": kept.memory,
        })
    });
    Json(json!({"snapshots": snapshots.collect::<Vec<Value>>()}))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    state.discard_snapshot(&caller, &id).await?;
    state
        .audit(caller.id(), "snapshot.remove", Some(&id), None)
        .await;
    Ok(Json(json!({})))
}
