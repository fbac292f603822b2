//! The way of a session's records into the journal of the cluster: what happened is stored before its caller is answered.

use super::sessions::session_id;
use super::slot::Slot;
use super::{Cluster, unavailable, workspace};
use crate::error::ApiError;
use bytes::Bytes;
use cellblock_cluster::engine::{Blobs, Digest, EngineError};
use cellblock_cluster::{Chain, OwnRecord, RecordBody, RequestKey, RunError};
use cellblock_host::Session;
use cellblock_session::journal::{JournalRecord, JournalSink};
use serde_json::{Value, json};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Records up to this length are in the journal itself, larger ones in blobs: engines carry messages of 1 MB.
const MAX_INLINE_BYTES: usize = 256 << 10;
/// The length of a blob of a large record.
const BLOB_BYTES: usize = 8 << 20;
/// How long a cell runs before the journal says that it has begun. A shorter cell costs one append, and one that is lost with its node
/// within this time has left no trace.
const BEGUN_AFTER: Duration = Duration::from_millis(500);

/// Brings the records of one session into the journal of the cluster.
pub(super) struct ClusterSink {
    slot: Arc<Slot>,
    me: Weak<ClusterSink>,
    /// For the contents of files that a cell changed.
    session: OnceLock<Session>,
}

impl ClusterSink {
    /// The sink of a session.
    pub(super) fn new(slot: Arc<Slot>) -> Arc<ClusterSink> {
        Arc::new_cyclic(|me| ClusterSink {
            slot,
            me: me.clone(),
            session: OnceLock::new(),
        })
    }

    /// Sends all later records of a session here.
    pub(super) fn attach(self: &Arc<Self>, session: &Session) {
        let _ = self.session.set(session.clone());
        session.commit_to(Arc::clone(self) as Arc<dyn JournalSink>);
    }

    /// Stores records in the journal, as one entry.
    pub(super) async fn store(&self, records: Vec<Value>, note: Note) -> Result<(), String> {
        let mut cell = json!({ "records": records });
        if let Some(files) = note.files {
            cell["files"] = files;
        }
        let cell = packed(&*self.slot.engine.blobs, cell).await?;
        let key = match note.key.as_deref().map(RequestKey::new) {
            Some(Ok(key)) => key,
            _ => own_key()?,
        };
        let (committed, outcome) = oneshot::channel();
        let record = OwnRecord {
            key,
            cell,
            result: note
                .cell
                .map_or(Value::Null, |cell| json!({ "cell": cell })),
            committed,
        };
        let begun = Instant::now();
        let committed = match self.slot.records().send(record).await {
            Ok(()) => outcome.await.unwrap_or(Err(RunError::Fenced)),
            Err(_) => Err(RunError::Fenced),
        };
        let metrics = &self.slot.metrics;
        if let Err(error) = committed {
            // Before the session's caller hears of it.
            self.slot.mark_lost();
            metrics.fenced.fetch_add(1, Ordering::Relaxed);
            return Err(error.to_string());
        }
        metrics.note_commit(begun.elapsed());
        if let (Some(key), Some(cell)) = (note.key, note.cell) {
            self.slot.keys.note(key, cell);
        }
        Ok(())
    }

    /// Stores that a long cell has begun, if it still runs.
    async fn store_begun(&self, cell: u64) {
        let records = {
            let mut pending = self.slot.pending();
            let is_running = |record: &Value| record["record"] == "begun" && record["cell"] == cell;
            match pending.records.iter().any(is_running) {
                true => std::mem::take(&mut pending.records),
                false => return,
            }
        };
        // If this fails, the end of the cell fails too, and ends the session.
        let _ = self.store(records, Note::default()).await;
    }

    async fn commit_record(&self, record: JournalRecord) -> Result<(), String> {
        let mut note = Note::default();
        if let JournalRecord::Ended(ended) = &record {
            note.cell = Some(ended.cell);
            if let Some(session) = self.session.get() {
                let changes = &ended.result.files;
                note.files = workspace::store(&*self.slot.engine.blobs, session, changes).await?;
            }
        }
        let value = serde_json::to_value(&record).map_err(|error| error.to_string())?;
        let records = {
            let mut pending = self.slot.pending();
            if let (Some(ended), Some((cell, key))) = (note.cell, pending.running.take())
                && cell == ended
            {
                note.key = Some(key);
            }
            let mut records = std::mem::take(&mut pending.records);
            records.push(value);
            records
        };
        self.store(records, note).await
    }
}

/// What an entry says beside its records.
#[derive(Debug, Default)]
pub(super) struct Note {
    key: Option<String>,
    /// The cell that ended with it.
    cell: Option<u64>,
    files: Option<Value>,
}

impl JournalSink for ClusterSink {
    fn note(&self, record: JournalRecord) {
        let Ok(value) = serde_json::to_value(&record) else {
            return;
        };
        let mut pending = self.slot.pending();
        pending.records.push(value);
        if let JournalRecord::Begun { cell, key, .. } = record {
            pending.running = key.map(|key| (cell, key));
            let me = self.me.clone();
            tokio::spawn(async move {
                tokio::time::sleep(BEGUN_AFTER).await;
                if let Some(sink) = me.upgrade() {
                    sink.store_begun(cell).await;
                }
            });
        }
    }

    fn commit(
        &self,
        record: JournalRecord,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(self.commit_record(record))
    }
}

impl fmt::Debug for ClusterSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClusterSink").finish_non_exhaustive()
    }
}

impl Cluster {
    /// What was recorded of a session. Nothing, if its node was lost before the session was there.
    pub(super) async fn entries(&self, id: &str) -> Result<Vec<JournalEntry>, ApiError> {
        let session = session_id(id)?;
        let failed = |error: EngineError| unavailable(&error.0);
        let last = self.engine.journals.last(&session).await.map_err(failed)?;
        let Some(last) = last else {
            return Ok(Vec::new());
        };
        let stored = self.engine.journals.read(&session, last.sequence).await;
        let mut chain = Chain::start();
        let mut entries = Vec::new();
        for stored in stored.map_err(failed)? {
            let record = chain.follow(&stored.record);
            let record = record.map_err(|error| ApiError::internal(error.to_string()))?;
            if let RecordBody::Cell { cell, .. } = record.body {
                let entry = read_entry(&*self.engine.blobs, &cell).await;
                entries.push(entry.map_err(ApiError::internal)?);
            }
        }
        Ok(entries)
    }
}

/// The records of an entry of a journal, and what it says about files.
pub(super) type JournalEntry = (Vec<JournalRecord>, Option<Value>);

/// Reads an entry of a journal.
pub(super) async fn read_entry(blobs: &dyn Blobs, cell: &Value) -> Result<JournalEntry, String> {
    #[derive(serde::Deserialize)]
    struct WrittenEntry {
        records: Vec<JournalRecord>,
        files: Option<Value>,
    }
    let unreadable = |error: serde_json::Error| format!("a record cannot be read: {error}");
    let cell = unpacked(blobs, cell.clone()).await;
    let cell = cell.map_err(|error| error.to_string())?;
    let entry: WrittenEntry = serde_json::from_value(cell).map_err(unreadable)?;
    Ok((entry.records, entry.files))
}

/// A value for a journal: a long one as blobs.
pub(super) async fn packed(blobs: &dyn Blobs, value: Value) -> Result<Value, String> {
    let bytes = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
    if bytes.len() <= MAX_INLINE_BYTES {
        return Ok(value);
    }
    let digests = put_blobs(blobs, bytes.into()).await?;
    Ok(json!({ "blobs": digests }))
}

/// The value that [`packed`] made this of.
pub(super) async fn unpacked(blobs: &dyn Blobs, value: Value) -> Result<Value, UnpackError> {
    let Some(digests) = value.get("blobs") else {
        return Ok(value);
    };
    let unreadable = |error: serde_json::Error| {
        UnpackError::Damaged(format!("a record cannot be read: {error}"))
    };
    let digests: Vec<Digest> = serde_json::from_value(digests.clone()).map_err(unreadable)?;
    serde_json::from_slice(&get_blobs(blobs, &digests).await?).map_err(unreadable)
}

/// Stores bytes as blobs, in pieces.
pub(super) async fn put_blobs(blobs: &dyn Blobs, bytes: Bytes) -> Result<Vec<Digest>, String> {
    let mut digests = Vec::new();
    for piece in bytes.chunks(BLOB_BYTES) {
        let stored = blobs.put(bytes.slice_ref(piece)).await;
        digests.push(stored.map_err(|error| error.to_string())?);
    }
    Ok(digests)
}

/// Why a stored value cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    /// The engine did not answer. It may later.
    #[error("{0}")]
    Unavailable(String),
    /// A part of the value is missing or was changed.
    #[error("{0}")]
    Damaged(String),
}

impl From<UnpackError> for ApiError {
    fn from(error: UnpackError) -> ApiError {
        match error {
            UnpackError::Unavailable(problem) => unavailable(&problem),
            UnpackError::Damaged(problem) => ApiError::internal(problem),
        }
    }
}

/// The bytes of blobs, put together.
pub(super) async fn get_blobs(
    blobs: &dyn Blobs,
    digests: &[Digest],
) -> Result<Vec<u8>, UnpackError> {
    let mut bytes = Vec::new();
    for digest in digests {
        let piece = blobs.get(digest).await;
        let piece = piece.map_err(|error| UnpackError::Unavailable(error.to_string()))?;
        let missing = || UnpackError::Damaged(format!("the blob {digest} is missing"));
        let piece = piece.ok_or_else(missing)?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// A key for what no request asked for by a key.
fn own_key() -> Result<RequestKey, String> {
    let id = crate::auth::random_id("own-").map_err(|error| error.message)?;
    RequestKey::new(id).map_err(|error| error.to_string())
}
