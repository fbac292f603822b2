//! Bodies of requests that are read into memory whole: how much those of one user may take together, and how long they may stay away.

use super::body::unreadable_body;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::AppState;
use axum::RequestExt as _;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use bytes::BytesMut;
use futures_util::StreamExt as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the bodies of one user may take together, each from its first byte until its request is answered.
const MAX_BYTES_OF_USER: usize = 64 << 20;
/// How long a body that has begun may bring nothing.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// What a caller without a login may send: a name and a password, or the secret of a link. And how long all of it may take.
const MAX_BYTES_OF_STRANGER: usize = 16 << 10;
const MAX_TIME_OF_STRANGER: Duration = Duration::from_secs(10);
const RETRY_AFTER_SECONDS: u64 = 5;

/// The bytes of bodies that are in memory, by user.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBodies(Arc<Mutex<HashMap<String, usize>>>);

impl HeldBodies {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of one body. They are free again when this is dropped.
struct HeldBody {
    all: HeldBodies,
    user: String,
    bytes: usize,
}

impl HeldBody {
    fn add(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut all = self.all.lock();
        let of_user = all.entry(self.user.clone()).or_default();
        if *of_user + bytes > MAX_BYTES_OF_USER {
            return Err(ApiError::too_many(
                "too_much",
                "the requests of this user that are under way are too large together",
                RETRY_AFTER_SECONDS,
            ));
        }
        *of_user += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(of_user) = all.get_mut(&self.user) {
            *of_user -= self.bytes;
            if *of_user == 0 {
                all.remove(&self.user);
            }
        }
    }
}

/// Reads the body of a user's request into memory, and counts it until the request is answered.
pub(crate) async fn hold_body(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(caller) = request.extensions().get::<Caller>() else {
        let (parts, body) = request.into_parts();
        let body = Body::from(read_of_stranger(body).await?);
        return Ok(next.run(Request::from_parts(parts, body)).await);
    };
    let mut held = HeldBody {
        all: state.held_bodies().clone(),
        user: caller.id().to_owned(),
        bytes: 0,
    };
    let (parts, body) = request.with_limited_body().into_parts();
    let body = read(body.into_data_stream(), &mut held).await?;
    let request = Request::from_parts(parts, Body::from(body));
    Ok(next.run(request).await)
}

/// Reads the body of a caller without a login: anyone can send one, so it is small and comes soon.
async fn read_of_stranger(body: Body) -> Result<Bytes, ApiError> {
    let reading = axum::body::to_bytes(body, MAX_BYTES_OF_STRANGER);
    let read = tokio::time::timeout(MAX_TIME_OF_STRANGER, reading).await;
    read.map_err(|_| stayed_away(MAX_TIME_OF_STRANGER))?
        .map_err(|error| unreadable_body(&error))
}

async fn read(mut pieces: BodyDataStream, held: &mut HeldBody) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = tokio::time::timeout(MAX_PAUSE, pieces.next())
        .await
        .map_err(|_| stayed_away(MAX_PAUSE))?
    {
        let piece = piece.map_err(|error| unreadable_body(&error))?;
        held.add(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

fn stayed_away(limit: Duration) -> ApiError {
    let message = format!("the rest of the body did not come within {limit:?}");
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "malformed", message)
}
