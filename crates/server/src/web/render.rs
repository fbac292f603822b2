//! `POST /web/render`: texts to safe HTML, several in one request.

use axum::Json;
use axum::extract::DefaultBodyLimit;
use serde::{Deserialize, Serialize};

use super::csv::Table;
use super::{ansi, csv, highlight, markdown, notebook};
use crate::error::ApiError;
use crate::http::JsonBody;

/// The most texts in one request.
const MAX_PARTS: usize = 200;
/// The most bytes of all texts of one request.
const MAX_BYTES: usize = 4_000_000;

/// A text to render.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum TextToRender {
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

impl TextToRender {
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

/// Renders texts for the pages. Callers without a login ask too: they read a chat by its link.
pub(super) async fn render(
    JsonBody(parts): JsonBody<Vec<TextToRender>>,
) -> Result<Json<Vec<Rendered>>, ApiError> {
    let bytes: usize = parts.iter().map(|part| part.text().len()).sum();
    if parts.len() > MAX_PARTS || bytes > MAX_BYTES {
        return Err(ApiError::too_large(format!(
            "at most {MAX_PARTS} texts with {MAX_BYTES} bytes together"
        )));
    }
    // Megabytes of text take long enough to hold up other requests of this thread.
    let rendered = tokio::task::spawn_blocking(move || {
        parts.iter().map(TextToRender::render).collect::<Vec<_>>()
    })
    .await;
    let rendered = rendered.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Json(rendered))
}

/// The limit of a request's body: the texts as JSON, in which a character may take six bytes.
pub(super) fn body_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(6 * MAX_BYTES)
}
