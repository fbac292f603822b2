//! An API like the code API of LibreChat: a chat's code runs in a session of this server, and its files lie in the session's workspace.
//!
//! LibreChat finds it by `LIBRECHAT_CODE_BASEURL=http://…/librechat`, and its key is a token of this server.

mod execute;
mod files;

use crate::auth::{Access, Caller, Scope, authorize};
use crate::error::ApiError;
use crate::http::hold_body;
use crate::live::LiveSession;
use crate::sessions::NewSession;
use crate::state::AppState;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cellblock_protocol::SessionOptions;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Where code finds its files: the prompts of LibreChat name this directory.
const PLACE: &str = "/mnt/data";
/// What stands before the id of a session: LibreChat takes ids of 21 characters only.
const ID_PREFIX: &str = "cell";
/// How many characters of a hash are the id of a file.
const FILE_ID_CHARS: usize = 21;
/// The longest request with files.
const MAX_UPLOAD_BYTES: usize = 64 << 20;

/// The routes of this API.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let check = from_fn_with_state((state.clone(), Access::Needs(Scope::Run)), authorize);
    Router::new()
        .route("/librechat/exec", post(execute::execute))
        .route("/librechat/exec/programmatic", post(programmatic))
        .route("/librechat/upload", post(files::upload))
        .route("/librechat/upload/batch", post(files::upload))
        .route("/librechat/files/{id}", get(files::list))
        .route("/librechat/files/{id}/{name}", delete(files::remove))
        .route("/librechat/download/{id}/{name}", get(files::download))
        .route(
            "/librechat/sessions/{id}/objects/{name}",
            get(files::describe),
        )
        .layer(from_fn_with_state(state.clone(), hold_body))
        .layer(DefaultBodyLimit::max(MAX_UPLOAD_BYTES))
        .layer(check)
        .layer(from_fn(crate::auth::mark_programs))
}

async fn programmatic() -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "not_offered",
        "code that calls tools of LibreChat is not offered: send it to /exec without tools",
    )
}

/// The id of a session as LibreChat knows it.
fn storage_id(live: &LiveSession) -> String {
    format!("{ID_PREFIX}{}", live.id)
}

/// The id of a file: the same path has the same id in every session.
fn file_id(path: &str) -> String {
    let mut id = URL_SAFE_NO_PAD.encode(Sha256::digest(path.as_bytes()));
    id.truncate(FILE_ID_CHARS);
    id
}

impl AppState {
    /// A session of this caller by the id that LibreChat has.
    async fn code_session(&self, caller: &Caller, id: &str) -> Result<Arc<LiveSession>, ApiError> {
        let id = id.strip_prefix(ID_PREFIX);
        let id = id.ok_or_else(|| ApiError::not_found("session"))?;
        self.session(caller, id).await
    }

    /// A new session whose workspace is where LibreChat's prompts say.
    async fn new_code_session(&self, caller: &Caller) -> Result<Arc<LiveSession>, ApiError> {
        let new = NewSession {
            title: Some("LibreChat".to_owned()),
            options: SessionOptions::default(),
            chat: None,
        };
        self.open_session_at(caller, PLACE, new).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_files_have_the_length_that_librechat_takes() {
        let id = file_id("a/b.csv");
        assert_eq!(id.len(), FILE_ID_CHARS);
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        );
        assert_ne!(id, file_id("a/c.csv"));
    }
}
