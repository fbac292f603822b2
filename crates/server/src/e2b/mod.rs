//! The E2B API: programs that were written for the E2B API use sandboxes of this server by changing an address.
//!
//! Three services of E2B come in on one port. The **control plane** creates, lists and ends sandboxes for the owner of an API key, which is
//! a token of this server. **envd** is the service inside a sandbox: files over HTTP, processes and directories over Connect with JSON.
//! The **code interpreter** runs cells. Requests to the last two carry the id of the sandbox in a header or in the host name, and the
//! access token that the creation of the sandbox returned.

mod code;
mod connect;
mod contexts;
mod control;
mod create;
mod decompression;
mod envd;
mod error;
mod execute;
mod filesystem;
mod http_files;
mod javascript;
mod joined_output;
mod listing;
mod lookup;
mod metrics;
mod network_hint;
mod outputs;
mod paths;
mod process;
mod process_stream;
mod sandbox;
mod signature;
mod snapshots;
mod time;
mod unsupported;
mod uploads;
mod watch;

use crate::state::AppState;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use lookup::{SandboxService, wanted_service};
use tower::ServiceExt as _;

pub(crate) use decompression::decompresses_body;
pub(crate) use sandbox::{SandboxState, Sandboxes};

/// The version of envd that is told to clients: it decides which features an SDK uses.
const ENVD_VERSION: &str = "0.6.7";
/// The port by which clients mean envd.
const ENVD_PORT: u16 = 49_983;
/// The port by which clients mean the code interpreter.
const CODE_PORT: u16 = 49_999;

/// The routes of the control plane, and of signed file URLs, which name no sandbox.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    control::router(state)
        .merge(unsupported::router(state))
        .merge(envd::signed_files_router())
}

/// Hands requests that are meant for a sandbox to the services inside it. Their paths are those of other routes of this server too.
pub(crate) async fn dispatch(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let router = match wanted_service(&state, &request) {
        None => return next.run(request).await,
        Some(SandboxService::Envd) => envd::router(),
        Some(SandboxService::Code) => code::router(),
        Some(SandboxService::OtherPort(port)) => return unsupported::inbound_port(port),
    };
    match router.with_state(state).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
