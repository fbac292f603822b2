//! The machine and what lives on it, for administrators.

use super::Route;
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use cellblock_session::{Probe, Verdict};
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    let admin = Access::Needs(Scope::Admin);
    vec![
        Route::new(
            Method::GET,
            "/v1/machine",
            admin,
            "What the machine offers: walls, Python, packages, environments",
            machine,
        ),
        Route::new(
            Method::GET,
            "/v1/live",
            admin,
            "The users with live sessions, and what these may take; not what is in them",
            live,
        ),
        Route::new(
            Method::DELETE,
            "/v1/users/{user}/live",
            admin,
            "End the live sessions of a user; they come back from their journals",
            end,
        ),
    ]
}

async fn machine(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    let probe = tokio::task::spawn_blocking(Probe::run).await;
    let probe = probe.map_err(|error| ApiError::internal(error.to_string()))?;
    let walls = match &probe {
        Ok(probe) => probe
            .verdicts()
            .map(|(mechanism, verdict)| match verdict {
                Verdict::Works { version } => {
                    json!({"name": mechanism.name(), "works": true, "version": version})
                }
                Verdict::Fails(why) => json!({
                    "name": mechanism.name(), "works": false, "why": why, "remedy": mechanism.remedy(),
                }),
            })
            .collect::<Vec<Value>>(),
        Err(error) => vec![json!({"name": "probe", "works": false, "why": error.to_string()})],
    };
    let environment = state.host().environment();
    let packages = environment
        .packages
        .iter()
        .map(|package| json!({"name": package.name, "version": package.version}));
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "walls": walls,
        "python": environment.interpreter.version.to_string(),
        "packages": packages.collect::<Vec<Value>>(),
        "environments": environments(&state).await?,
        "readers": state.readers(),
    })))
}

/// What `cellblock env list` shows, without paths of the server.
async fn environments(state: &AppState) -> Result<Vec<Value>, ApiError> {
    let host = state.host().clone();
    let stored = tokio::task::spawn_blocking(move || host.stored_environments()).await;
    let stored = stored.map_err(|error| ApiError::internal(error.to_string()))?;
    let told = stored.iter().map(|stored| {
        json!({
            "id": stored.id, "kind": stored.kind, "names": stored.names, "python": stored.python.to_string(),
            "requirements": stored.requirements, "packages": stored.packages.len(), "bytes": stored.bytes,
            "made_at": stored.made, "used_at": stored.used, "in_use": stored.in_use,
        })
    });
    Ok(told.collect())
}

async fn live(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    let mut users = Vec::new();
    for user in state.users_with_sessions() {
        let taken = state.taken_by(&user);
        let live = state.live().of_user(&user);
        let cells: usize = live.iter().map(|live| live.queued()).sum();
        let name = state.store().user(&user).await?.map(|user| user.name);
        users.push(json!({
            "user": user, "name": name, "sessions": taken.sessions, "memory": taken.memory,
            "cells": cells, "runs": state.runs().running_of(&user),
        }));
    }
    Ok(Json(json!({"users": users})))
}

async fn end(
    State(state): State<AppState>,
    caller: Caller,
    Path(user): Path<String>,
) -> Result<Json<Value>, ApiError> {
    state.end_mcp_of(&user).await;
    let sessions = state.live().of_user(&user);
    for live in &sessions {
        state.live().remove(&live.id);
        live.suspend().await;
    }
    state
        .audit(caller.id(), "user.end_sessions", Some(&user), None)
        .await;
    Ok(Json(json!({"ended": sessions.len()})))
}
