//! A directory of the workspace as one file: a zip or tar archive, made while it is sent.

use super::Route;
use crate::auth::{Access, Caller, Scope};
use crate::error::ApiError;
use crate::http::{Query, attachment};
use crate::live::LiveSession;
use crate::state::AppState;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::sync::Arc;
use tokio::sync::mpsc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Pieces of an archive that wait for the network.
const MAX_WAITING_PIECES: usize = 8;
/// The size of a piece.
const PIECE_BYTES: usize = 128 << 10;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/sessions/{session}/archive",
            Access::Needs(Scope::Read),
            "The files of the workspace, or of a directory in it, as one archive",
            archive,
        )
        .query("path", "the directory; the whole workspace unless told")
        .query("as", "zip or tar; zip unless told")
        .answers(200, "the archive"),
    ]
}

#[derive(Debug, Deserialize)]
struct ArchiveQuery {
    path: Option<String>,
    r#as: Option<String>,
}

async fn archive(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ArchiveQuery>,
) -> Result<Response, ApiError> {
    let live = state.session(&caller, &id).await?;
    let directory = query.path.unwrap_or_default();
    let directory = directory.trim_matches('/');
    let all = live.session.list_files().await?;
    let names: Vec<String> = all
        .into_iter()
        .map(|entry| entry.path)
        .filter(|path| name_in(path, directory).is_some())
        .collect();
    if names.is_empty() && !directory.is_empty() {
        return Err(ApiError::not_found("directory with files"));
    }
    let (kind, write): (_, fn(_, _, _) -> _) = match query.r#as.as_deref() {
        None | Some("zip") => ("zip", write_zip),
        Some("tar") => ("tar", write_tar),
        Some(other) => return Err(ApiError::invalid(format!("as: zip or tar, not `{other}`"))),
    };
    state
        .audit(caller.id(), "file.archive", Some(&id), None)
        .await;
    let name = directory.rsplit('/').next().filter(|name| !name.is_empty());
    let name = format!("{}.{kind}", name.unwrap_or(&id));
    let files = ArchiveFiles {
        live,
        names,
        directory: directory.to_owned(),
    };
    let (sender, mut pieces) = mpsc::channel(MAX_WAITING_PIECES);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let out = PieceWriter {
            sender: sender.clone(),
            piece: Vec::new(),
        };
        if let Err(error) = write(files, out, runtime) {
            // The answer breaks off, so that a client never takes half an archive for a whole one.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let stream = futures_util::stream::poll_fn(move |context| pieces.poll_recv(context));
    attachment(&name, "application/octet-stream", Body::from_stream(stream))
}

/// The name of a file in the archive of a directory; `None` for a file elsewhere.
fn name_in<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    if directory.is_empty() {
        return Some(path);
    }
    path.strip_prefix(directory)?.strip_prefix('/')
}

/// The files of an archive.
struct ArchiveFiles {
    live: Arc<LiveSession>,
    names: Vec<String>,
    directory: String,
}

impl ArchiveFiles {
    /// Opens each file in turn, with its name in the archive and its size. A file that is gone meanwhile is left out.
    fn each(
        self,
        runtime: &tokio::runtime::Handle,
        mut take: impl FnMut(&str, File, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for path in &self.names {
            let Ok(file) = runtime.block_on(self.live.session.open_file(path)) else {
                continue;
            };
            let name = name_in(path, &self.directory).unwrap_or(path);
            let bytes = file.metadata()?.len();
            take(name, file, bytes)?;
        }
        Ok(())
    }
}

fn write_zip(
    files: ArchiveFiles,
    out: PieceWriter,
    runtime: tokio::runtime::Handle,
) -> io::Result<()> {
    let mut archive = ZipWriter::new_stream(out);
    files.each(&runtime, |name, file, bytes| {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .large_file(bytes >= u64::from(u32::MAX));
        archive
            .start_file(name, options)
            .map_err(io::Error::other)?;
        // Code may write to the file meanwhile: what was there at first is what goes into the archive.
        io::copy(&mut file.take(bytes), &mut archive).map(|_| ())
    })?;
    let out = archive.finish().map_err(io::Error::other)?;
    out.into_inner().flush()
}

fn write_tar(
    files: ArchiveFiles,
    out: PieceWriter,
    runtime: tokio::runtime::Handle,
) -> io::Result<()> {
    let mut archive = tar::Builder::new(out);
    files.each(&runtime, |name, file, bytes| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o644);
        header.set_mtime(modified(&file));
        // A file that shrinks meanwhile is filled up with zeros: the header has promised its size.
        let contents = file.take(bytes).chain(io::repeat(0)).take(bytes);
        archive.append_data(&mut header, name, contents)
    })?;
    archive.into_inner()?.flush()
}

fn modified(file: &File) -> u64 {
    let at = file.metadata().and_then(|found| found.modified()).ok();
    let since = at.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// Sends what is written in pieces. Waits while the network is slow.
struct PieceWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            return Ok(());
        }
        let sent = self.sender.blocking_send(Ok(piece.into()));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
