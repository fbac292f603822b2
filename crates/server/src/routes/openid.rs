//! Logging in by OpenID Connect: to the provider, and back with a code.

use super::Route;
use super::login::new_login;
use crate::auth::{
    Access, Identity, OpenIdError, Provider, openid_binding, openid_cookie, random_id,
    validate_user_name,
};
use crate::error::ApiError;
use crate::http::Query;
use crate::state::AppState;
use crate::store::{Role, User};
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/openid/begin",
            Access::Public,
            "Send the browser to the OpenID provider",
            begin,
        )
        .query(
            "return_to",
            "the page of this server to go to after the login",
        )
        .answers(303, "the provider's page"),
        Route::new(
            Method::GET,
            crate::auth::CALLBACK_PATH,
            Access::Public,
            "Log in with the code that the OpenID provider gave the browser",
            callback,
        )
        .query("code", "the provider's code")
        .query("state", "which login it belongs to")
        .query("error", "why the provider gave none")
        .answers(303, "the page of this server; a cookie logs the browser in"),
    ]
}

#[derive(Debug, Deserialize)]
struct BeginQuery {
    return_to: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

/// Why a person is back at the login page. The page has a sentence for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginRefusal {
    /// The provider did not let the person in.
    Denied,
    /// The login was begun too long ago, or in another browser.
    Expired,
    /// The provider could not be asked.
    Failed,
    /// The person's name cannot be used here.
    BadName,
    /// A user with this name logs in another way.
    NameTaken,
    /// An administrator has closed the account.
    Disabled,
}

impl LoginRefusal {
    fn code(self) -> &'static str {
        match self {
            LoginRefusal::Denied => "denied",
            LoginRefusal::Expired => "expired",
            LoginRefusal::Failed => "failed",
            LoginRefusal::BadName => "bad_name",
            LoginRefusal::NameTaken => "name_taken",
            LoginRefusal::Disabled => "disabled",
        }
    }
}

async fn begin(
    State(state): State<AppState>,
    Query(query): Query<BeginQuery>,
) -> Result<Response, ApiError> {
    let provider = provider(&state)?;
    let return_to = query.return_to.unwrap_or_default();
    let begun = provider.attempts.begin(&return_to)?;
    let page = provider.login_page(&begun).await.map_err(|error| {
        ApiError::new(StatusCode::BAD_GATEWAY, "openid_failed", error.to_string())
            .hint("try again, or log in with a password; if it stays, tell the operator")
    })?;
    let mut response = redirect(page.as_str())?;
    let cookie = openid_cookie(&state, &begun.binding)?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

async fn callback(
    State(state): State<AppState>,
    headers: HeaderMap,
    Query(query): Query<CallbackQuery>,
) -> Result<Response, ApiError> {
    let provider = provider(&state)?;
    let binding = openid_binding(&headers).unwrap_or_default();
    let attempt = provider
        .attempts
        .take(&query.state.unwrap_or_default(), binding);
    let Some(attempt) = attempt else {
        // Anyone can ask for this, so it is not written down.
        return back_to_login(LoginRefusal::Expired);
    };
    let Some(code) = query.code.filter(|_| query.error.is_none()) else {
        let reason: String = query.error.unwrap_or_default().chars().take(100).collect();
        return refuse(&state, LoginRefusal::Denied, &reason).await;
    };
    let now = state.store().now();
    let identity = match provider.identity(&code, &attempt, now).await {
        Ok(identity) => identity,
        Err(error) => {
            let refusal = match error {
                OpenIdError::NoName(_) => LoginRefusal::BadName,
                OpenIdError::Provider(_) | OpenIdError::Token(_) => LoginRefusal::Failed,
            };
            return refuse(&state, refusal, &error.to_string()).await;
        }
    };
    let user = match user_of(&state, &identity).await? {
        Ok(user) => user,
        Err(refusal) => return refuse(&state, refusal, &identity.name).await,
    };
    state.audit(&user.id, "user.openid_login", None, None).await;
    let mut response = redirect(&attempt.return_to)?;
    let cookie = new_login(&state, &user).await?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// The user of an identity, who is new at the first login. A name alone never leads to an account that exists.
async fn user_of(
    state: &AppState,
    identity: &Identity,
) -> Result<Result<User, LoginRefusal>, ApiError> {
    let store = state.store();
    let known = store.user_of_identity(&identity.issuer, &identity.subject);
    if let Some(user) = known.await? {
        return Ok(if user.disabled {
            Err(LoginRefusal::Disabled)
        } else {
            Ok(user)
        });
    }
    if validate_user_name(&identity.name).is_err() {
        return Ok(Err(LoginRefusal::BadName));
    }
    let id = random_id("u")?;
    let added = store
        .add_user_with_identity(&id, Role::User, identity)
        .await?;
    Ok(added.ok_or(LoginRefusal::NameTaken))
}

fn provider(state: &AppState) -> Result<&Provider, ApiError> {
    state.openid().ok_or_else(|| {
        ApiError::not_found("OpenID provider")
            .hint("the operator names one with `cellblock serve --openid-issuer URL`")
    })
}

/// Back to the login page, which says why. What happened in detail is for the operator: it is in the audit log.
async fn refuse(
    state: &AppState,
    refusal: LoginRefusal,
    detail: &str,
) -> Result<Response, ApiError> {
    let detail = format!("{}: {detail}", refusal.code());
    let _ = state
        .store()
        .add_audit(None, "user.openid_refused", None, Some(detail))
        .await;
    back_to_login(refusal)
}

fn back_to_login(refusal: LoginRefusal) -> Result<Response, ApiError> {
    redirect(&format!("/login#{}", refusal.code()))
}

fn redirect(to: &str) -> Result<Response, ApiError> {
    let location =
        HeaderValue::from_str(to).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response())
}
