//! The static files, embedded in the program.
//!
//! Their address contains a hash of all files, so a browser keeps them for ever and never mixes two versions. Each is compressed
//! once, when it is asked for first.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

/// The embedded files by their name below `web/`.
macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../web/", $name)).as_slice())),*]
    };
}

const FILES: &[(&str, &[u8])] = embedded![
    "index.html",
    "frame.html",
    "icon.svg",
    "manifest.webmanifest",
    "style/base.css",
    "style/app.css",
    "js/admin_page.js",
    "js/api.js",
    "js/approval.js",
    "js/cell_view.js",
    "js/chat_page.js",
    "js/compare_page.js",
    "js/display.js",
    "js/dom.js",
    "js/dropped_files.js",
    "js/edited_question.js",
    "js/editor.js",
    "js/evaluations_page.js",
    "js/lanes.js",
    "js/login.js",
    "js/main.js",
    "js/markup.js",
    "js/output.js",
    "js/panels.js",
    "js/plan.js",
    "js/reference_page.js",
    "js/requests.js",
    "js/run_actions.js",
    "js/run_limits.js",
    "js/run_page.js",
    "js/run_view.js",
    "js/runs_page.js",
    "js/scratch.js",
    "js/session_model.js",
    "js/session_page.js",
    "js/sessions_page.js",
    "js/shared_page.js",
    "js/sidebar.js",
    "js/stream.js",
    "js/table.js",
    "js/terminal.js",
    "js/terminal_screen.js",
    "js/texts.js",
    "js/time_ribbon.js",
    "js/user_limits.js",
];

/// One file as it is sent.
pub(super) struct Asset {
    content_type: &'static str,
    plain: Bytes,
    compressed: OnceLock<Bytes>,
    tag: HeaderValue,
}

static ASSETS: LazyLock<HashMap<&'static str, Asset>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|&(name, content)| (name, Asset::new(name, Bytes::from_static(content))))
        .collect()
});

/// The hash of all files: the part of their addresses that changes with any of them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, content) in FILES {
        hash.update(name.as_bytes());
        hash.update(content);
    }
    hexadecimal(&hash.finalize()[..8])
});

static INDEX: LazyLock<Asset> = LazyLock::new(|| {
    let text = String::from_utf8_lossy(include_bytes!("../../web/index.html"));
    Asset::new(
        "index.html",
        Bytes::from(text.replace("{version}", &VERSION)),
    )
});

/// The document of every page, with the addresses of this version's files.
pub(super) fn index() -> &'static Asset {
    &INDEX
}

/// `GET /assets/{version}/{path}`.
pub(super) async fn serve(
    Path((version, path)): Path<(String, String)>,
    request: HeaderMap,
) -> Response {
    match Asset::find(&path) {
        Some(asset) if version == *VERSION => {
            asset.respond(&request, "public, max-age=31536000, immutable")
        }
        // A page of an older program asks: its scripts would not fit to the new ones, so it must load itself again.
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Asset {
    fn new(name: &str, plain: Bytes) -> Self {
        let tag = format!("\"{}\"", hexadecimal(&Sha256::digest(&plain)[..8]));
        Self {
            content_type: content_type(name),
            tag: HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\"")),
            plain,
            compressed: OnceLock::new(),
        }
    }

    /// The file with this name, if it is one of the embedded files.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ASSETS.get(name)
    }

    /// The answer to a request with these headers: the file, compressed where the browser takes it, or 304.
    pub(super) fn respond(&self, request: &HeaderMap, caching: &'static str) -> Response {
        let mut response = if request.get(header::IF_NONE_MATCH) == Some(&self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if accepts_gzip(request) {
            let mut response = Response::new(Body::from(self.compressed()));
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        } else {
            Response::new(Body::from(self.plain.clone()))
        };
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(self.content_type),
        );
        headers.insert(header::ETAG, self.tag.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        response
    }

    fn compressed(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing into memory does not fail.
            let _ = encoder.write_all(&self.plain);
            Bytes::from(encoder.finish().unwrap_or_default())
        };
        self.compressed.get_or_init(compress).clone()
    }
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    request
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| {
            value.split(',').any(|coding| {
                coding
                    .split(';')
                    .next()
                    .is_some_and(|name| name.trim() == "gzip")
            })
        })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
