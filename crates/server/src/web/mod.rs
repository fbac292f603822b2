//! The web app: its static files, the frame for output of cells, and the rendering of texts to safe HTML.
//!
//! The browser gets plain ES modules, without a build step. Markdown, highlighting, terminal colours and CSV are parsed here
//! and not in the browser: the page never turns text into markup by itself, and the parsers are tested by `cargo test`.

mod ansi;
mod assets;
mod csv;
mod document;
mod escape;
mod highlight;
mod markdown;
mod notebook;
mod render;
#[cfg(test)]
mod tests;

use crate::auth::{Access, authorize};
use crate::http::hold_body;
use crate::state::AppState;
use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use assets::Asset;
pub(crate) use document::of_notebook as document_of_notebook;

/// The policy of every page of the app. Scripts come only from this server, and only the module `markup.js` can insert markup.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; frame-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types cellblock";

/// The policy of the frame that shows HTML and SVG of cells. The frame has an origin of its own and no network.
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'";

/// The addresses of pages. All of them are the same document; its script shows the page that the address names.
const PAGES: &[&str] = &[
    "/",
    "/login",
    "/setup",
    "/enter",
    "/shared",
    "/chats/{id}",
    "/sessions",
    "/sessions/{id}",
    "/runs",
    "/runs/{id}",
    "/compare/{left}/{right}",
    "/evaluations",
    "/evaluations/{id}",
    "/reference",
    "/admin",
    "/admin/{section}",
];

/// The routes of the web app.
///
/// No route here reads a session, so none of them needs a login. `POST /web/render` only turns the text of its request into HTML;
/// the server must check its origin as for every other `POST`.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let find_user = from_fn_with_state((state.clone(), Access::Public), authorize);
    let hold_body = from_fn_with_state(state.clone(), hold_body);
    let rendering = Router::new()
        .route("/web/render", post(render::render))
        .layer(hold_body)
        .layer(render::body_limit())
        .layer(find_user);
    files_and_pages().merge(rendering)
}

/// What is the same for every caller.
fn files_and_pages<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new()
        .route("/assets/{version}/{*path}", get(assets::serve))
        .route("/favicon.ico", get(favicon))
        .route("/frame", get(frame));
    for page in PAGES {
        router = router.route(page, get(index));
    }
    router
}

async fn index(request: HeaderMap) -> Response {
    let mut response = assets::index().respond(&request, "no-cache");
    protect(&mut response, PAGE_POLICY);
    response
}

async fn frame(request: HeaderMap) -> Response {
    let Some(asset) = Asset::find("frame.html") else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = asset.respond(&request, "no-cache");
    protect(&mut response, FRAME_POLICY);
    response
}

async fn favicon(request: HeaderMap) -> Response {
    match Asset::find("icon.svg") {
        Some(asset) => asset.respond(&request, "public, max-age=86400"),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Adds the headers that keep a page apart from other origins.
fn protect(response: &mut Response, policy: &'static str) {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
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
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
}
