//! The first administrator, logging in and out, and one's own account.

use super::Route;
use crate::auth::{
    Access, Caller, Scope, Secret, check_password, hash_of, hash_password, login_cookie,
    login_hash, remove_cookie, validate_password, validate_user_name,
};
use crate::auth::{LOGIN_SECONDS, random_id};
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::state::AppState;
use crate::store::{Role, User};
use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/setup",
            Access::Public,
            "Make an account with the secret of a one-time link: the first administrator, or a new password",
            setup,
        )
        .takes::<SetupRequest>()
        .answers(200, "the user; a cookie logs the browser in"),
        Route::new(Method::POST, "/v1/login", Access::Public, "Log in with name and password", login)
            .takes::<LoginRequest>()
            .answers(200, "the user; a cookie logs the browser in"),
        Route::new(
            Method::POST,
            "/v1/enter",
            Access::Public,
            "Enter the demonstration with the secret of its link",
            enter,
        )
        .takes::<EnterRequest>()
        .answers(200, "the user and the first page; a cookie logs the browser in"),
        Route::new(Method::POST, "/v1/logout", Access::Public, "End this login", logout),
        Route::new(
            Method::GET,
            "/v1/me",
            Access::Needs(Scope::Read),
            "The user, the user's limits and what was used today",
            me,
        ),
        Route::new(
            Method::PUT,
            "/v1/me/password",
            Access::Needs(Scope::Run),
            "Change the password; all other logins end",
            change_password,
        )
        .takes::<PasswordRequest>(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetupRequest {
    /// The secret of the link.
    secret: String,
    /// The name of the new administrator. Not for a link that was made for a user.
    name: Option<String>,
    /// The password: at least 10 characters.
    password: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoginRequest {
    name: String,
    password: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PasswordRequest {
    /// The password until now.
    old: String,
    /// The new one: at least 10 characters.
    new: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EnterRequest {
    /// The secret of the link that `cellblock serve --demo` printed.
    secret: String,
}

async fn setup(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<SetupRequest>,
) -> Result<Response, ApiError> {
    let wrong = || {
        ApiError::unauthenticated("the link was used already or has expired")
            .hint("start the server again for a new link, or ask an administrator for one")
    };
    validate_password(&request.password)?;
    let name = request.name.as_deref().unwrap_or("admin");
    validate_user_name(name)?;
    let hash = hash_of(&request.secret);
    // Looked at before the slow hash, taken after it: a bad password must not use the link up.
    if !state.store().has_link(hash).await? {
        return Err(wrong());
    }
    let password = hash_password(&request.password).await?;
    let user = match state.store().take_link(hash).await?.ok_or_else(wrong)? {
        Some(id) => {
            state.store().set_password(&id, password).await?;
            state.store().user(&id).await?.ok_or_else(wrong)?
        }
        None => {
            let id = random_id("u")?;
            let added = state
                .store()
                .add_user(&id, name, Role::Admin, Some(password))
                .await?;
            added.ok_or_else(|| ApiError::conflict("exists", "there is a user with this name"))?
        }
    };
    state
        .audit(&user.id, "user.setup", Some(&user.id), None)
        .await;
    logged_in(&state, &user).await
}

async fn login(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<LoginRequest>,
) -> Result<Response, ApiError> {
    state.tries().begin(&request.name)?;
    let user = state.store().user_named(&request.name).await?;
    let user = user.filter(|user| !user.disabled);
    let hash = match &user {
        Some(user) => state.store().password_of(&user.id).await?,
        None => None,
    };
    let is_right = check_password(&request.password, hash).await?;
    let Some(user) = user.filter(|_| is_right) else {
        return Err(ApiError::new(
            axum::http::StatusCode::UNAUTHORIZED,
            "wrong_password",
            "the name or the password is wrong",
        ));
    };
    state.tries().succeeded(&request.name);
    state.audit(&user.id, "user.login", None, None).await;
    logged_in(&state, &user).await
}

async fn enter(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<EnterRequest>,
) -> Result<Response, ApiError> {
    let entrance = state
        .entrance()
        .filter(|entrance| entrance.opens_with(&request.secret));
    let entrance = entrance.ok_or_else(|| {
        ApiError::unauthenticated("this link leads nowhere")
            .hint("use the link that `cellblock serve --demo` printed when it started")
    })?;
    state
        .audit(&entrance.user.id, "user.enter", None, None)
        .await;
    let body = json!({"user": entrance.user, "page": entrance.page});
    logged_in_with(&state, &entrance.user, body).await
}

/// A new login with a secret of its own: whatever cookie the browser had before is of no use.
async fn logged_in(state: &AppState, user: &User) -> Result<Response, ApiError> {
    logged_in_with(state, user, json!({"user": user})).await
}

async fn logged_in_with(state: &AppState, user: &User, body: Value) -> Result<Response, ApiError> {
    let mut response = Json(body).into_response();
    let cookie = new_login(state, user).await?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// Adds a login of a user. Returns the header that keeps it in the browser.
pub(super) async fn new_login(state: &AppState, user: &User) -> Result<HeaderValue, ApiError> {
    let secret = Secret::random()?;
    let expires_at = state.store().now() + LOGIN_SECONDS;
    state
        .store()
        .add_login(secret.hash(), &user.id, expires_at)
        .await?;
    login_cookie(state, &secret.0)
}

async fn logout(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, ApiError> {
    if let Some(hash) = login_hash(&headers) {
        state.store().remove_login(hash).await?;
    }
    let mut response = Json(json!({})).into_response();
    response
        .headers_mut()
        .insert(SET_COOKIE, remove_cookie(&state)?);
    Ok(response)
}

async fn me(State(state): State<AppState>, caller: Caller) -> Result<Json<Value>, ApiError> {
    let used = state.store().usage_today(caller.id()).await?;
    let taken = state.taken_by(caller.id());
    Ok(Json(json!({
        "user": caller.user.as_ref(),
        "quotas": state.quotas_of(&caller.user),
        "used": {"sessions": taken.sessions, "memory": taken.memory, "today": used},
    })))
}

async fn change_password(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(request): JsonBody<PasswordRequest>,
) -> Result<Response, ApiError> {
    if caller.token.is_some() {
        return Err(ApiError::forbidden("a token cannot change the password"));
    }
    let name = &caller.user.name;
    validate_password(&request.new)?;
    state.tries().begin(name)?;
    let hash = state.store().password_of(caller.id()).await?;
    if !check_password(&request.old, hash).await? {
        return Err(ApiError::forbidden("the old password is wrong"));
    }
    state.tries().succeeded(name);
    let password = hash_password(&request.new).await?;
    state.store().set_password(caller.id(), password).await?;
    state.audit(caller.id(), "user.password", None, None).await;
    logged_in(&state, &caller.user).await
}
