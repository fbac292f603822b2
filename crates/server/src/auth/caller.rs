//! The caller of a request, and what that caller may do.

use super::{Authentication, hash_of};
use crate::cluster::{Peer, peer_user};
use crate::error::ApiError;
use crate::http::changes_state;
use crate::state::AppState;
use crate::store::{Role, TokenRow, User};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// How long a login of a browser lasts: 14 days.
pub(crate) const LOGIN_SECONDS: i64 = 14 * 24 * 3600;

/// What an API token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// Read what belongs to its user.
    Read,
    /// Change what belongs to its user: open sessions, run cells, ask models.
    Run,
    /// Manage users, where its user is an administrator.
    Admin,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Admin => "admin",
        }
    }
}

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone may ask.
    Public,
    /// A caller who may do this.
    Needs(Scope),
}

/// The user who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: Arc<User>,
    /// The token, where the request carries one.
    pub(crate) token: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, ApiError> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| ApiError::unauthenticated("this needs a login"))
    }
}

impl Caller {
    /// Whether the caller manages the server.
    pub(crate) fn is_admin(&self) -> bool {
        self.user.role == Role::Admin
    }

    /// The id of the user.
    pub(crate) fn id(&self) -> &str {
        &self.user.id
    }
}

/// Finds the caller of a request, and refuses a caller that may not use the route.
pub(crate) async fn authorize(
    State((state, access)): State<(AppState, Access)>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let found = identify(&state, request.headers()).await;
    // An old token in a header must not keep anyone from logging in.
    let found = match access {
        Access::Public => found.unwrap_or_default(),
        Access::Needs(_) => found?,
    };
    if let Access::Needs(scope) = access {
        let Some(found) = &found else {
            return Err(ApiError::unauthenticated("this needs a login or a token"));
        };
        found.check(scope)?;
    }
    if let Some(found) = found {
        if found.is_peer {
            request.extensions_mut().insert(Peer);
        }
        // A browser sends a cookie by itself, also for a foreign page; this header it does not.
        let is_ambient = found.token.is_none();
        let headers = request.headers();
        let is_meant = headers.contains_key("x-cellblock") || token_text(headers).is_some();
        if is_ambient && changes_state(request.method()) && !is_meant {
            return Err(
                ApiError::forbidden("the header `X-Cellblock: 1` is missing")
                    .hint("send it with every request that changes something, or use an API token"),
            );
        }
        request.extensions_mut().insert(Caller {
            user: Arc::new(found.user),
            token: found.token.map(|token| token.id),
        });
    }
    Ok(next.run(request).await)
}

/// Marks requests of programs as meant, for compatible APIs whose clients do not know the header of this server.
pub(crate) async fn mark_programs(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    // A browser adds a cookie or an origin to what a foreign page sends. A request with neither comes from a program.
    if !headers.contains_key(COOKIE) && !headers.contains_key(ORIGIN) {
        headers.insert("x-cellblock", HeaderValue::from_static("1"));
    }
    next.run(request).await
}

/// A user that was found, and the token by which.
struct Identified {
    user: User,
    token: Option<TokenRow>,
    /// Whether another node of the cluster sent the request, for this user.
    is_peer: bool,
}

impl Identified {
    fn check(&self, scope: Scope) -> Result<(), ApiError> {
        if scope == Scope::Admin && self.user.role != Role::Admin {
            return Err(ApiError::forbidden("this is for administrators"));
        }
        let Some(token) = &self.token else {
            return Ok(());
        };
        // A token that may run things may look at them too.
        let includes = |held: &String| match scope {
            Scope::Read => held == "read" || held == "run",
            other => held == other.name(),
        };
        if token.scopes.iter().any(includes) {
            return Ok(());
        }
        Err(ApiError::forbidden(format!(
            "the token `{}` has no scope `{}`",
            token.name,
            scope.name()
        )))
    }
}

async fn identify(state: &AppState, headers: &HeaderMap) -> Result<Option<Identified>, ApiError> {
    let found = |user| Identified {
        user,
        token: None,
        is_peer: false,
    };
    if let Some(user) = peer_user(state, headers).await? {
        let is_peer = true;
        return Ok(Some(Identified {
            is_peer,
            ..found(user)
        }));
    }
    if *state.authentication() == Authentication::Off {
        return Ok(Some(found(state.local_user().await?)));
    }
    if let Some(text) = token_text(headers) {
        return by_token(state, text).await.map(Some);
    }
    let user = match state.authentication() {
        Authentication::Header(name) => match named_by_proxy(headers, name)? {
            Some(name) => Some(state.proxied_user(&name).await?),
            None => None,
        },
        _ => match login_hash(headers) {
            Some(hash) => state.store().user_of_login(hash).await?,
            None => None,
        },
    };
    Ok(user.filter(|user| !user.disabled).map(found))
}

/// The user that the proxy named. Two values mean that the caller sent one of them.
fn named_by_proxy(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().and_then(|value| value.to_str().ok());
    if values.next().is_some() {
        return Err(ApiError::unauthenticated(format!(
            "the header {name} came twice"
        )));
    }
    Ok(value.filter(|name| !name.is_empty()).map(str::to_owned))
}

async fn by_token(state: &AppState, text: &str) -> Result<Identified, ApiError> {
    let wrong = || ApiError::unauthenticated("the token is unknown, has expired or was removed");
    let id = text
        .strip_prefix("cb_")
        .and_then(|rest| rest.split_once('_'))
        .map(|(id, _)| id)
        .ok_or_else(wrong)?;
    // One question to the thread of the store, because every request of a program asks it.
    let found = state.store().token_with_user(id).await?;
    let (token, user) = found.ok_or_else(wrong)?;
    let now = state.store().now();
    let is_right = bool::from(token.hash.as_slice().ct_eq(&hash_of(text)));
    let is_expired = token.expires_at.is_some_and(|at| at < now);
    if !is_right || is_expired || user.disabled {
        return Err(wrong());
    }
    // To the minute, so that a busy program does not write with each request. The clock may have been set back since.
    if token.used_at.is_none_or(|at| now.abs_diff(at) >= 60) {
        state.store().note_token_used(&token.id).await?;
    }
    Ok(Identified {
        user,
        token: Some(token),
        is_peer: false,
    })
}

fn token_text(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")
        })
        .map(|(_, token)| token.trim());
    bearer.or_else(|| {
        headers
            .get("x-api-key")
            .and_then(|value| value.to_str().ok())
    })
}

/// The hash of the login in the cookie.
pub(crate) fn login_hash(headers: &HeaderMap) -> Option<[u8; 32]> {
    cookie_value(headers, &[COOKIE_NAME, SECURE_COOKIE_NAME]).map(hash_of)
}

/// What ties a login by OpenID to the browser that began it.
pub(crate) fn openid_binding(headers: &HeaderMap) -> Option<&str> {
    cookie_value(headers, &[OPENID_COOKIE_NAME])
}

/// The value of the first cookie with one of these names.
fn cookie_value<'a>(headers: &'a HeaderMap, names: &[&str]) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| names.contains(name))
        .map(|(_, value)| value)
}

const COOKIE_NAME: &str = "cellblock";
/// Browsers accept a cookie with this name only over TLS, from this host alone and for the whole site.
const SECURE_COOKIE_NAME: &str = "__Host-cellblock";

/// Holds what ties a login by OpenID to the browser that began it.
const OPENID_COOKIE_NAME: &str = "cellblock-openid";

/// The header that ties a login by OpenID to this browser. The provider sends the browser back, so the cookie is sent with requests that
/// come from another site.
pub(crate) fn openid_cookie(state: &AppState, value: &str) -> Result<HeaderValue, ApiError> {
    let secure = if state.is_behind_tls() {
        "; Secure"
    } else {
        ""
    };
    let text = format!(
        "{OPENID_COOKIE_NAME}={value}; Path=/v1/openid; HttpOnly; SameSite=Lax; Max-Age=600{secure}"
    );
    HeaderValue::from_str(&text).map_err(|error| ApiError::internal(error.to_string()))
}

/// The header that keeps a login in the browser.
pub(crate) fn login_cookie(state: &AppState, secret: &str) -> Result<HeaderValue, ApiError> {
    cookie(state, secret, LOGIN_SECONDS)
}

/// The header that removes a login from the browser.
pub(crate) fn remove_cookie(state: &AppState) -> Result<HeaderValue, ApiError> {
    cookie(state, "", 0)
}

fn cookie(state: &AppState, value: &str, seconds: i64) -> Result<HeaderValue, ApiError> {
    let (name, secure) = match state.is_behind_tls() {
        true => (SECURE_COOKIE_NAME, "; Secure"),
        false => (COOKIE_NAME, ""),
    };
    let text =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(|error| ApiError::internal(error.to_string()))
}
