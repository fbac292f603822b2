//! The Model Context Protocol at `/mcp`, with the same tokens as everything else.

use super::{BodyKind, Route};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::state::AppState;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use cellblock_mcp::HttpEndpoint;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

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
    if let Some(session) = session_of(request.headers())
        && !mcp.owns(caller.id(), session)
    {
        return Err(ApiError::not_found("session"));
    }
    let reply = mcp.endpoint.reply(request).await;
    if let Some(session) = session_of(reply.headers()) {
        mcp.add(caller.id(), session);
    }
    Ok(reply.map(Body::new))
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).and_then(|id| id.to_str().ok())
}
