//! `POST /web/render`: texts to safe HTML, several in one request.

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestExt as _};
use bytes::BytesMut;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::csv::Table;
use super::{ansi, csv, highlight, markdown, notebook};

/// The most texts in one request.
const MAX_PARTS: usize = 200;
/// The most bytes of all texts of one request.
const MAX_BYTES: usize = 4_000_000;

/// A text to render.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Part {
    /// Markdown of an answer, a thought or a file.
    Markdown { text: String },
    /// Code in a language.
    Code { text: String, language: String },
    /// Output of a program, with terminal colours.
    Ansi { text: String },
    /// The content of a CSV file.
    Csv { text: String },
    /// The content of a Jupyter notebook.
    Notebook { text: String },
}

impl Part {
    fn text(&self) -> &str {
        match self {
            Self::Markdown { text }
            | Self::Code { text, .. }
            | Self::Ansi { text }
            | Self::Csv { text }
            | Self::Notebook { text } => text,
        }
    }

    fn render(&self) -> Rendered {
        match self {
            Self::Markdown { text } => Rendered::Html {
                html: markdown::to_html(text),
            },
            Self::Code { text, language } => Rendered::Html {
                html: highlight::to_html(text, language),
            },
            Self::Ansi { text } => Rendered::Html {
                html: ansi::to_html(text),
            },
            Self::Csv { text } => Rendered::Table {
                table: csv::parse(text),
            },
            Self::Notebook { text } => Rendered::Html {
                html: notebook::to_html(text).unwrap_or_else(|| highlight::to_html(text, "json")),
            },
        }
    }
}

/// What a text became.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Rendered {
    /// HTML that is safe to insert.
    Html { html: String },
    /// A table as data.
    Table { table: Table },
}

/// The bytes of requests that are in memory at once. Strangers ask too, who read a chat by its link, and without this limit they could fill the
/// memory of the server with requests that do not end.
static FREE_BYTES: Semaphore = Semaphore::const_new(MAX_HELD_BYTES);
const MAX_HELD_BYTES: usize = 64 << 20;
/// How long a request may take to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn render(request: Request) -> Response {
    match tokio::time::timeout(ARRIVAL_TIMEOUT, read(request)).await {
        // The bytes are held until the answer is made.
        Ok(Ok((request, _held))) => match Json::from_request(request, &()).await {
            Ok(Json(parts)) => render_parts(parts).await,
            Err(rejection) => rejection.into_response(),
        },
        Ok(Err(refusal)) => refusal.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// Reads the body of a request into memory, and counts it.
async fn read(request: Request) -> Result<(Request, SemaphorePermit<'static>), StatusCode> {
    let take = |bytes: usize| {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        FREE_BYTES
            .try_acquire_many(bytes)
            .map_err(|_| StatusCode::TOO_MANY_REQUESTS)
    };
    let (parts, body) = request.with_limited_body().into_parts();
    let mut held = take(0)?;
    let mut bytes = BytesMut::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        held.merge(take(piece.len())?);
        bytes.extend_from_slice(&piece);
    }
    let body = Body::from(bytes.freeze());
    Ok((Request::from_parts(parts, body), held))
}

async fn render_parts(parts: Vec<Part>) -> Response {
    let bytes: usize = parts.iter().map(|part| part.text().len()).sum();
    if parts.len() > MAX_PARTS || bytes > MAX_BYTES {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    // Megabytes of text take long enough to hold up other requests of this thread.
    let rendered =
        tokio::task::spawn_blocking(move || parts.iter().map(Part::render).collect::<Vec<_>>())
            .await;
    match rendered {
        Ok(rendered) => Json(rendered).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The limit of a request's body: the texts as JSON, in which a character may take six bytes.
pub(super) fn body_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(6 * MAX_BYTES)
}
