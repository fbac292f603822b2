//! Bodies and query strings that are JSON, with errors in the one shape.

use crate::error::ApiError;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use std::error::Error;

/// A body of JSON. An empty body counts as `{}`, so that operations without required fields need none.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_none_or(|kind| kind.starts_with("application/json"));
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| refused_body(&rejection))?;
        if bytes.is_empty() {
            return parse(b"{}");
        }
        // A form of a foreign page can be sent without a preflight, JSON cannot.
        if !is_json {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "malformed",
                "the body must be JSON: send the header `Content-Type: application/json`",
            ));
        }
        parse(&bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<JsonBody<T>, ApiError> {
    serde_json::from_slice(bytes)
        .map(JsonBody)
        .map_err(|error| {
            let code = match error.classify() {
                serde_json::error::Category::Data => "invalid",
                _ => "malformed",
            };
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string())
        })
}

/// The error for a body that could not be read to its end.
pub(crate) fn refused_body(rejection: &BytesRejection) -> ApiError {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large_body(),
        _ => cut_off_body(rejection.body_text()),
    }
}

/// The error for a body that is read in pieces and could not be read to its end.
pub(super) fn unreadable_body(error: &axum::Error) -> ApiError {
    match is_over_limit(error) {
        true => too_large_body(),
        false => cut_off_body(error.to_string()),
    }
}

/// Whether a piece of a body is refused because the body is longer than its route takes.
pub(super) fn is_over_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn too_large_body() -> ApiError {
    ApiError::too_large("the body is larger than this route takes")
}

fn cut_off_body(why: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "malformed", why)
}

/// The query string of a request.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|query| Query(query.0))
            .map_err(|rejection| ApiError::invalid(rejection.body_text()))
    }
}
