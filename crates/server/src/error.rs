//! Errors: the one JSON shape of all answers that refuse something, and the reasons why a server does not start.

use axum::Json;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cellblock_session::Error as SessionError;
use serde::Serialize;
use std::path::PathBuf;

/// An answer that refuses a request: `{"code", "message", "hint"}` with an HTTP status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    /// A short word for programs: `not_found`, `busy`, `invalid`, …
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// What to do about it, where that is known.
    pub hint: Option<String>,
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl ApiError {
    /// An error with this status, code and message.
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            code: code.to_owned(),
            message: message.into(),
            hint: None,
            retry_after: None,
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds after how many seconds the same request may succeed.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> ApiError {
        self.retry_after = Some(seconds.max(1));
        self
    }

    /// After how many seconds the same request may succeed, where that is known.
    pub(crate) fn seconds_to_wait(&self) -> Option<u64> {
        self.retry_after
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// A request that cannot be understood or is not allowed to ask for this.
    pub fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// Something that does not exist for this caller. The message is the same for what belongs to another user.
    pub fn not_found(what: &str) -> ApiError {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no such {what}"),
        )
    }

    /// A request without valid credentials.
    pub fn unauthenticated(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
            .hint("log in, or send the header `Authorization: Bearer TOKEN`")
    }

    /// A caller without the right to do this.
    pub fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// A state that does not allow the request now.
    pub fn conflict(code: &str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, code, message)
    }

    /// A limit of the caller that is reached.
    pub fn too_many(code: &str, message: impl Into<String>, retry_after: u64) -> ApiError {
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message).retry_after(retry_after)
    }

    /// A request that is larger than allowed.
    pub fn too_large(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// A request for a WebSocket that is none.
    pub(crate) fn no_websocket(rejection: WebSocketUpgradeRejection) -> ApiError {
        let status = StatusCode::UPGRADE_REQUIRED;
        ApiError::new(status, "malformed", rejection.body_text())
    }

    /// A failure of the server itself.
    pub fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "system", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer realm=\"cellblock\"");
            headers.insert(WWW_AUTHENTICATE, how);
        }
        response
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> ApiError {
        let status = match &error {
            SessionError::Busy { .. } => StatusCode::CONFLICT,
            SessionError::Ended { .. } => StatusCode::GONE,
            SessionError::NotFound(_) => StatusCode::NOT_FOUND,
            SessionError::Invalid(_) | SessionError::Refused(_) | SessionError::Sandbox(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            SessionError::File { source, .. } | SessionError::Path { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                StatusCode::NOT_FOUND
            }
            SessionError::File { .. } | SessionError::Path { .. } => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ApiError::new(status, error.code(), error.to_string())
    }
}

impl From<cellblock_host::Error> for ApiError {
    fn from(error: cellblock_host::Error) -> ApiError {
        match error {
            cellblock_host::Error::Session(error) => error.into(),
            other => ApiError::invalid(other.to_string()),
        }
    }
}

impl From<crate::store::StoreError> for ApiError {
    fn from(error: crate::store::StoreError) -> ApiError {
        let message = error.told_to_callers();
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store", message)
            .hint("the operator of the server sees why on its standard error")
            .retry_after(5)
    }
}

/// Why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The options do not go together.
    #[error("{0}")]
    Options(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// A directory of the server cannot be made.
    #[error("the directory {} cannot be used: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The listener cannot be used.
    #[error("connections cannot be accepted: {0}")]
    Listen(#[source] std::io::Error),
}
