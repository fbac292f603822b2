//! Answers that a browser saves instead of showing them.

use crate::error::ApiError;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

/// An answer that a browser saves instead of showing it.
pub(crate) fn attachment(
    name: &str,
    mime: &str,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|error| ApiError::internal(error.to_string()))
    };
    headers.insert(CONTENT_TYPE, value(mime)?);
    headers.insert(CONTENT_DISPOSITION, value(&disposition(name))?);
    Ok(response)
}

/// `attachment` with the name in both forms that browsers read.
pub(crate) fn disposition(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}
