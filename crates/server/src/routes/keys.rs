//! Cells with an idempotency key: sent again, such a cell runs once.

use crate::auth::Caller;
use crate::cluster::{Cluster, KEY_HEADER, KeyState};
use crate::error::ApiError;
use crate::live::{CellOutcome, EventRing, LiveSession, Subject, event_json};
use crate::state::AppState;
use axum::http::HeaderMap;
use cellblock_cluster::RequestKey;
use cellblock_protocol::{Cell, CellResult, Event};
use std::sync::Arc;
use tokio::sync::oneshot;

/// What became of a request for a cell.
pub(super) enum Queued {
    /// The cell waits or runs: its number, and its outcome when it is over.
    New((u64, oneshot::Receiver<CellOutcome>)),
    /// The cell of this key has happened before.
    Done(Box<CellResult>),
}

/// The key of a request, if it has one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(key) = headers.get(KEY_HEADER) else {
        return Ok(None);
    };
    let invalid = |error: String| ApiError::invalid(format!("Idempotency-Key: {error}"));
    let key = key.to_str().map_err(|error| invalid(error.to_string()))?;
    let key = RequestKey::new(key).map_err(|error| invalid(error.to_string()))?;
    Ok(Some(key.to_string()))
}

/// Queues a cell, unless it has happened under this key. While a cell of the key runs, this waits for it.
pub(super) async fn queue(
    state: &AppState,
    cluster: &Arc<Cluster>,
    caller: &Caller,
    live: &Arc<LiveSession>,
    mut cell: Cell,
    key: String,
) -> Result<Queued, ApiError> {
    let guard = match cluster.begin_key(&live.id, &key).await? {
        KeyState::Done(number) => {
            let result = cluster.recorded_result(&live.id, number).await?;
            return Ok(Queued::Done(result));
        }
        KeyState::New(guard) => guard,
    };
    cell.key = Some(key);
    let (state, caller, live) = (state.clone(), caller.clone(), Arc::clone(live));
    // A task: the key is under way until its cell is over, also if the sender of the request goes away.
    let queued = tokio::spawn(async move {
        let (number, outcome) = state.queue_cell(&caller, &live, cell).await?;
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let outcome = outcome.await;
            drop(guard);
            if let Ok(outcome) = outcome {
                let _ = answer.send(outcome);
            }
        });
        Ok(Queued::New((number, answered)))
    });
    let queued = queued.await;
    queued.map_err(|error| ApiError::internal(error.to_string()))?
}

/// The events of a cell that has happened before: its result.
pub(super) async fn ring_of(live: &LiveSession, result: CellResult) -> Arc<EventRing> {
    let ring = EventRing::new(Subject::Session(live.id.clone()), 0);
    let (displays, id, cell) = (live.displays.clone(), live.id.clone(), result.cell);
    let event = Event::Result {
        result: Box::new(result),
    };
    let made = tokio::task::spawn_blocking(move || event_json(event, &id, &displays));
    let (name, fields) = made.await.unwrap_or_default();
    ring.publish(&name, Some(cell), fields);
    ring.close();
    Arc::new(ring)
}
