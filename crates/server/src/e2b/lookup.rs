//! Which sandbox and which service inside it a request means, and whether the request may use it.

use super::error::E2bError;
use super::sandbox::{Resume, RunState, Sandbox};
use super::{CODE_PORT, ENVD_PORT};
use crate::auth::Caller;
use crate::http::HeldBytes;
use crate::state::AppState;
use axum::RequestExt as _;
use axum::extract::{FromRequest, Request};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::marker::PhantomData;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// A service inside a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SandboxService {
    Envd,
    Code,
    /// A port on which a program in the sandbox would listen.
    OtherPort(u16),
}

/// The service that a request means; `None` for a request to this server itself.
pub(super) fn wanted_service(state: &AppState, request: &Request) -> Option<SandboxService> {
    let (_, port) = address_of(state, request.headers())?;
    Some(match port {
        ENVD_PORT => SandboxService::Envd,
        CODE_PORT => SandboxService::Code,
        other => SandboxService::OtherPort(other),
    })
}

/// The id of the sandbox and the port that a request names: in its headers, or in a host name of the form `PORT-ID.DOMAIN`.
fn address_of(state: &AppState, headers: &HeaderMap) -> Option<(String, u16)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(id) = text("e2b-sandbox-id") {
        let port = text("e2b-sandbox-port").and_then(|port| port.parse().ok());
        return Some((bare_id(id).to_owned(), port.unwrap_or(ENVD_PORT)));
    }
    let domain = state.options().e2b.domain.as_deref()?;
    address_in_host(text(HOST.as_str())?, domain)
}

/// The parts of `PORT-ID.DOMAIN`, with or without the port of the server behind it.
fn address_in_host(host: &str, domain: &str) -> Option<(String, u16)> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.to_ascii_lowercase();
    let label = name.strip_suffix(&domain.to_ascii_lowercase())?;
    let (port, id) = label.strip_suffix('.')?.split_once('-')?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match (port.parse(), is_id) {
        (Ok(port), true) => Some((id.to_owned(), port)),
        _ => None,
    }
}

/// The id without the part behind it that older clients add.
pub(super) fn bare_id(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

/// The body of a request that has the access token of its sandbox. `E` is how the service tells errors.
///
/// Of a request without the token, nothing is read into memory. Of others, the body counts for the user of the sandbox.
pub(super) struct Admitted<E> {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) body: HeldBytes,
    error: PhantomData<E>,
}

impl<E: From<E2bError> + IntoResponse> FromRequest<AppState> for Admitted<E> {
    type Rejection = E;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, E> {
        let sandbox = state.sandbox_of(request.headers()).await?;
        let held = state.held_bodies().of_user(sandbox.caller.id());
        let body = held.read(request.with_limited_body().into_body()).await;
        Ok(Admitted {
            body: body.map_err(E2bError::from)?,
            sandbox,
            error: PhantomData,
        })
    }
}

impl AppState {
    /// The sandbox that a request to a service inside it means. The access token must be that of the sandbox.
    ///
    /// A wrong token and an unknown id get the same answer: a stranger does not learn which sandboxes exist. A request without any token is
    /// refused before the id is looked at.
    pub(super) async fn sandbox_of(&self, headers: &HeaderMap) -> Result<Arc<Sandbox>, E2bError> {
        let (id, _) = address_of(self, headers)
            .ok_or_else(|| E2bError::bad_request("the request names no sandbox"))?;
        // Some calls of the code interpreter's clients carry the token of the network only; both are the same one here.
        let names = ["x-access-token", "e2b-traffic-access-token"];
        let tokens: Vec<&HeaderValue> =
            names.iter().filter_map(|name| headers.get(*name)).collect();
        if tokens.is_empty() {
            return Err(E2bError::unauthenticated(
                "the access token of the sandbox is missing",
            ));
        }
        let sandbox = self.sandboxes().get(&id);
        // Before anything is done for the request: a paused sandbox is resumed for the holder of its token alone.
        let sandbox = sandbox.filter(|sandbox| {
            let secret = sandbox.token.as_bytes();
            let is_right = |token: &&HeaderValue| bool::from(secret.ct_eq(token.as_bytes()));
            tokens.iter().any(is_right)
        });
        let sandbox = sandbox.ok_or_else(|| E2bError::sandbox_gone(&id))?;
        self.awake(&sandbox).await?;
        Ok(sandbox)
    }

    /// Whether the sandbox that a request names runs. For a request without the token of the sandbox, no sandbox runs.
    pub(super) async fn check_health(&self, headers: &HeaderMap) -> Result<(), E2bError> {
        let found = self.sandbox_of(headers).await;
        match (found, address_of(self, headers)) {
            (Err(error), Some((id, _))) if error.status == StatusCode::UNAUTHORIZED => {
                Err(E2bError::sandbox_gone(&id))
            }
            (found, _) => found.map(drop),
        }
    }

    /// Has a sandbox run, for a request that may use it. A paused one is resumed where it was created so, and else it is not there.
    pub(super) async fn awake(&self, sandbox: &Sandbox) -> Result<(), E2bError> {
        if sandbox.life().state == RunState::Paused {
            if sandbox.settings.resume == Resume::WhenAsked {
                return Err(E2bError::sandbox_gone(&sandbox.id));
            }
            self.resume_sandbox(sandbox).await?;
            sandbox.extend(super::create::DEFAULT_LIFE);
        }
        Ok(())
    }

    /// A sandbox of this caller, running or paused. Sandboxes of others do not exist for the caller.
    pub(super) fn own_sandbox(&self, caller: &Caller, id: &str) -> Result<Arc<Sandbox>, E2bError> {
        let found = self.sandboxes().get(bare_id(id));
        let own = found.filter(|sandbox| sandbox.caller.id() == caller.id());
        own.ok_or_else(|| E2bError::no_sandbox(id))
    }
}

/// Refuses a user that a sandbox does not have. There is one, and `root` means the same one.
pub(super) fn check_user(headers: &HeaderMap) -> Result<(), E2bError> {
    let Some(credentials) = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Basic "))
    else {
        return Ok(());
    };
    let decoded = STANDARD.decode(credentials.trim()).unwrap_or_default();
    let decoded = String::from_utf8_lossy(&decoded);
    check_user_name(decoded.split(':').next().unwrap_or(""))
}

/// Refuses the name of a user that a sandbox does not have.
pub(super) fn check_user_name(name: &str) -> Result<(), E2bError> {
    match name {
        "" | "user" | "root" => Ok(()),
        other => {
            let shown: String = other.chars().take(64).collect();
            Err(E2bError::unauthenticated(format!(
                "user '{shown}' not found"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_names_the_sandbox_and_the_port() {
        let address = |host| address_in_host(host, "box.example");
        assert_eq!(
            address("49983-iabc2.box.example"),
            Some(("iabc2".into(), 49_983))
        );
        assert_eq!(
            address("8080-IABC2.Box.Example:8443"),
            Some(("iabc2".into(), 8080))
        );
        for other in [
            "api.box.example",
            "box.example",
            "49983-iabc2.other.example",
            "49983-.box.example",
            "99999-iabc2.box.example",
            "49983-a.b.box.example",
            "49983-iabc2box.example",
        ] {
            assert_eq!(address(other), None, "{other}");
        }
    }
}
