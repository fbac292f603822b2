//! Users, for administrators, and the audit log.

use super::Route;
use crate::auth::{Access, Caller, Scope, Secret, random_id, validate_user_name};
use crate::error::ApiError;
use crate::http::{JsonBody, Query};
use crate::quotas::Quotas;
use crate::state::AppState;
use crate::store::{Role, User};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// How long a link for a new user can be used: three days.
const LINK_SECONDS: i64 = 3 * 24 * 3600;

pub(super) fn routes() -> Vec<Route> {
    let admin = Access::Needs(Scope::Admin);
    vec![
        Route::new(Method::GET, "/v1/users", admin, "List all users", list),
        Route::new(
            Method::POST,
            "/v1/users",
            admin,
            "Add a user; the answer has the secret of a one-time link for choosing a password",
            add,
        )
        .takes::<NewUser>()
        .answers(201, "the user and the secret"),
        Route::new(
            Method::PATCH,
            "/v1/users/{user}",
            admin,
            "Change role and limits, or lock a user out",
            change,
        )
        .takes::<UserChange>(),
        Route::new(
            Method::POST,
            "/v1/users/{user}/link",
            admin,
            "A one-time link with which a user chooses a new password",
            link,
        )
        .answers(201, "the secret"),
        Route::new(
            Method::DELETE,
            "/v1/users/{user}",
            admin,
            "Remove a user with all tokens, sessions, chats and runs",
            remove,
        ),
        Route::new(
            Method::GET,
            "/v1/audit",
            admin,
            "Who did what, the newest first",
            audit,
        )
        .query("before", "only entries with a lower id")
        .query("limit", "the number of entries, 100 unless told"),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewUser {
    name: String,
    /// `user` unless told.
    role: Option<Role>,
    /// Limits of the user's own.
    quotas: Option<Quotas>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UserChange {
    role: Option<Role>,
    quotas: Option<Quotas>,
    /// Whether the user is locked out.
    disabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct AuditQuery {
    before: Option<i64>,
    limit: Option<i64>,
}

async fn list(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    let users = state.store().users().await?;
    let rows = users.iter().map(|user| {
        let sessions = state.taken_by(&user.id).sessions;
        json!({"user": user, "quotas": state.quotas_of(user), "live_sessions": sessions})
    });
    Ok(Json(json!({"users": rows.collect::<Vec<_>>()})))
}

async fn add(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(request): JsonBody<NewUser>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    validate_user_name(&request.name)?;
    let role = request.role.unwrap_or(Role::User);
    let id = random_id("u")?;
    let added = state
        .store()
        .add_user(&id, &request.name, role, None)
        .await?;
    let mut user =
        added.ok_or_else(|| ApiError::conflict("exists", "there is a user with this name"))?;
    if let Some(quotas) = request.quotas {
        user.quotas = serde_json::to_string(&quotas).ok();
        state.store().update_user(&user).await?;
    }
    let secret = new_link(&state, &user).await?;
    state
        .audit(
            caller.id(),
            "user.add",
            Some(&user.id),
            Some(user.name.clone()),
        )
        .await;
    let answer = json!({"user": user, "secret": secret, "path": format!("/setup#{secret}")});
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn change(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<UserChange>,
) -> Result<Json<Value>, ApiError> {
    let mut user = find(&state, &id).await?;
    let is_self = user.id == caller.id();
    if is_self && (request.disabled == Some(true) || request.role == Some(Role::User)) {
        return Err(ApiError::conflict(
            "own_account",
            "administrators cannot lock themselves out",
        ));
    }
    user.role = request.role.unwrap_or(user.role);
    user.disabled = request.disabled.unwrap_or(user.disabled);
    if let Some(quotas) = request.quotas {
        user.quotas = serde_json::to_string(&quotas).ok();
    }
    state.store().update_user(&user).await?;
    if user.disabled {
        state.end_mcp_of(&user.id).await;
        for live in state.live().of_user(&user.id) {
            state.live().remove(&live.id);
            live.suspend().await;
        }
    }
    state
        .audit(caller.id(), "user.change", Some(&user.id), None)
        .await;
    Ok(Json(
        json!({"user": user, "quotas": state.quotas_of(&user)}),
    ))
}

async fn link(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let user = find(&state, &id).await?;
    let secret = new_link(&state, &user).await?;
    state
        .audit(caller.id(), "user.link", Some(&user.id), None)
        .await;
    Ok((
        StatusCode::CREATED,
        Json(json!({"secret": secret, "path": format!("/setup#{secret}")})),
    ))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let user = find(&state, &id).await?;
    if user.id == caller.id() {
        return Err(ApiError::conflict(
            "own_account",
            "administrators cannot remove themselves",
        ));
    }
    state.end_mcp_of(&user.id).await;
    state.kernels().remove_of_user(&state, &user.id).await;
    for live in state.live().of_user(&user.id) {
        state.live().remove(&live.id);
        live.close().await;
    }
    state.discard_snapshots_of(&user.id).await;
    state.store().remove_user(&user.id).await?;
    state
        .audit(caller.id(), "user.remove", Some(&user.id), Some(user.name))
        .await;
    Ok(Json(json!({})))
}

async fn audit(
    State(state): State<AppState>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<Value>, ApiError> {
    let limit = query.limit.unwrap_or(100).clamp(1, 1_000);
    let entries = state
        .store()
        .audit(query.before.unwrap_or(i64::MAX), limit)
        .await?;
    Ok(Json(json!({"entries": entries})))
}

async fn find(state: &AppState, id: &str) -> Result<User, ApiError> {
    let user = state.store().user(id).await?;
    user.ok_or_else(|| ApiError::not_found("user"))
}

async fn new_link(state: &AppState, user: &User) -> Result<String, ApiError> {
    let secret = Secret::random()?;
    state
        .store()
        .add_link(secret.hash(), user, state.store().now() + LINK_SECONDS)
        .await?;
    Ok(secret.0)
}
