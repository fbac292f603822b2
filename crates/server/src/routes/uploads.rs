//! Files of any size, written while they arrive.

use crate::auth::random_id;
use crate::error::ApiError;
use crate::live::LiveSession;
use axum::body::{Body, BodyDataStream};
use axum::http::StatusCode;
use cellblock_session::Existing;
use futures_util::StreamExt as _;

/// Up to this size a file is held in memory and written to the journal too, so that a session that is rebuilt has it again.
pub(super) const MAX_JOURNALED_BYTES: usize = 16 << 20;
/// What is written at once of a larger file.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the body of a request to a file of the workspace. Returns the size. A body that breaks off or grows too large leaves the
/// file as it was.
pub(super) async fn write_body(
    live: &LiveSession,
    path: &str,
    body: Body,
    max_bytes: u64,
) -> Result<u64, ApiError> {
    let mut body = body.into_data_stream();
    let (first, is_whole) = read_piece(&mut body, MAX_JOURNALED_BYTES).await?;
    if first.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    if is_whole {
        let bytes = first.len() as u64;
        live.session.put_file(path, first).await?;
        return Ok(bytes);
    }
    let paths = live.session.paths();
    let partial = paths.in_workspace(&random_id(".upload-")?);
    let written = write_pieces(live, &partial, first, body, max_bytes).await;
    let renamed = match written {
        Ok(bytes) => replace(live, &partial, path).await.map(|()| bytes),
        Err(error) => Err(error),
    };
    if renamed.is_err() {
        let _ = paths.remove(&partial).await;
    }
    renamed
}

async fn write_pieces(
    live: &LiveSession,
    path: &str,
    first: Vec<u8>,
    mut body: BodyDataStream,
    max_bytes: u64,
) -> Result<u64, ApiError> {
    let (mut piece, mut offset, mut is_last) = (first, 0, false);
    loop {
        let length = piece.len() as u64;
        live.session
            .paths()
            .write(path, offset, piece, Existing::Kept)
            .await?;
        offset += length;
        if is_last {
            return Ok(offset);
        }
        (piece, is_last) = read_piece(&mut body, PIECE_BYTES).await?;
        if offset + piece.len() as u64 > max_bytes {
            return Err(too_large(max_bytes));
        }
    }
}

/// Puts the finished file in the place of the one that may be there.
async fn replace(live: &LiveSession, partial: &str, path: &str) -> Result<(), ApiError> {
    let paths = live.session.paths();
    let target = paths.in_workspace(path);
    // An empty file makes the directories above it, and refuses a path that leads out of the workspace.
    live.session.save_file(path, Vec::new()).await?;
    paths.remove(&target).await?;
    Ok(paths.rename(partial, &target).await?)
}

/// Reads on until there are more than `bytes`, or the body is over. The second value says whether it is over.
async fn read_piece(body: &mut BodyDataStream, bytes: usize) -> Result<(Vec<u8>, bool), ApiError> {
    let mut piece = Vec::new();
    while piece.len() <= bytes {
        match body.next().await {
            Some(Ok(part)) => piece.extend_from_slice(&part),
            Some(Err(error)) => {
                return Err(ApiError::new(
                    StatusCode::BAD_REQUEST,
                    "malformed",
                    format!("the file did not arrive as a whole: {error}"),
                ));
            }
            None => return Ok((piece, true)),
        }
    }
    Ok((piece, false))
}

/// The error for a file that is larger than its user may have.
pub(super) fn too_large(max_bytes: u64) -> ApiError {
    ApiError::too_large(format!("a file has at most {} MB", max_bytes >> 20))
        .hint("an administrator can raise the limit `disk`")
}
