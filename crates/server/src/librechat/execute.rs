//! Running the code of a chat: the files that it names are brought, and those that it made are told.

use super::{file_id, storage_id};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::live::LiveSession;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cellblock_protocol::{Cell, CellResult, FileChange};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most files that one request names.
const MAX_FILES: usize = 100;

/// What LibreChat sends. Fields that are not here are left alone: they say what its own server needs.
#[derive(Debug, Deserialize)]
pub(super) struct ExecuteRequest {
    lang: String,
    code: String,
    #[serde(default)]
    args: Value,
    session_id: Option<String>,
    #[serde(default)]
    files: Vec<FileReference>,
}

/// A file that the code needs.
#[derive(Debug, Deserialize)]
struct FileReference {
    id: String,
    name: String,
    /// The session that holds the file.
    #[serde(alias = "session_id")]
    storage_session_id: String,
}

/// Runs code in the session that the request names, in that of its files, or in a new one.
pub(super) async fn execute(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> Result<Json<Value>, ApiError> {
    request.check()?;
    let first = request.files.first();
    let wanted = request.session_id.as_deref();
    let wanted = wanted.or(first.map(|file| file.storage_session_id.as_str()));
    let live = match wanted {
        Some(id) => state.code_session(&caller, id).await?,
        None => state.new_code_session(&caller).await?,
    };
    for file in &request.files {
        state.bring(&caller, &live, file).await?;
    }
    let outcome = state.queue_cell(&caller, &live, Cell::new(request.code));
    let (_, outcome) = outcome.await?;
    let result = outcome
        .await
        .unwrap_or_else(|_| Err(live.ended_error("it was closed")))?;
    Ok(Json(answer(&live, &result)))
}

impl ExecuteRequest {
    fn check(&self) -> Result<(), ApiError> {
        let not_offered = |message: String| {
            let status = StatusCode::NOT_IMPLEMENTED;
            Err(ApiError::new(status, "not_offered", message))
        };
        if !["py", "python"].contains(&self.lang.as_str()) {
            let lang: String = self.lang.chars().take(20).collect();
            return not_offered(format!(
                "the language `{lang}` is not offered: only `py` is"
            ));
        }
        let has_arguments = match &self.args {
            Value::Null => false,
            Value::Array(args) => !args.is_empty(),
            _ => true,
        };
        if has_arguments {
            return not_offered("arguments are not offered: write them into the code".to_owned());
        }
        if self.files.len() > MAX_FILES {
            return Err(ApiError::invalid(format!("at most {MAX_FILES} files")));
        }
        Ok(())
    }
}

impl AppState {
    /// Copies a file of another session of the caller into this one.
    async fn bring(
        &self,
        caller: &Caller,
        live: &Arc<LiveSession>,
        file: &FileReference,
    ) -> Result<(), ApiError> {
        if file.storage_session_id == storage_id(live) {
            return Ok(());
        }
        let from = self.code_session(caller, &file.storage_session_id).await?;
        let path = super::files::path_of(&from, &file.id).await?;
        let contents = from.session.get_file(&path).await?;
        Ok(live.session.put_file(&file.name, contents).await?)
    }
}

/// What LibreChat reads: what was printed, and the files that are new or have other contents.
fn answer(live: &LiveSession, result: &CellResult) -> Value {
    let mut stderr = result.stderr.clone();
    if let Some(error) = &result.error {
        stderr.push_str(&error.traceback);
    }
    let session = storage_id(live);
    let changed = result.files.created.iter().chain(&result.files.changed);
    let file = |file: &FileChange| {
        json!({
            "id": file_id(&file.path),
            "name": file.path,
            "path": file.path,
            "size": file.bytes,
            "session_id": session,
            "storage_session_id": session,
        })
    };
    json!({
        "session_id": session,
        "stdout": result.stdout,
        "stderr": stderr,
        "files": changed.map(file).collect::<Vec<Value>>(),
    })
}
