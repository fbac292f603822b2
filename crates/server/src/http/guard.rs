//! Refuses requests that a foreign web page made a browser send: DNS rebinding and cross-site requests.

use crate::error::ApiError;
use crate::state::AppState;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use std::net::{IpAddr, SocketAddr};

/// The names under which browsers may reach this server.
#[derive(Clone, Debug)]
pub(crate) struct HostRules {
    names: Vec<String>,
}

impl HostRules {
    /// The names of this machine's loopback, the address that is listened on, and those that the operator allowed.
    pub(crate) fn new(address: Option<SocketAddr>, allowed: &[String]) -> HostRules {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "[::1]"]
            .map(str::to_owned)
            .into();
        if let Some(address) = address {
            names.push(match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        names.extend(allowed.iter().map(|name| name.to_ascii_lowercase()));
        HostRules { names }
    }

    /// Whether a `Host` header names this server. The port does not matter: a proxy may listen on another one.
    fn allows(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        self.names
            .iter()
            .any(|allowed| match allowed.strip_prefix('*') {
                // `*.example.org` stands for every name below it.
                Some(suffix) => {
                    suffix.starts_with('.') && name.len() > suffix.len() && name.ends_with(suffix)
                }
                None => *allowed == name,
            })
    }
}

/// Checks `Host`, `Origin` and `X-Cellblock` before anything else of a request counts.
pub(crate) async fn check_request(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let host = host_of(request.uri(), request.headers())?;
    if !state.hosts().allows(&host) {
        return Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            format!("this server is not `{}`", without_port(&host)),
        )
        .hint("allow the name with `--allow-host`, or use the address that the server printed"));
    }
    if changes_state(request.method()) || is_upgrade(request.headers()) {
        check_origin(&host, request.headers())?;
    }
    Ok(next.run(request).await)
}

/// Whether a request with this method can change something.
pub(crate) fn changes_state(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key("upgrade")
}

/// The one host that a request names.
fn host_of(uri: &Uri, headers: &HeaderMap) -> Result<String, ApiError> {
    let bad = |message: &str| ApiError::new(StatusCode::BAD_REQUEST, "malformed", message);
    let mut all = headers.get_all(HOST).iter();
    let host = all.next().and_then(|host| host.to_str().ok());
    if all.next().is_some() {
        return Err(bad("the request has more than one header Host"));
    }
    let host = host.ok_or_else(|| bad("the request has no header Host"))?;
    match uri.authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => Err(bad(
            "the first line of the request names another host than its header Host",
        )),
        _ => Ok(host.to_owned()),
    }
}

/// A page of another origin may not send this. Programs send no `Origin`.
fn check_origin(host: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().unwrap_or("null");
    let named = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    match named {
        Some(named) if named.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "pages of another origin may not use this server",
        )),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}
