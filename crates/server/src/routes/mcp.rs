//! The Model Context Protocol at `/mcp`, with the same tokens as everything else.

use super::{BodyKind, Route};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::state::AppState;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use cellblock_mcp::{ClientQuota, ClientUser, HttpEndpoint, SessionPlace};
use cellblock_protocol::{Limits, SessionOptions};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The header that names a session of the protocol.
const SESSION: &str = "mcp-session-id";
/// Sessions of the protocol whose owner is remembered.
const MAX_OWNERS: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    let run = Access::Needs(Scope::Run);
    vec![
        Route::new(
            Method::POST,
            "/mcp",
            run,
            "A message of the Model Context Protocol",
            serve,
        )
        .takes_kind(BodyKind::Object("a JSON-RPC message"))
        .max_body_bytes(48 << 20),
        Route::new(
            Method::GET,
            "/mcp",
            run,
            "The messages of the server to an MCP client",
            serve,
        ),
        Route::new(
            Method::DELETE,
            "/mcp",
            run,
            "End the session of an MCP client",
            serve,
        ),
    ]
}

/// The endpoint, and to which users its sessions belong.
#[derive(Debug)]
pub(crate) struct McpSessions {
    endpoint: HttpEndpoint,
    owners: Mutex<Owners>,
}

#[derive(Debug, Default)]
struct Owners {
    users: HashMap<String, String>,
    order: VecDeque<String>,
}

impl McpSessions {
    pub(crate) fn new(endpoint: HttpEndpoint) -> McpSessions {
        McpSessions {
            endpoint,
            owners: Mutex::default(),
        }
    }

    fn owns(&self, user: &str, session: &str) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.users.get(session).is_some_and(|owner| owner == user)
    }

    fn remove_of_user(&self, user: &str) -> Vec<String> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |owner: &String| owner == user;
        let owned = owners.users.extract_if(|_, owner| is_own(owner));
        let owned: Vec<String> = owned.map(|(session, _)| session).collect();
        owners.order.retain(|session| !owned.contains(session));
        owned
    }

    fn add(&self, user: &str, session: &str) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.users.contains_key(session) {
            return;
        }
        owners.users.insert(session.to_owned(), user.to_owned());
        owners.order.push_back(session.to_owned());
        if owners.order.len() > MAX_OWNERS
            && let Some(oldest) = owners.order.pop_front()
        {
            owners.users.remove(&oldest);
        }
    }
}

async fn serve(
    State(state): State<AppState>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let mcp = state.mcp().ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "this server does not speak MCP",
        )
    })?;
    let quota = UserQuota {
        state: state.clone(),
        caller: caller.clone(),
    };
    let place = match session_of(request.headers()) {
        Some(session) if !mcp.owns(caller.id(), session) => {
            return Err(ApiError::not_found("session"));
        }
        // A message without a session begins one. Any other message is refused by the endpoint, and its place is free at once.
        None if request.method() == Method::POST => Some(quota.take()?),
        _ => None,
    };
    let user = ClientUser::new(Arc::new(quota), place);
    let reply = mcp.endpoint.reply_to(user, request).await;
    if let Some(session) = session_of(reply.headers()) {
        mcp.add(caller.id(), session);
    }
    Ok(reply.map(Body::new))
}

impl AppState {
    /// Ends the sessions of a user's MCP clients.
    pub(crate) async fn end_mcp_of(&self, user: &str) {
        let Some(mcp) = self.mcp() else { return };
        for session in mcp.remove_of_user(user) {
            mcp.endpoint.end_session(&session).await;
        }
    }
}

/// The limits of the user behind a client.
struct UserQuota {
    state: AppState,
    caller: Caller,
}

impl UserQuota {
    fn take(&self) -> Result<SessionPlace, ApiError> {
        let memory = SessionOptions::default().limits.memory;
        let place = self.state.take_place(&self.caller.user, memory)?;
        Ok(SessionPlace::new(place))
    }
}

impl ClientQuota for UserQuota {
    fn bounded(&self, wanted: Limits) -> Limits {
        self.state.quotas_of(&self.caller.user).bounded(wanted)
    }

    fn take_session(&self) -> Result<SessionPlace, String> {
        self.take().map_err(|error| error.message)
    }

    fn begin_call(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let checked = self.state.check_cell_quota(&self.caller).await;
            checked.map_err(|error| error.message)
        })
    }

    fn end_call(&self, took: Duration) {
        self.state.count_cell_time(self.caller.id(), took);
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).and_then(|id| id.to_str().ok())
}
