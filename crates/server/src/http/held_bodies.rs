//! Bodies of requests that are read into memory whole: how much those of one user may take together, and how long they may stay away.

use super::body::{is_over_limit, unreadable_body};
use super::json_values::{bytes_when_read, checked_values, may_be_json};
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
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the bodies of one user may take together, each from its first byte until its request is answered.
const MAX_BYTES_OF_USER: usize = 64 << 20;
/// The same for all callers without a login together. The longest request that they may send fits.
const MAX_BYTES_OF_STRANGERS: usize = 32 << 20;
/// How long a body that has begun may bring nothing.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How long the whole body of a caller without a login may take: what it holds is missing to the others.
const MAX_ARRIVAL_OF_STRANGER: Duration = Duration::from_secs(10);
/// How long the rest of a refused body is taken, and how long it may bring nothing.
const MAX_DISCARD: Duration = Duration::from_secs(10);
const MAX_DISCARD_PAUSE: Duration = Duration::from_secs(1);
const RETRY_AFTER_SECONDS: u64 = 5;

/// The bytes of bodies that are in memory, by the share from which they are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBodies(Arc<Mutex<HashMap<Share, usize>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Share {
    User(String),
    /// All callers without a login have this one together.
    Strangers,
}

impl Share {
    fn max_bytes(&self) -> usize {
        match self {
            Share::User(_) => MAX_BYTES_OF_USER,
            Share::Strangers => MAX_BYTES_OF_STRANGERS,
        }
    }

    fn refusal(&self) -> ApiError {
        let message = match self {
            Share::User(_) => "the requests of this user that are under way are too large together",
            Share::Strangers => {
                "the requests without a login that are under way are too large together"
            }
        };
        ApiError::too_many("too_much", message, RETRY_AFTER_SECONDS)
    }
}

impl HeldBodies {
    /// A body of this user, of which nothing is there yet.
    pub(crate) fn of_user(&self, user: &str) -> HeldBody {
        self.begin(Share::User(user.to_owned()))
    }

    fn begin(&self, share: Share) -> HeldBody {
        HeldBody {
            all: self.clone(),
            share,
            bytes: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Share, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of one body. They are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBody {
    all: HeldBodies,
    share: Share,
    bytes: usize,
}

impl HeldBody {
    /// Counts bytes that came, or refuses them when the share is used up.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut all = self.all.lock();
        let held = all.get(&self.share).copied().unwrap_or(0);
        if held + bytes > self.share.max_bytes() {
            return Err(self.share.refusal());
        }
        if bytes > 0 {
            all.insert(self.share.clone(), held + bytes);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Frees what was counted.
    pub(crate) fn clear(&mut self) {
        let mut all = self.all.lock();
        if let Some(held) = all.get_mut(&self.share) {
            *held -= self.bytes;
            if *held == 0 {
                all.remove(&self.share);
            }
        }
        self.bytes = 0;
    }

    /// Reads a body, up to the limit that it has.
    pub(crate) async fn read(mut self, body: Body) -> Result<HeldBytes, ApiError> {
        let is_of_user = matches!(self.share, Share::User(_));
        let mut pieces = body.into_data_stream();
        let reading = read(&mut pieces, |bytes| self.add(bytes));
        let outcome = match is_of_user {
            true => reading.await,
            false => in_time(reading).await,
        };
        match outcome {
            Ok(bytes) => Ok(HeldBytes { bytes, held: self }),
            Err(refusal) => {
                drop(self);
                discard(pieces).await;
                Err(refusal)
            }
        }
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A body that is in memory. It counts until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    bytes: Bytes,
    held: HeldBody,
}

impl HeldBytes {
    /// Counts what the bytes take when they are read as JSON. Refused where they become too much.
    pub(crate) fn count_json(&mut self) -> Result<(), ApiError> {
        checked_values(&self.bytes)?;
        let bytes = bytes_when_read(&self.bytes);
        let most = self.held.share.max_bytes();
        if self.bytes.len() + bytes > most {
            return Err(ApiError::too_large(format!(
                "the body takes {} MB of memory when it is read as JSON, and {} MB are allowed",
                bytes >> 20,
                most >> 20
            ))
            .hint("send large data as a file"));
        }
        self.held.add(bytes)
    }
}

impl Deref for HeldBytes {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// Reads the body of a request into memory, and counts it until the request is answered: for its user, or for all callers without a login.
pub(crate) async fn hold_body(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let share = match request.extensions().get::<Caller>() {
        Some(caller) => Share::User(caller.id().to_owned()),
        None => Share::Strangers,
    };
    let (parts, body) = request.with_limited_body().into_parts();
    let mut held = state.held_bodies().begin(share).read(body).await?;
    if may_be_json(&parts.headers) {
        held.count_json()?;
    }
    let request = Request::from_parts(parts, Body::from(held.bytes.clone()));
    Ok(next.run(request).await)
}

/// Reads the body of a request that anyone may send. Such a body is not counted: the limit of its route is so low that the number of
/// connections bounds what they all take, and a login does not wait for other callers.
pub(crate) async fn await_short_body(request: Request, next: Next) -> Result<Response, ApiError> {
    let (parts, body) = request.with_limited_body().into_parts();
    let mut pieces = body.into_data_stream();
    match in_time(read(&mut pieces, |_| Ok(()))).await {
        Ok(bytes) => Ok(next
            .run(Request::from_parts(parts, Body::from(bytes)))
            .await),
        Err(refusal) => {
            discard(pieces).await;
            Err(refusal)
        }
    }
}

async fn read(
    pieces: &mut BodyDataStream,
    mut count: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = tokio::time::timeout(MAX_PAUSE, pieces.next())
        .await
        .map_err(|_| stayed_away())?
    {
        let piece = piece.map_err(|error| unreadable_body(&error))?;
        count(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

/// Takes the rest of a body that is refused, without keeping it. A client that still sends would find the connection broken, and would not
/// read why.
async fn discard(mut pieces: BodyDataStream) {
    let rest = async {
        while let Ok(Some(piece)) = tokio::time::timeout(MAX_DISCARD_PAUSE, pieces.next()).await {
            if piece.is_err_and(|error| !is_over_limit(&error)) {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(MAX_DISCARD, rest).await;
}

/// What a caller without a login sends must be there soon.
async fn in_time(
    reading: impl Future<Output = Result<Bytes, ApiError>>,
) -> Result<Bytes, ApiError> {
    tokio::time::timeout(MAX_ARRIVAL_OF_STRANGER, reading)
        .await
        .map_err(|_| late())?
}

fn stayed_away() -> ApiError {
    let seconds = MAX_PAUSE.as_secs();
    too_slow(format!("nothing of the body came for {seconds} seconds"))
}

fn late() -> ApiError {
    let seconds = MAX_ARRIVAL_OF_STRANGER.as_secs();
    too_slow(format!("the body was not there after {seconds} seconds"))
}

fn too_slow(message: String) -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "malformed", message)
}
