//! Files of a session's workspace: listed, read in ranges, written, moved, removed.

use super::{BodyKind, Route, uploads};
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::{JsonBody, disposition};
use crate::state::AppState;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use cellblock_protocol::mime_of;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;

/// What is read of a file at once.
const CHUNK_BYTES: u64 = 256 << 10;
/// Browsers treat a file that they show nevertheless as a page of nowhere, without scripts.
const FILE_POLICY: &str = "sandbox; default-src 'none'";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/files",
            Access::Needs(Scope::Read),
            "List the files of the workspace",
            list,
        ),
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/files/{*path}",
            Access::Needs(Scope::Read),
            "Read a file, or a range of it",
            read,
        ),
        Route::new(
            Method::PUT,
            "/v1/sessions/{session}/files/{*path}",
            Access::Needs(Scope::Run),
            "Write a file, with the directories above it",
            write,
        )
        .takes_kind(BodyKind::Bytes)
        .max_body_bytes(usize::MAX),
        Route::new(
            Method::DELETE,
            "/v1/sessions/{session}/files/{*path}",
            Access::Needs(Scope::Run),
            "Remove a file, or a directory with all that is in it",
            remove,
        ),
        Route::new(
            Method::POST,
            "/v1/sessions/{session}/move",
            Access::Needs(Scope::Run),
            "Rename a file or a directory; nothing may be at the new path",
            rename,
        )
        .takes::<MoveRequest>(),
    ]
}

async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    Ok(Json(json!({"files": live.session.list_files().await?})))
}

async fn write(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let max_bytes = state.quotas_of(&caller.user).disk;
    let announced =
        header(request.headers(), CONTENT_LENGTH).and_then(|length| length.parse().ok());
    if announced.is_some_and(|bytes: u64| bytes > max_bytes) {
        return Err(uploads::too_large(max_bytes));
    }
    let bytes = uploads::write_body(&live, &path, request.into_body(), max_bytes).await?;
    live.publish("file_written", json!({"path": path, "bytes": bytes}));
    state
        .audit(caller.id(), "file.write", Some(&id), Some(path.clone()))
        .await;
    Ok(Json(
        json!({"path": path, "bytes": bytes, "mime": mime_of(&path)}),
    ))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let paths = live.session.paths();
    paths.remove(&paths.in_workspace(&inside(&path)?)).await?;
    live.publish("file_removed", json!({"path": path}));
    state
        .audit(caller.id(), "file.remove", Some(&id), Some(path))
        .await;
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveRequest {
    /// The path of the file or directory.
    from: String,
    /// Its new path.
    to: String,
}

async fn rename(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<MoveRequest>,
) -> Result<Json<Value>, ApiError> {
    let live = state.session(&caller, &id).await?;
    let paths = live.session.paths();
    let (from, to) = (inside(&request.from)?, inside(&request.to)?);
    if let Some((above, _)) = to.rsplit_once('/') {
        paths.make_dir(&paths.in_workspace(above)).await?;
    }
    paths
        .rename(&paths.in_workspace(&from), &paths.in_workspace(&to))
        .await?;
    live.publish("file_moved", json!({"from": from, "to": to}));
    state
        .audit(caller.id(), "file.move", Some(&id), Some(to))
        .await;
    Ok(Json(json!({})))
}

/// A path below the workspace. The workspace itself and everything outside is refused.
fn inside(path: &str) -> Result<String, ApiError> {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.is_empty() || parts.contains(&"..") || path.contains('\0') {
        return Err(ApiError::invalid(format!(
            "`{path}` is no path below the workspace"
        )));
    }
    Ok(parts.join("/"))
}

async fn read(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let live = state.session(&caller, &id).await?;
    let file = live.session.open_file(&path).await?;
    let found = file
        .metadata()
        .map_err(|error| ApiError::internal(error.to_string()))?;
    let size = found.len();
    let tag = format!("\"{:x}-{:x}-{size:x}\"", found.mtime(), found.mtime_nsec());
    let mut response = Response::new(Body::empty());
    let name = path.rsplit('/').next().unwrap_or(&path);
    set(&mut response, ETAG, &tag)?;
    set(&mut response, ACCEPT_RANGES, "bytes")?;
    set(&mut response, CONTENT_DISPOSITION, &disposition(name))?;
    set(&mut response, CONTENT_SECURITY_POLICY, FILE_POLICY)?;
    if header(&headers, IF_NONE_MATCH).is_some_and(|known| known == tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let range = match header(&headers, RANGE) {
        Some(range) => wanted_range(range, size).map_err(|()| {
            ApiError::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "invalid",
                format!("the file has {size} bytes"),
            )
        })?,
        None => None,
    };
    let (begin, end) = range.unwrap_or((0, size));
    if range.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        set(
            &mut response,
            CONTENT_RANGE,
            &format!("bytes {begin}-{}/{size}", end - 1),
        )?;
    }
    set(&mut response, CONTENT_TYPE, mime_of(&path))?;
    set(&mut response, CONTENT_LENGTH, &(end - begin).to_string())?;
    *response.body_mut() = body_of(file, begin, end);
    Ok(response)
}

fn set(response: &mut Response, name: HeaderName, value: &str) -> Result<(), ApiError> {
    let value =
        HeaderValue::from_str(value).map_err(|error| ApiError::internal(error.to_string()))?;
    response.headers_mut().insert(name, value);
    Ok(())
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The bytes of a range: from the first up to and without the second. `None` for several ranges, which are answered with the whole.
fn wanted_range(text: &str, size: u64) -> Result<Option<(u64, u64)>, ()> {
    let Some(range) = text
        .strip_prefix("bytes=")
        .filter(|range| !range.contains(','))
    else {
        return Ok(None);
    };
    let (first, last) = range.trim().split_once('-').ok_or(())?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| ());
    let (begin, end) = match (first, last) {
        ("", last) => (size.saturating_sub(number(last)?), size),
        (first, "") => (number(first)?, size),
        (first, last) => (number(first)?, number(last)?.saturating_add(1).min(size)),
    };
    match begin < end {
        true => Ok(Some((begin, end))),
        false => Err(()),
    }
}

/// Reads a file in pieces, each on a thread for blocking work. A file that shrinks meanwhile breaks the answer off.
fn body_of(file: File, begin: u64, end: u64) -> Body {
    let file = Arc::new(file);
    let pieces = futures_util::stream::try_unfold(begin, move |at| {
        let file = Arc::clone(&file);
        async move {
            if at >= end {
                return Ok(None);
            }
            let piece = tokio::task::spawn_blocking(move || {
                let length = usize::try_from((end - at).min(CHUNK_BYTES)).unwrap_or(0);
                let mut piece = vec![0; length];
                file.read_exact_at(&mut piece, at).map(|()| piece)
            });
            let piece = piece.await.map_err(std::io::Error::other)??;
            let next = at + piece.len() as u64;
            Ok::<_, std::io::Error>(Some((Bytes::from(piece), next)))
        }
    });
    Body::from_stream(pieces)
}

#[cfg(test)]
mod tests {
    use super::wanted_range;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        assert_eq!(wanted_range("bytes=0-3", 10), Ok(Some((0, 4))));
        assert_eq!(wanted_range("bytes=7-", 10), Ok(Some((7, 10))));
        assert_eq!(wanted_range("bytes=-4", 10), Ok(Some((6, 10))));
        assert_eq!(wanted_range("bytes=-40", 10), Ok(Some((0, 10))));
        assert_eq!(wanted_range("bytes=8-99", 10), Ok(Some((8, 10))));
        assert_eq!(wanted_range("bytes=0-1,3-4", 10), Ok(None));
        assert_eq!(wanted_range("lines=1-2", 10), Ok(None));
        for wrong in ["bytes=10-", "bytes=5-2", "bytes=a-b", "bytes=", "bytes=-0"] {
            assert_eq!(wanted_range(wrong, 10), Err(()), "{wrong}");
        }
    }
}
