//! Errors as clients of E2B read them: `{"code": 404, "message": "…"}` with the status as a number.

use crate::error::ApiError;
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::io::ErrorKind;

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct E2bError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    retry_after: Option<u64>,
}

impl E2bError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> E2bError {
        E2bError {
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> E2bError {
        E2bError::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> E2bError {
        E2bError::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn unauthenticated(message: impl Into<String>) -> E2bError {
        E2bError::new(StatusCode::UNAUTHORIZED, message)
    }

    /// A sandbox that the control plane does not know.
    pub(super) fn no_sandbox(id: &str) -> E2bError {
        E2bError::not_found(format!("sandbox \"{}\" doesn't exist", shown(id)))
    }

    /// A sandbox that is gone or paused, as the services inside it say so. Clients look for the words `was not found`.
    pub(super) fn sandbox_gone(id: &str) -> E2bError {
        E2bError::new(
            StatusCode::BAD_GATEWAY,
            format!("The sandbox {} was not found", shown(id)),
        )
    }

    /// Something that this server does not offer.
    pub(super) fn not_offered(message: impl Into<String>) -> E2bError {
        E2bError::new(StatusCode::NOT_IMPLEMENTED, message)
    }
}

/// An id of a request, short enough for a message.
fn shown(id: &str) -> String {
    const MAX_CHARACTERS: usize = 64;
    id.chars().take(MAX_CHARACTERS).collect()
}

impl IntoResponse for E2bError {
    fn into_response(self) -> Response {
        let body = json!({"code": self.status.as_u16(), "message": self.message});
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<ApiError> for E2bError {
    fn from(error: ApiError) -> E2bError {
        // What this server calls unprocessable, clients of E2B know as a bad request.
        let status = match error.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        let message = match &error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message.clone(),
        };
        E2bError {
            status,
            message,
            retry_after: error.seconds_to_wait(),
        }
    }
}

impl From<cellblock_session::Error> for E2bError {
    fn from(error: cellblock_session::Error) -> E2bError {
        use cellblock_session::Error;
        if let Error::Path { path, source } = &error {
            return path_error(path, source);
        }
        if let Error::Ended { session, .. } | Error::Paused { session } = &error {
            return E2bError::sandbox_gone(session);
        }
        ApiError::from(error).into()
    }
}

/// An error of a file. Adapters look for `is a directory`, `not a directory` and `permission denied` in the message.
fn path_error(path: &str, source: &std::io::Error) -> E2bError {
    let (status, words) = match source.kind() {
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "no such file or directory"),
        ErrorKind::AlreadyExists => (StatusCode::CONFLICT, "file already exists"),
        ErrorKind::IsADirectory => (StatusCode::BAD_REQUEST, "is a directory"),
        ErrorKind::NotADirectory => (StatusCode::BAD_REQUEST, "not a directory"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            let message = format!("{path}: permission denied ({source})");
            return E2bError::new(StatusCode::FORBIDDEN, message);
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            (StatusCode::INSUFFICIENT_STORAGE, "no space left on device")
        }
        _ => {
            return E2bError::bad_request(format!("{path}: {source}"));
        }
    };
    E2bError::new(status, format!("{path}: {words}"))
}

impl From<crate::store::StoreError> for E2bError {
    fn from(error: crate::store::StoreError) -> E2bError {
        ApiError::from(error).into()
    }
}
