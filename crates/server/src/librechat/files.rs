//! The files of a chat: uploaded into a session, listed, read and removed there by their ids.

use super::{file_id, storage_id};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::disposition;
use crate::live::LiveSession;
use crate::state::AppState;
use axum::Json;
use axum::extract::multipart::MultipartError;
use axum::extract::{Multipart, Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use cellblock_protocol::FileEntry;
use serde_json::{Value, json};

/// Takes the files of a form into a new session. Other fields of the form say what LibreChat's own server needs.
pub(super) async fn upload(
    State(state): State<AppState>,
    caller: Caller,
    mut form: Multipart,
) -> Result<Json<Value>, ApiError> {
    let mut files = Vec::new();
    while let Some(field) = form.next_field().await.map_err(refused)? {
        let Some(name) = field.file_name().map(str::to_owned) else {
            continue;
        };
        let contents = field.bytes().await.map_err(refused)?;
        files.push((name, contents));
    }
    if files.is_empty() {
        return Err(ApiError::invalid("the form holds no file"));
    }
    let live = state.new_code_session(&caller).await?;
    let mut told = Vec::new();
    for (name, contents) in files {
        if let Err(error) = live.session.put_file(&name, contents.to_vec()).await {
            // The client does not learn of this session, so it could never end it.
            state.close_session(&live.id).await?;
            return Err(error.into());
        }
        let status = "success";
        told.push(json!({"fileId": file_id(&name), "filename": name, "status": status}));
    }
    let session = storage_id(&live);
    Ok(Json(json!({
        "message": "success",
        "session_id": session,
        "storage_session_id": session,
        "files": told,
    })))
}

/// The files of a session.
pub(super) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let live = state.code_session(&caller, &id).await?;
    let files = live.session.list_files().await?;
    let told: Vec<Value> = files.iter().map(|file| file_json(&id, file)).collect();
    Ok(Json(json!(told)))
}

/// One file of a session, without its contents.
pub(super) async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, file)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let live = state.code_session(&caller, &id).await?;
    let found = entry_of(&live, &file).await?;
    Ok(Json(file_json(&id, &found)))
}

/// The contents of a file.
pub(super) async fn download(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, file)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let live = state.code_session(&caller, &id).await?;
    let path = path_of(&live, &file).await?;
    let contents = live.session.get_file(&path).await?;
    let name = path.rsplit('/').next().unwrap_or(&path);
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, disposition(name)),
    ];
    Ok((headers, contents).into_response())
}

/// Removes a file.
pub(super) async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, file)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let live = state.code_session(&caller, &id).await?;
    let path = path_of(&live, &file).await?;
    let paths = live.session.paths();
    paths.remove(&paths.in_workspace(&path)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The path of a file by its id.
pub(super) async fn path_of(live: &LiveSession, id: &str) -> Result<String, ApiError> {
    Ok(entry_of(live, id).await?.path)
}

async fn entry_of(live: &LiveSession, id: &str) -> Result<FileEntry, ApiError> {
    let files = live.session.list_files().await?;
    let found = files.into_iter().find(|file| file_id(&file.path) == id);
    found.ok_or_else(|| ApiError::not_found("file"))
}

fn file_json(session: &str, file: &FileEntry) -> Value {
    json!({
        "id": file_id(&file.path),
        "name": file.path,
        "size": file.bytes,
        "contentType": file.mime,
        "session_id": session,
        "storage_session_id": session,
        "metadata": {"original-filename": file.path},
    })
}

fn refused(error: MultipartError) -> ApiError {
    ApiError::new(error.status(), "invalid", error.body_text())
}
