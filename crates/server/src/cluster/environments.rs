//! Environments that one node has made, for the others: their archives as blobs, named by a journal of their own.

use crate::error::ServerError;
use bytes::Bytes;
use cellblock_cluster::SessionId;
use cellblock_cluster::engine::{Digest, Engine, EngineError, Sequence, Stored};
use cellblock_env::{EnvironmentArchives, Environments, MadeEnvironment, StoredKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// The length of a piece of an archive.
const PIECE_BYTES: usize = 8 << 20;
/// A larger archive is not stored: other nodes make the environment from the index.
const MAX_ARCHIVE_BYTES: u64 = 4 << 30;
/// How many environments a heartbeat names: those that were used last.
const MAX_TOLD: usize = 64;
/// How old the list of a heartbeat may be.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// Archives in the engine of the cluster.
#[derive(Clone)]
pub(super) struct ClusterArchives {
    engine: Engine,
    /// Where requests to the engine run: the methods are called on threads that may block.
    runtime: Handle,
}

/// The record of an archive. The last one counts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ArchiveRecord {
    environment: String,
    bytes: u64,
    pieces: Vec<Digest>,
}

impl ClusterArchives {
    /// Archives that are used through the runtime of the caller.
    pub(super) fn new(engine: Engine) -> Result<ClusterArchives, ServerError> {
        let runtime = Handle::try_current();
        let runtime = runtime.map_err(|error| ServerError::Options(error.to_string()))?;
        Ok(ClusterArchives { engine, runtime })
    }

    fn last(&self, journal: &SessionId) -> io::Result<Option<Stored>> {
        let last = self.runtime.block_on(self.engine.journals.last(journal));
        last.map_err(failed)
    }

    fn store(&self, made: &MadeEnvironment) -> io::Result<()> {
        let mut pieces = Pieces {
            archives: self,
            buffer: Vec::new(),
            bytes: 0,
            stored: Vec::new(),
        };
        made.write(&mut pieces).map_err(io::Error::other)?;
        pieces.store_piece()?;
        for name in made.names() {
            let record = ArchiveRecord {
                environment: name.clone(),
                bytes: pieces.bytes,
                pieces: pieces.stored.clone(),
            };
            let journal = journal_of(name)?;
            let after = self.last(&journal)?.map(|last| last.sequence);
            let after = after.unwrap_or(Sequence::START);
            let record = Bytes::from(serde_json::to_vec(&record)?);
            let appended = self.engine.journals.append(&journal, after, record);
            // Another node that offers the same at this moment is as good.
            let _ = self.runtime.block_on(appended);
        }
        Ok(())
    }
}

impl EnvironmentArchives for ClusterArchives {
    fn fetch(&self, name: &str, out: &mut dyn Write) -> io::Result<bool> {
        let Some(last) = self.last(&journal_of(name)?)? else {
            return Ok(false);
        };
        let record: ArchiveRecord = serde_json::from_slice(&last.record)?;
        let mut bytes = 0;
        for piece in &record.pieces {
            // The engine checks the bytes against their digest.
            let stored = self.runtime.block_on(self.engine.blobs.get(piece));
            let stored = stored.map_err(failed)?;
            let stored = stored.ok_or_else(|| io::Error::other("a piece of it is missing"))?;
            bytes += stored.len() as u64;
            out.write_all(&stored)?;
        }
        match record.environment == name && record.bytes == bytes {
            true => Ok(true),
            false => Err(io::Error::other("its record does not fit to it")),
        }
    }

    fn offer(&self, made: MadeEnvironment) {
        let archives = self.clone();
        self.runtime.spawn_blocking(move || {
            // What could not be stored is made again by the next node that needs it.
            let _ = archives.store(&made);
        });
    }
}

impl fmt::Debug for ClusterArchives {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClusterArchives").finish_non_exhaustive()
    }
}

/// Stores what is written to it as blobs.
struct Pieces<'a> {
    archives: &'a ClusterArchives,
    buffer: Vec<u8>,
    bytes: u64,
    stored: Vec<Digest>,
}

impl Pieces<'_> {
    fn store_piece(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.buffer));
        let archives = self.archives;
        let stored = archives.runtime.block_on(archives.engine.blobs.put(piece));
        self.stored.push(stored.map_err(failed)?);
        Ok(())
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        self.bytes += taken as u64;
        if self.bytes > MAX_ARCHIVE_BYTES {
            return Err(io::Error::other("the archive is too large"));
        }
        if self.buffer.len() == PIECE_BYTES {
            self.store_piece()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The journal that names the pieces of an archive.
fn journal_of(name: &str) -> io::Result<SessionId> {
    let digest = Digest::of(name.as_bytes());
    SessionId::new(format!("env-{}", &digest.as_str()[..40])).map_err(io::Error::other)
}

fn failed(error: EngineError) -> io::Error {
    io::Error::other(error.0)
}

/// The environments of this node, for its heartbeats.
pub(super) struct ToldEnvironments {
    environments: Environments,
    told: Mutex<Option<(Instant, Vec<String>)>>,
}

impl ToldEnvironments {
    pub(super) fn new(environments: Environments) -> Arc<ToldEnvironments> {
        Arc::new(ToldEnvironments {
            environments,
            told: Mutex::default(),
        })
    }

    /// The ids of the environments that were used last. They are looked up twice a minute.
    pub(super) fn list(&self) -> Vec<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, list)) = told.as_ref()
            && at.elapsed() < TOLD_FOR
        {
            return list.clone();
        }
        let stored = self.environments.list().into_iter();
        let list: Vec<String> = stored
            .filter(|stored| stored.kind == StoredKind::Environment)
            .map(|stored| stored.id)
            .take(MAX_TOLD)
            .collect();
        *told = Some((Instant::now(), list.clone()));
        list
    }
}
