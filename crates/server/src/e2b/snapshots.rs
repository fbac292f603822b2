//! Copies of sandboxes: forks that run at once, and snapshots that later sandboxes begin with.

use super::create::{NewSandbox, checked_life, sandbox_json};
use super::error::E2bError;
use super::sandbox::{RunState, Sandbox, SandboxState, lock};
use crate::auth::{Caller, random_id};
use crate::copies::SessionCopy;
use crate::http::Query;
use crate::snapshots::{KeptSnapshot, MAX_NAME_CHARS};
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most forks of one request.
const MAX_FORKS: usize = 20;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ForkRequest {
    timeout: Option<u64>,
    count: Option<usize>,
}

/// Copies a sandbox, once or several times. A copy that fails does not take the others back.
pub(super) async fn fork(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Option<Json<ForkRequest>>,
) -> Result<(StatusCode, Json<Vec<Value>>), E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let request = body.map(|Json(request)| request).unwrap_or_default();
    let count = request.count.unwrap_or(1);
    if !(1..=MAX_FORKS).contains(&count) {
        return Err(E2bError::bad_request(format!("count: 1 to {MAX_FORKS}")));
    }
    let life = checked_life(request.timeout)?;
    let mut copies = Vec::new();
    for _ in 0..count {
        let copy = state.fork_sandbox(&caller, &sandbox, life).await;
        copies.push(match copy {
            Ok(copy) => json!({"sandbox": sandbox_json(&state, &copy)}),
            Err(error) => {
                json!({"error": {"code": error.status.as_u16(), "message": error.message}})
            }
        });
    }
    Ok((StatusCode::CREATED, Json(copies)))
}

impl AppState {
    async fn fork_sandbox(
        &self,
        caller: &Caller,
        sandbox: &Sandbox,
        life: std::time::Duration,
    ) -> Result<Arc<Sandbox>, E2bError> {
        let place = self.take_place(&caller.user, sandbox.live.memory)?;
        let session = self
            .while_running(sandbox, async |session| session.fork().await)
            .await?;
        let copy = SessionCopy::of_sandbox(sandbox.live.memory, sandbox.live.last_cell());
        let live = self.adopt_copy(caller, session, copy, place).await?;
        let new = NewSandbox {
            settings: sandbox.settings.clone(),
            life,
            file_metadata: lock(&sandbox.file_metadata).clone(),
        };
        self.add_sandbox(caller, live, new)
    }

    /// Does something with the session of a sandbox; a paused one runs for that moment.
    async fn while_running<T>(
        &self,
        sandbox: &Sandbox,
        work: impl AsyncFnOnce(&cellblock_host::Session) -> Result<T, cellblock_session::Error>,
    ) -> Result<T, E2bError> {
        let session = &sandbox.live.session;
        let was_paused = sandbox.life().state == RunState::Paused;
        if was_paused {
            session.resume().await?;
        }
        let outcome = work(session).await;
        if was_paused {
            session.pause().await?;
        }
        Ok(outcome?)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct SnapshotRequest {
    name: Option<String>,
    memory: Option<bool>,
}

/// Keeps the state of a sandbox aside.
pub(super) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Option<Json<SnapshotRequest>>,
) -> Result<(StatusCode, Json<Value>), E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let request = body.map(|Json(request)| request).unwrap_or_default();
    if request.memory == Some(false) {
        return Err(E2bError::not_offered(
            "a snapshot of the files alone is not offered; leave `memory` out and variables are kept too",
        ));
    }
    if request
        .name
        .as_ref()
        .is_some_and(|name| name.chars().count() > MAX_NAME_CHARS)
    {
        return Err(E2bError::bad_request(format!(
            "name: at most {MAX_NAME_CHARS} characters"
        )));
    }
    state.check_snapshot(&caller, sandbox.live.memory)?;
    let kept = state
        .while_running(&sandbox, async |session| session.freeze().await)
        .await?;
    let snapshot = Arc::new(KeptSnapshot {
        id: random_id("snap")?,
        user: caller.id().to_owned(),
        of: sandbox.id.clone(),
        name: request.name,
        memory: sandbox.live.memory,
        last_cell: sandbox.live.last_cell(),
        state: kept,
        sandbox: Some(SandboxState {
            settings: sandbox.settings.clone(),
            file_metadata: lock(&sandbox.file_metadata).clone(),
        }),
    });
    state.snapshots().add(Arc::clone(&snapshot));
    Ok((StatusCode::CREATED, Json(snapshot_json(&snapshot))))
}

fn snapshot_json(snapshot: &KeptSnapshot) -> Value {
    let names: Vec<String> = snapshot
        .name
        .iter()
        .map(|name| format!("{name}:default"))
        .collect();
    json!({"snapshotID": snapshot.id, "names": names})
}

#[derive(Debug, Deserialize)]
pub(super) struct SnapshotQuery {
    #[serde(rename = "sandboxID")]
    sandbox: Option<String>,
    name: Option<String>,
}

/// Lists the snapshots of the caller.
pub(super) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<SnapshotQuery>,
) -> Json<Vec<Value>> {
    let wanted_name = query
        .name
        .as_deref()
        .map(|name| name.split(':').next().unwrap_or(name));
    let is_wanted = |snapshot: &&Arc<KeptSnapshot>| {
        let sandbox = query.sandbox.as_deref();
        sandbox.is_none_or(|id| super::lookup::bare_id(id) == snapshot.of)
            && wanted_name.is_none_or(|name| snapshot.name.as_deref() == Some(name))
    };
    let snapshots = state.sandbox_snapshots(&caller);
    Json(
        snapshots
            .iter()
            .filter(is_wanted)
            .map(|snapshot| snapshot_json(snapshot))
            .collect(),
    )
}

impl AppState {
    /// The snapshots of sandboxes of this caller.
    fn sandbox_snapshots(&self, caller: &Caller) -> Vec<Arc<KeptSnapshot>> {
        let mut own = self.snapshots().of_user(caller.id());
        own.retain(|snapshot| snapshot.sandbox.is_some());
        own
    }

    /// A snapshot of a sandbox by its id or its name, with or without a tag behind a colon.
    pub(super) fn sandbox_snapshot(
        &self,
        caller: &Caller,
        wanted: &str,
    ) -> Option<Arc<KeptSnapshot>> {
        let bare = wanted.split(':').next().unwrap_or(wanted);
        let mut own = self.sandbox_snapshots(caller).into_iter();
        own.find(|snapshot| snapshot.id == bare || snapshot.name.as_deref() == Some(bare))
    }
}

/// Forgets a snapshot. Sandboxes that were created from it go on.
pub(super) async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, E2bError> {
    let found = state.sandbox_snapshot(&caller, &id);
    let found = found.ok_or_else(|| E2bError::not_found(format!("there is no snapshot `{id}`")))?;
    state.snapshots().remove(&found.id);
    found.state.discard().await;
    Ok(StatusCode::NO_CONTENT)
}
