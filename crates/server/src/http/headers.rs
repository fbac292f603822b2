//! The headers that every answer carries, so that a browser runs nothing but the server's own pages.

use crate::state::AppState;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// What the pages may load: files of this server, and pictures that a page made itself.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; font-src 'self'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// How long a browser insists on TLS after it has used it once: a year.
const STRICT_TRANSPORT: &str = "max-age=31536000";

/// Adds the security headers to an answer. A route that has set one itself keeps its own value.
pub(crate) async fn add_security_headers(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        add(headers, name, value);
    }
    // What the API answers is about one user and one moment.
    add(headers, header::CACHE_CONTROL, "no-store");
    if state.is_behind_tls() {
        add(headers, header::STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
    response
}

fn add(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers
        .entry(name)
        .or_insert(HeaderValue::from_static(value));
}
