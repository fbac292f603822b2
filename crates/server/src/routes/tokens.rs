//! API tokens of the caller.

use super::Route;
use crate::auth::{Access, Caller, Scope, Secret, hash_of, random_id};
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::state::AppState;
use crate::store::TokenRow;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Tokens that one user may have.
const MAX_TOKENS: usize = 100;
const MAX_NAME_CHARS: usize = 100;

pub(super) fn routes() -> Vec<Route> {
    let run = Access::Needs(Scope::Run);
    vec![
        Route::new(
            Method::GET,
            "/v1/tokens",
            Access::Needs(Scope::Read),
            "List the caller's API tokens",
            list,
        ),
        Route::new(
            Method::POST,
            "/v1/tokens",
            run,
            "Make an API token; the answer shows it for the only time",
            add,
        )
        .takes::<NewToken>()
        .answers(201, "the token"),
        Route::new(
            Method::DELETE,
            "/v1/tokens/{token}",
            run,
            "Remove an API token",
            remove,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewToken {
    /// What the token is for.
    name: String,
    /// What the token may do; `read` and `run` unless told.
    scopes: Option<Vec<Scope>>,
    /// After how many seconds the token ends; never unless told.
    expires_in: Option<u32>,
}

async fn list(State(state): State<AppState>, caller: Caller) -> Result<Json<Value>, ApiError> {
    let tokens = state.store().tokens(caller.id()).await?;
    Ok(Json(json!({"tokens": tokens})))
}

async fn add(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(request): JsonBody<NewToken>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    // Else a token that leaks could be kept alive for ever.
    if caller.token.is_some() {
        return Err(ApiError::forbidden("a token cannot make tokens").hint("log in with a browser"));
    }
    let name = request.name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err(ApiError::invalid(format!(
            "name: 1 to {MAX_NAME_CHARS} characters"
        )));
    }
    let scopes = request
        .scopes
        .unwrap_or_else(|| vec![Scope::Read, Scope::Run]);
    if scopes.is_empty() {
        return Err(ApiError::invalid(
            "scopes: at least one of read, run and admin",
        ));
    }
    if scopes.contains(&Scope::Admin) && !caller.is_admin() {
        return Err(ApiError::forbidden(
            "the scope `admin` is for administrators",
        ));
    }
    if state.store().tokens(caller.id()).await?.len() >= MAX_TOKENS {
        return Err(ApiError::conflict(
            "too_many",
            format!("there are {MAX_TOKENS} tokens already"),
        )
        .hint("remove one first"));
    }
    let id = random_id("")?;
    let now = state.store().now();
    let text = format!("cb_{id}_{}", Secret::random()?.0);
    let token = TokenRow {
        id: id.clone(),
        user: caller.id().to_owned(),
        name: name.to_owned(),
        hash: hash_of(&text).to_vec(),
        scopes: scopes.iter().map(|scope| scope.name().to_owned()).collect(),
        created_at: now,
        expires_at: request.expires_in.map(|seconds| now + i64::from(seconds)),
        used_at: None,
    };
    state.store().add_token(token.clone()).await?;
    state
        .audit(
            caller.id(),
            "token.add",
            Some(&id),
            Some(token.name.clone()),
        )
        .await;
    let mut answer = serde_json::to_value(&token).unwrap_or_default();
    answer["token"] = text.into();
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if !state.store().remove_token(caller.id(), &id).await? {
        return Err(ApiError::not_found("token"));
    }
    state
        .audit(caller.id(), "token.remove", Some(&id), None)
        .await;
    Ok(Json(json!({})))
}
