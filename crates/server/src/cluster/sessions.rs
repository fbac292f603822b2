//! Real sessions as the cluster's library sees them: opened for an owner, rebuilt from records, ended with their ownership.

use super::journaling::{ClusterSink, JournalEntry, Note, read_entry};
use super::slot::Slot;
use super::workspace::Manifest;
use super::{Cluster, KeyState, unavailable};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::live::LiveSession;
use crate::sessions::report_json;
use crate::state::AppState;
use crate::store::{SessionRow, SessionStatus};
use cellblock_cluster::engine::{Epoch, Placed, SessionEntry, SessionState};
use cellblock_cluster::{
    BoxFuture, Interpreter, Interpreters, OwnRecord, Refusal, RequestKey, SessionId,
};
use cellblock_host::Session;
use cellblock_host::journal::{Checkpoints, Journal};
use cellblock_protocol::CellResult;
use cellblock_session::journal::{CellFate, JournalRecord};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often it is looked whether a session that is to sleep is quiet.
const QUIET_INTERVAL: Duration = Duration::from_millis(20);
/// How long a session may go on before it sleeps all the same.
const QUIET_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the engine may take to choose a leader.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the wait for a session that moves may take.
const TAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens sessions for their owner.
pub(super) struct ClusterSessions {
    state: AppState,
}

impl ClusterSessions {
    pub(super) fn new(state: AppState) -> ClusterSessions {
        ClusterSessions { state }
    }
}

impl Interpreters for ClusterSessions {
    fn open<'a>(
        &'a self,
        session: &'a SessionId,
        about: &'a Value,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, String>> {
        Box::pin(async move {
            let cluster = self.state.cluster().ok_or("the server has no cluster")?;
            let (slot, receiver) = Slot::new(cluster.engine.clone(), Arc::clone(&cluster.metrics));
            let owned = OwnedSession {
                state: self.state.clone(),
                id: session.to_string(),
                about: about.clone(),
                slot: Arc::new(slot),
                receiver: Some(receiver),
                entries: Vec::new(),
            };
            Ok(Box::new(owned) as Box<dyn Interpreter>)
        })
    }
}

/// A session of this node, as the task that owns it holds it. Dropping it ends the session here.
struct OwnedSession {
    state: AppState,
    id: String,
    about: Value,
    slot: Arc<Slot>,
    receiver: Option<mpsc::Receiver<OwnRecord>>,
    /// The recorded entries, until the rebuild.
    entries: Vec<JournalEntry>,
}

impl Interpreter for OwnedSession {
    fn run<'a>(&'a mut self, _key: &'a RequestKey, _cell: &'a Value) -> BoxFuture<'a, Value> {
        Box::pin(async { json!({"error": "cells of a server come as requests of HTTP"}) })
    }

    fn replay<'a>(
        &'a mut self,
        key: &'a RequestKey,
        cell: &'a Value,
        recorded: &'a Value,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            if let Some(number) = recorded["cell"].as_u64() {
                self.slot.keys.note(key.to_string(), number);
            }
            let entry = read_entry(&*self.slot.engine.blobs, cell).await?;
            self.entries.push(entry);
            Ok(())
        })
    }

    fn finish_rebuild(&mut self, owners: u64) -> BoxFuture<'_, Result<Vec<String>, String>> {
        Box::pin(async move {
            let told = self.rebuild(owners).await?;
            if let Some(cluster) = self.state.cluster() {
                let slot = Arc::clone(&self.slot);
                cluster.slots().insert(self.id.clone(), slot);
            }
            Ok(told)
        })
    }

    fn take_records(&mut self) -> Option<mpsc::Receiver<OwnRecord>> {
        self.receiver.take()
    }

    fn quiet(&self) -> BoxFuture<'static, ()> {
        self.slot.begin_ending();
        let (state, id) = (self.state.clone(), self.id.clone());
        let is_closed = self.slot.is_closed();
        let chat = self.about["chat"].as_str().map(str::to_owned);
        Box::pin(async move {
            let is_busy = || {
                let chat = chat.as_deref().and_then(|chat| state.chats().get(chat));
                let live = state.live().get(&id);
                chat.is_some_and(|chat| chat.is_answering())
                    || live.is_some_and(|live| live.queued() > 0)
            };
            let wait = async {
                while is_busy() && !is_closed {
                    tokio::time::sleep(QUIET_INTERVAL).await;
                }
            };
            let _ = tokio::time::timeout(QUIET_TIMEOUT, wait).await;
        })
    }
}

impl OwnedSession {
    /// Makes the session again from its records. A new session has none, and is opened by the request for it.
    async fn rebuild(&mut self, owners: u64) -> Result<Vec<String>, String> {
        let entries = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            let cluster = self.state.cluster();
            return match cluster.is_some_and(|cluster| cluster.opening().contains(&self.id)) {
                true => Ok(Vec::new()),
                false => Err("its first node was lost before the session was there".to_owned()),
            };
        }
        let (journal, manifest) = journal_of(&self.id, entries).map_err(|error| error.message)?;
        let user = self.about["user"].as_str().unwrap_or_default();
        let user = self.state.user_of_cluster(user).await;
        let user = user.map_err(|error| error.message)?;
        let restore = self
            .state
            .restore_for(&user)
            .checkpoints(Checkpoints::Afterwards)
            .journal(self.state.data("journals").as_path());
        let restored = restore.run(self.state.host(), &journal).await;
        let restored = restored.map_err(|error| error.to_string())?;
        let session = restored.session;
        let mut differences = manifest.restore(&*self.slot.engine.blobs, &session).await;
        let mut told = report_json(&restored.report);
        told["files"] = json!(differences);
        told["replayed_by"] = json!(self.state.cluster().map(|cluster| cluster.node.id()));
        let cells = journal.summary().cells;
        let last_cell = cells.iter().map(|cell| cell.number).max().unwrap_or(0);
        let mut row = row(&self.id, &user.id, SessionState::Live, &self.about);
        row.life = i64::try_from(owners).unwrap_or(i64::MAX);
        ClusterSink::new(Arc::clone(&self.slot)).attach(&session);
        let live = self
            .state
            .add_live(&row, session, last_cell, Some(told.clone()));
        live.publish("rebuilt", told);
        let metrics = self.state.metrics();
        metrics.sessions_rebuilt.fetch_add(1, Ordering::Relaxed);
        self.slot.metrics.adopted.fetch_add(1, Ordering::Relaxed);
        differences.extend(restored.report.differences.iter().map(|difference| {
            let cell = difference.cell.map(|cell| format!("cell {cell}: "));
            format!("{}{}", cell.unwrap_or_default(), difference.what)
        }));
        Ok(differences)
    }
}

impl Drop for OwnedSession {
    fn drop(&mut self) {
        if !self.slot.is_closed() {
            self.slot.metrics.left.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(cluster) = self.state.cluster() {
            let mut slots = cluster.slots();
            let is_same = |slot: &Arc<Slot>| Arc::ptr_eq(slot, &self.slot);
            if slots.get(&self.id).is_some_and(is_same) {
                slots.remove(&self.id);
            }
        }
        // Its conversation holds the session. It begins anew, over the session as it is then.
        if let Some(chat) = self.about["chat"].as_str() {
            self.state.chats().remove(chat);
        }
        if let Some(live) = self.state.live().remove(&self.id) {
            tokio::spawn(async move { live.suspend().await });
        }
    }
}

/// The journal that the entries of a cluster's journal make, and the files that belong to it.
fn journal_of(id: &str, entries: Vec<JournalEntry>) -> Result<(Journal, Manifest), ApiError> {
    let records = entries
        .iter()
        .flat_map(|(records, _)| records.iter().cloned());
    let journal = Journal::from_records(id, records);
    let journal = journal.map_err(|error| ApiError::internal(error.to_string()))?;
    let cells = journal.summary().cells;
    let is_kept = |number: u64| {
        let mut of_number = cells.iter().filter(|cell| cell.number == number);
        of_number
            .next_back()
            .is_some_and(|cell| cell.fate == CellFate::Kept)
    };
    let mut manifest = Manifest::default();
    for (records, files) in &entries {
        for record in records {
            match (record, files) {
                (JournalRecord::PutFile { path, .. }, _) => manifest.forget(path),
                (JournalRecord::Ended(ended), Some(files)) if is_kept(ended.cell) => {
                    manifest.add(files)
                }
                _ => {}
            }
        }
    }
    Ok((journal, manifest))
}

/// A session of the directory in the form in which the server's store tells of sessions.
fn row(id: &str, user: &str, state: SessionState, about: &Value) -> SessionRow {
    let text = |name: &str| about[name].as_str().map(str::to_owned);
    SessionRow {
        id: id.to_owned(),
        user: user.to_owned(),
        title: text("title").unwrap_or_default(),
        parent: text("parent"),
        chat: text("chat"),
        journal: None,
        status: match state {
            SessionState::Live | SessionState::Asleep => SessionStatus::Open,
            SessionState::Closed => SessionStatus::Closed,
        },
        reason: None,
        life: 0,
        memory: about["memory"].as_i64().unwrap_or(0),
        created_at: about["created_at"].as_i64().unwrap_or(0),
        used_at: about["created_at"].as_i64().unwrap_or(0),
    }
}

/// What the directory says about a session. `environment` is the id of its environment: a node that has it comes first.
fn about(user: &str, row: &SessionRow, environment: &Value) -> Value {
    json!({
        "environment": environment,
        "user": user,
        "title": row.title,
        "parent": row.parent,
        "chat": row.chat,
        "memory": row.memory,
        "created_at": row.created_at,
    })
}

impl Cluster {
    /// The row of a session of this caller.
    pub(crate) async fn row(&self, caller: &Caller, id: &str) -> Result<SessionRow, ApiError> {
        let placed = self.placed_of(caller, id).await?;
        let Placed { entry, .. } = placed;
        Ok(row(id, caller.id(), entry.state, &entry.about))
    }

    /// All sessions of this caller, the newest first, each with its node and whether it has processes.
    pub(crate) async fn rows(
        &self,
        caller: &Caller,
    ) -> Result<Vec<(SessionRow, Placed)>, ApiError> {
        let listed = self.sessions_of(&caller.user.name).await?.into_iter();
        let rows = listed.map(|(id, placed)| {
            let Placed { entry, .. } = &placed;
            (row(&id, caller.id(), entry.state, &entry.about), placed)
        });
        Ok(rows.collect())
    }

    async fn placed_of(&self, caller: &Caller, id: &str) -> Result<Placed, ApiError> {
        let placed = self.placed(id).await?;
        let is_own = |placed: &Placed| placed.entry.about["user"] == caller.user.name.as_str();
        let placed = placed.filter(is_own);
        placed.ok_or_else(|| ApiError::not_found("session"))
    }

    /// Makes a session that was just opened here one of the cluster: claimed by this node, with its first records in its journal.
    pub(crate) async fn add(
        &self,
        user: &str,
        row: &SessionRow,
        session: &Session,
    ) -> Result<(), ApiError> {
        self.opening().insert(row.id.clone());
        let environment = json!(self.environments.id_of(session.python()));
        let taken = self.take_new(row, about(user, row, &environment)).await;
        self.opening().remove(&row.id);
        taken?;
        let moved = || unavailable("the session moved while it was opened");
        let slot = self.slot(&row.id).ok_or_else(moved)?;
        let records = session.records().await;
        let records = records.map_err(|error| ApiError::internal(error.to_string()))?;
        let values: Result<Vec<Value>, _> = records.iter().map(serde_json::to_value).collect();
        let values = values.map_err(|error| ApiError::internal(error.to_string()))?;
        let sink = ClusterSink::new(slot);
        let stored = sink.store(values, Note::default()).await;
        stored.map_err(|error| unavailable(&error))?;
        sink.attach(session);
        Ok(())
    }

    /// Claims a new session. An engine that is choosing a leader is waited for.
    async fn take_new(&self, row: &SessionRow, about: Value) -> Result<(), ApiError> {
        let session = session_id(&row.id)?;
        let deadline = tokio::time::Instant::now() + ENGINE_TIMEOUT;
        let mut seen = None;
        loop {
            match self.node.take(&session, seen, about.clone()).await {
                Ok(_) => return Ok(()),
                Err(Refusal::Busy | Refusal::Moved) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(QUIET_INTERVAL).await;
                    // An attempt that the engine did not answer may have claimed it all the same.
                    if let Ok(Some(placed)) = self.placed(&row.id).await {
                        seen = Some(placed.epoch);
                    }
                }
                Err(refusal) => return Err(refused(&refusal)),
            }
        }
    }

    /// Brings a session of this caller to this node, from wherever it is.
    pub(crate) async fn bring(
        &self,
        state: &AppState,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let session = session_id(id)?;
        let deadline = tokio::time::Instant::now() + TAKE_TIMEOUT;
        loop {
            if let Some(live) = state.live().get(id) {
                return Ok(live);
            }
            let placed = self.placed_of(caller, id).await?;
            let seen: Option<Epoch> = match placed.entry.state {
                SessionState::Closed => return Err(closed(id)),
                SessionState::Asleep => Some(placed.epoch),
                // Asks its node to let go of it; a node that is gone needs not be asked.
                SessionState::Live => {
                    let is_free = self.gateway.release(&session, &placed).await;
                    is_free.then_some(placed.epoch)
                }
            };
            if let Some(seen) = seen {
                match self.node.take(&session, Some(seen), Value::Null).await {
                    Ok(_) | Err(Refusal::Moved | Refusal::Busy | Refusal::Epoch) => {}
                    Err(refusal) => return Err(refused(&refusal)),
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(unavailable("the session did not come here in time"));
            }
            if state.live().get(id).is_none() {
                tokio::time::sleep(QUIET_INTERVAL).await;
            }
        }
    }

    /// The journal of a session, from the cluster.
    pub(crate) async fn journal(&self, id: &str) -> Result<Journal, ApiError> {
        let entries = self.entries(id).await?;
        if entries.is_empty() {
            return Err(ApiError::not_found("journal"));
        }
        journal_of(id, entries).map(|(journal, _)| journal)
    }

    /// Looks up a key of a session of this node. A key that is under way is waited for.
    pub(crate) async fn begin_key(&self, id: &str, key: &str) -> Result<KeyState, ApiError> {
        let slot = self.slot(id);
        let slot = slot.ok_or_else(|| unavailable("the session is moving"))?;
        Ok(slot.keys.begin(key).await)
    }

    /// The result of a cell that has happened, from the journal. Long texts in it are cut.
    pub(crate) async fn recorded_result(
        &self,
        id: &str,
        number: u64,
    ) -> Result<Box<CellResult>, ApiError> {
        let journal = self.journal(id).await?;
        let found = journal
            .lines
            .into_iter()
            .rev()
            .find_map(|line| match line.record {
                JournalRecord::Ended(ended) if ended.cell == number => Some(Box::new(ended.result)),
                _ => None,
            });
        found.ok_or_else(|| ApiError::not_found("cell"))
    }

    /// Lets a session of this node sleep until the next request for it.
    pub(crate) async fn put_to_sleep(&self, id: &str) {
        if let Ok(session) = session_id(id) {
            self.node.end(&session, SessionState::Asleep).await;
        }
    }

    /// Closes a session for good, wherever it is.
    pub(crate) async fn close(&self, id: &str) -> Result<(), ApiError> {
        let session = session_id(id)?;
        let deadline = tokio::time::Instant::now() + TAKE_TIMEOUT;
        while tokio::time::Instant::now() < deadline {
            if let Some(slot) = self.slot(id) {
                slot.mark_closed();
                self.node.end(&session, SessionState::Closed).await;
            }
            let Some(placed) = self.placed(id).await? else {
                return Ok(());
            };
            let is_free = match placed.entry.state {
                SessionState::Closed => return Ok(()),
                SessionState::Asleep => true,
                SessionState::Live => self.gateway.release(&session, &placed).await,
            };
            if is_free {
                let entry = SessionEntry {
                    state: SessionState::Closed,
                    ..placed.entry
                };
                // Another node may have taken it meanwhile: then it is looked at again.
                let directory = &self.engine.directory;
                let _ = directory.claim(&session, Some(placed.epoch), &entry).await;
            }
            tokio::time::sleep(QUIET_INTERVAL).await;
        }
        Err(unavailable("the session could not be closed in time"))
    }

    /// Changes the title of a session of this node.
    pub(crate) async fn rename(&self, user: &str, row: &SessionRow) -> Result<(), ApiError> {
        let session = session_id(&row.id)?;
        let placed = self.placed(&row.id).await?;
        let environment = placed.map(|placed| placed.entry.about["environment"].clone());
        let about = about(user, row, &environment.unwrap_or_default());
        let described = self.node.describe(&session, about).await;
        described.map_err(|error| unavailable(&error.to_string()))
    }
}

pub(super) fn session_id(id: &str) -> Result<SessionId, ApiError> {
    SessionId::new(id).map_err(|_| ApiError::not_found("session"))
}

pub(super) fn closed(id: &str) -> ApiError {
    ApiError::new(
        axum::http::StatusCode::GONE,
        "ended",
        format!("session `{id}` was closed"),
    )
    .hint("its journal can still be read and exported")
}

fn refused(refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::Full => unavailable("this node takes no more sessions"),
        Refusal::Failed { message } => ApiError::internal(message.clone()),
        other => unavailable(&format!("this node cannot take the session now: {other:?}")),
    }
}
