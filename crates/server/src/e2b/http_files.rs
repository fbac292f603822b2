//! Files over HTTP: downloads, and uploads of any size, with the access token or with a signed URL.

use super::decompression::Decompressed;
use super::error::E2bError;
use super::lookup::{check_user, check_user_name};
use super::sandbox::{MAX_FILES_WITH_METADATA, RunState, Sandbox, lock};
use super::signature::{SignedFile, SignedOperation};
use super::uploads::{MAX_UPLOADS, UploadPlace};
use crate::http::{content_codings, unsupported_coding};
use crate::state::AppState;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Multipart, Request, State};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use cellblock_protocol::FileKind;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek as _};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The most bytes of one file of an upload.
const MAX_UPLOAD_BYTES: u64 = 1 << 30;
/// The most files of one upload.
const MAX_FILES: usize = 1000;
/// The bytes of one piece of a download.
const PIECE_BYTES: usize = 256 << 10;
/// The beginning of the headers with metadata.
const METADATA_PREFIX: &str = "x-metadata-";
/// The most bytes of the metadata of one file.
const MAX_METADATA_BYTES: usize = 16 << 10;

#[derive(Debug, Default, Deserialize)]
pub(super) struct FileQuery {
    path: Option<String>,
    username: Option<String>,
    signature: Option<String>,
    signature_expiration: Option<u64>,
}

type QueryOf = crate::http::Query<FileQuery>;

/// Reads a file.
pub(super) async fn read(
    State(state): State<AppState>,
    query: QueryOf,
    headers: HeaderMap,
) -> Result<Response, E2bError> {
    let sandbox = sandbox_for(&state, &headers, &query.0, SignedOperation::Read).await?;
    download(&sandbox, &query.0, &headers).await
}

/// Writes files.
pub(super) async fn write(
    State(state): State<AppState>,
    query: QueryOf,
    request: Request,
) -> Result<Json<Vec<Value>>, E2bError> {
    let headers = request.headers();
    let sandbox = sandbox_for(&state, headers, &query.0, SignedOperation::Write).await?;
    upload(&state, &sandbox, &query.0, request).await
}

/// Reads a file by a signed URL that names no sandbox.
pub(super) async fn read_signed(
    State(state): State<AppState>,
    query: QueryOf,
    headers: HeaderMap,
) -> Result<Response, E2bError> {
    let sandbox = signer(&state, &query.0, SignedOperation::Read).await?;
    download(&sandbox, &query.0, &headers).await
}

/// Writes files by a signed URL that names no sandbox.
pub(super) async fn write_signed(
    State(state): State<AppState>,
    query: QueryOf,
    request: Request,
) -> Result<Json<Vec<Value>>, E2bError> {
    let sandbox = signer(&state, &query.0, SignedOperation::Write).await?;
    upload(&state, &sandbox, &query.0, request).await
}

impl FileQuery {
    fn signed(&self, operation: SignedOperation) -> SignedFile<'_> {
        SignedFile {
            path: self.path.as_deref().unwrap_or(""),
            user: self.username.as_deref().unwrap_or(""),
            operation,
            expiration: self.signature_expiration,
        }
    }

    /// Where the file is. Refused where the request names none.
    fn path(&self, sandbox: &Sandbox) -> Result<String, E2bError> {
        let path = self.path.as_deref().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| E2bError::bad_request("the request names no path"))?;
        Ok(sandbox.absolute(path))
    }
}

/// The sandbox that the headers name, for a request with its token or with a signature made with it.
async fn sandbox_for(
    state: &AppState,
    headers: &HeaderMap,
    query: &FileQuery,
    operation: SignedOperation,
) -> Result<Arc<Sandbox>, E2bError> {
    match &query.signature {
        Some(_) => signer(state, query, operation).await,
        None => {
            check_user(headers)?;
            state.sandbox_of(headers).await
        }
    }
}

/// The sandbox whose access token made the signature of a URL.
async fn signer(
    state: &AppState,
    query: &FileQuery,
    operation: SignedOperation,
) -> Result<Arc<Sandbox>, E2bError> {
    let missing = || E2bError::unauthenticated("missing signature query parameter");
    let signature = query.signature.as_deref().ok_or_else(missing)?;
    let file = query.signed(operation);
    let all = state.sandboxes().all();
    let found = all
        .iter()
        .find(|sandbox| file.is_signed(&sandbox.token, signature));
    let found = found.ok_or_else(|| E2bError::unauthenticated("invalid signature"))?;
    file.check_expiration()?;
    state.awake(found).await?;
    Ok(Arc::clone(found))
}

async fn download(
    sandbox: &Sandbox,
    query: &FileQuery,
    headers: &HeaderMap,
) -> Result<Response, E2bError> {
    check_user_name(query.username.as_deref().unwrap_or(""))?;
    let path = query.path(sandbox)?;
    let paths = sandbox.live.session.paths();
    let found = paths.stat(&path).await?;
    if found.kind == FileKind::Directory {
        return Err(E2bError::bad_request(format!(
            "path '{path}' is a directory"
        )));
    }
    let file = paths.open(&path).await?;
    let is_regular = file.metadata().is_ok_and(|found| found.is_file());
    if !is_regular {
        return Err(E2bError::bad_request(format!(
            "path '{path}' is not a regular file"
        )));
    }
    let wants_gzip = headers
        .get(ACCEPT_ENCODING)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
    let mut response = match wants_gzip {
        true => {
            let level = flate2::Compression::fast();
            let mut response = body_of(flate2::read::GzEncoder::new(file, level)).into_response();
            let gzip = HeaderValue::from_static("gzip");
            response.headers_mut().insert(CONTENT_ENCODING, gzip);
            response
        }
        false => body_of(file).into_response(),
    };
    let kind = HeaderValue::from_static(cellblock_protocol::mime_of(&path));
    let kind = match kind.as_bytes().starts_with(b"text/html") {
        // A page of a sandbox must not run in the name of this server.
        true => HeaderValue::from_static("text/plain"),
        false => kind,
    };
    response.headers_mut().insert(CONTENT_TYPE, kind);
    let attachment = HeaderValue::from_static("attachment");
    response
        .headers_mut()
        .insert("content-disposition", attachment);
    let policy = HeaderValue::from_static("sandbox; default-src 'none'");
    response
        .headers_mut()
        .insert("content-security-policy", policy);
    Ok(response)
}

/// The bytes of a reader, read on a thread for blocking work and held up by a client that reads slowly.
fn body_of(mut source: impl Read + Send + 'static) -> Body {
    const MAX_WAITING: usize = 4;
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = source.read(&mut piece);
            let is_over = !matches!(read, Ok(1..));
            let sent = match read {
                Ok(0) => return,
                Ok(length) => {
                    piece.truncate(length);
                    sender.blocking_send(Ok(Bytes::from(piece)))
                }
                Err(error) => sender.blocking_send(Err(error)),
            };
            if sent.is_err() || is_over {
                return;
            }
        }
    });
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    Body::from_stream(pieces)
}

async fn upload(
    state: &AppState,
    sandbox: &Sandbox,
    query: &FileQuery,
    request: Request,
) -> Result<Json<Vec<Value>>, E2bError> {
    check_user_name(query.username.as_deref().unwrap_or(""))?;
    let headers = request.headers().clone();
    let upload = Upload {
        state,
        sandbox,
        encoding: encoding_of(&headers)?,
        metadata: metadata_of(&headers)?,
    };
    let is_multipart = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("multipart/form-data"));
    let mut written = Vec::new();
    if !is_multipart {
        let pieces = request.into_body().into_data_stream();
        written.push(
            upload
                .write(query.path(sandbox)?, pieces.map_err(broken))
                .await?,
        );
        return Ok(Json(written));
    }
    let malformed = |error: &dyn std::fmt::Display| E2bError::bad_request(error.to_string());
    let parts = Multipart::from_request(without_limit(request), state).await;
    let mut parts = parts.map_err(|error| malformed(&error))?;
    while let Some(part) = parts
        .next_field()
        .await
        .map_err(|error| malformed(&error))?
    {
        if part.name() != Some("file") {
            continue;
        }
        if written.len() >= MAX_FILES {
            return Err(E2bError::bad_request(format!(
                "at most {MAX_FILES} files in one request"
            )));
        }
        let path = match &query.path {
            Some(_) => query.path(sandbox)?,
            None => {
                let name = part.file_name().filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| E2bError::bad_request("a part has no file name"))?;
                sandbox.absolute(name)
            }
        };
        written.push(upload.write(path, part.map_err(broken)).await?);
    }
    Ok(Json(written))
}

/// The request without the bound on its body: uploads are bounded where they are written.
fn without_limit(mut request: Request) -> Request {
    use axum::extract::DefaultBodyLimit;
    DefaultBodyLimit::disable().apply(&mut request);
    request
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> std::io::Error {
    std::io::Error::other(error)
}

/// How the bytes of an upload are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

fn encoding_of(headers: &HeaderMap) -> Result<Encoding, E2bError> {
    let codings = content_codings(headers);
    match codings.as_slice() {
        [] => Ok(Encoding::Plain),
        [one] if one == "gzip" => Ok(Encoding::Gzip),
        _ => Err(unsupported_coding(&codings).into()),
    }
}

/// The metadata in the headers of an upload.
fn metadata_of(headers: &HeaderMap) -> Result<BTreeMap<String, String>, E2bError> {
    let mut metadata = BTreeMap::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let Some(key) = name
            .as_str()
            .strip_prefix(METADATA_PREFIX)
            .filter(|key| !key.is_empty())
        else {
            continue;
        };
        let value = value.to_str();
        let value =
            value.map_err(|_| E2bError::bad_request(format!("metadata `{key}`: no text")))?;
        bytes += key.len() + value.len();
        if bytes > MAX_METADATA_BYTES {
            return Err(E2bError::bad_request(format!(
                "the metadata of a file has at most {MAX_METADATA_BYTES} bytes"
            )));
        }
        metadata.insert(key.to_owned(), value.to_owned());
    }
    Ok(metadata)
}

/// Files on their way into a sandbox.
struct Upload<'a> {
    state: &'a AppState,
    sandbox: &'a Sandbox,
    encoding: Encoding,
    metadata: BTreeMap<String, String>,
}

impl Upload<'_> {
    /// Writes one file. It is kept aside until all of it is there: a client that vanishes leaves nothing half written.
    async fn write(
        &self,
        path: String,
        pieces: impl Stream<Item = Result<Bytes, std::io::Error>> + Send,
    ) -> Result<Value, E2bError> {
        if self.sandbox.life().state == RunState::Paused {
            return Err(E2bError::sandbox_gone(&self.sandbox.id));
        }
        // Held until the file is in the workspace: until then its bytes are on the disk of the server.
        let (kept, _place) = self.keep_aside(pieces).await?;
        let paths = self.sandbox.live.session.paths();
        if let Ok(found) = paths.stat(&path).await
            && found.kind == FileKind::Directory
        {
            return Err(E2bError::bad_request(format!(
                "path is a directory: {path}"
            )));
        }
        paths.copy_in(&path, kept).await?;
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        let mut written = json!({"name": name, "type": "file", "path": path});
        let mut known = lock(&self.sandbox.file_metadata);
        known.remove(&path);
        if !self.metadata.is_empty() {
            if known.len() >= MAX_FILES_WITH_METADATA {
                return Err(E2bError::bad_request(format!(
                    "at most {MAX_FILES_WITH_METADATA} files of a sandbox have metadata"
                )));
            }
            written["metadata"] = json!(self.metadata);
            known.insert(path, self.metadata.clone());
        }
        Ok(written)
    }

    async fn keep_aside(
        &self,
        pieces: impl Stream<Item = Result<Bytes, std::io::Error>> + Send,
    ) -> Result<(File, UploadPlace), E2bError> {
        const MAX_WAITING: usize = 4;
        let uploads = &self.state.sandboxes().uploads;
        let place = uploads.begin(self.sandbox.caller.id());
        let mut place = place.ok_or_else(|| {
            E2bError::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("at most {MAX_UPLOADS} files are uploaded at the same time"),
            )
        })?;
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let (directory, encoding) = (self.state.data(""), self.encoding);
        let max_bytes = MAX_UPLOAD_BYTES.min(self.sandbox.disk);
        let writing = tokio::task::spawn_blocking(move || {
            let mut file = File::from(rustix::fs::open(
                &directory,
                OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
                Mode::RUSR | Mode::WUSR,
            )?);
            let source = PieceReader {
                pieces: receiver,
                rest: Bytes::new(),
            };
            let limit = max_bytes + 1;
            let mut counted = place.writer(&mut file);
            let bytes = match encoding {
                Encoding::Plain => std::io::copy(&mut source.take(limit), &mut counted)?,
                Encoding::Gzip => {
                    std::io::copy(&mut Decompressed::new(source).take(limit), &mut counted)?
                }
            };
            file.rewind()?;
            Ok::<_, std::io::Error>((file, place, bytes))
        });
        let mut pieces = pin!(pieces);
        let mut failed = None;
        while let Some(piece) = pieces.next().await {
            if let Err(error) = &piece {
                failed = Some(E2bError::bad_request(format!(
                    "the body ended early: {error}"
                )));
            }
            // The writer stops reading when it has failed or has enough.
            if sender.send(piece).await.is_err() || failed.is_some() {
                break;
            }
        }
        drop(sender);
        let written = writing
            .await
            .map_err(|error| unwritten(&std::io::Error::other(error)))?;
        if let Some(failed) = failed {
            return Err(failed);
        }
        match written {
            Ok((file, place, bytes)) if bytes <= max_bytes => Ok((file, place)),
            Ok(_) => Err(E2bError::new(
                StatusCode::INSUFFICIENT_STORAGE,
                format!("a file has at most {} MB in one upload", max_bytes >> 20),
            )),
            Err(error) => Err(unwritten(&error)),
        }
    }
}

fn unwritten(error: &std::io::Error) -> E2bError {
    match error.kind() {
        std::io::ErrorKind::StorageFull => {
            E2bError::new(StatusCode::INSUFFICIENT_STORAGE, "no space left on device")
        }
        std::io::ErrorKind::FileTooLarge => {
            E2bError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
        }
        std::io::ErrorKind::QuotaExceeded => {
            E2bError::new(StatusCode::TOO_MANY_REQUESTS, error.to_string())
        }
        _ => E2bError::bad_request(format!("the upload cannot be kept: {error}")),
    }
}

/// Reads pieces that arrive, on a thread for blocking work.
struct PieceReader {
    pieces: mpsc::Receiver<Result<Bytes, std::io::Error>>,
    rest: Bytes,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.rest.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.rest = piece?,
                None => return Ok(0),
            }
        }
        let length = self.rest.len().min(into.len());
        into[..length].copy_from_slice(&self.rest.split_to(length));
        Ok(length)
    }
}
