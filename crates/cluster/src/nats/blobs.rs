//! Blobs as chunks on a stream.
//!
//! The head of a blob says how many chunks it has. It is written after them, so a blob that has it is whole, and is written again with each
//! `put`, so its time is that of the last `put`. A removal first replaces the head by a mark. Heads are written on the condition that the
//! head before is the one that was read, so of a `put` and a removal at the same time one comes first: a `put` that comes first makes the
//! blob young, and one that comes second finds the mark and writes all chunks again, behind the place up to which the removal removes.

use super::failed;
use super::log::Log;
use crate::engine::{
    AppendError, Blobs, Digest, EngineError, Sequence, Stored, check_blob_digest, check_blob_length,
};
use crate::runtime::BoxFuture;
use async_nats::jetstream::consumer::DeliverPolicy;
use bytes::{Bytes, BytesMut};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of a chunk: a message of a server has at most 1 MB unless it is set up otherwise.
const CHUNK_BYTES: usize = 512 << 10;
/// The head of a blob that is being removed.
const REMOVED: &[u8] = b"removed";
/// How often a head is written that others write at the same time.
const MAX_WRITE_ATTEMPTS: usize = 20;
const WRITE_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Blobs in chunks.
pub(super) struct NatsBlobs {
    log: Log,
    prefix: String,
}

impl NatsBlobs {
    pub(super) fn new(log: Log, prefix: &str) -> NatsBlobs {
        NatsBlobs {
            log,
            prefix: format!("{prefix}.b."),
        }
    }

    /// Stores a blob or makes it young. `false`: another writer was first, and the head is to be read again.
    async fn try_put(&self, subject: &str, bytes: &Bytes) -> Result<bool, EngineError> {
        let head = self.log.last(subject).await?;
        let after = head.as_ref().map_or(Sequence::START, |head| head.sequence);
        let record = match head {
            Some(Stored { record, .. }) if record != REMOVED => record,
            _ => {
                let mut chunks = 0;
                for chunk in bytes.chunks(CHUNK_BYTES) {
                    let chunk = bytes.slice_ref(chunk);
                    self.log.put(format!("{subject}.{chunks}"), chunk).await?;
                    chunks += 1;
                }
                chunks.to_string().into()
            }
        };
        match self.log.append(subject.to_owned(), after, record).await {
            Ok(_) => Ok(true),
            // A server also does not know while another write of the head is under way.
            Err(AppendError::Conflict | AppendError::Unknown(_)) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Blobs for NatsBlobs {
    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Digest, EngineError>> {
        Box::pin(async move {
            check_blob_length(&bytes)?;
            let digest = Digest::of(&bytes);
            let subject = format!("{}{digest}", self.prefix);
            for _ in 0..MAX_WRITE_ATTEMPTS {
                if self.try_put(&subject, &bytes).await? {
                    return Ok(digest);
                }
                tokio::time::sleep(WRITE_RETRY_PAUSE).await;
            }
            Err(failed(format!("{digest} is written too often at once")))
        })
    }

    fn get<'a>(&'a self, digest: &'a Digest) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}{digest}", self.prefix);
            let head = self.log.last(&subject).await?;
            let Some(stored) = head.filter(|head| head.record != REMOVED) else {
                return Ok(None);
            };
            let chunks: u32 = serde_json::from_slice(&stored.record).map_err(failed)?;
            let mut bytes = BytesMut::new();
            for number in 0..chunks {
                let chunk = self.log.last(&format!("{subject}.{number}")).await?;
                let chunk = chunk.ok_or_else(|| failed(format!("{digest} has a gap")))?;
                bytes.extend_from_slice(&chunk.record);
            }
            check_blob_digest(&bytes, digest)?;
            Ok(Some(bytes.freeze()))
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Digest>, EngineError>> {
        Box::pin(async move {
            let heads = format!("{}*", self.prefix);
            let heads = self.log.read(heads, DeliverPolicy::LastPerSubject).await?;
            let name = |subject: &str| subject.strip_prefix(&self.prefix).map(str::to_owned);
            let names = heads.iter().filter_map(|head| name(&head.subject));
            Ok(names
                .filter_map(|name| Digest::try_from(name).ok())
                .collect())
        })
    }

    fn remove<'a>(
        &'a self,
        digest: &'a Digest,
        unused: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}{digest}", self.prefix);
            let Some(head) = self.log.last_message(&subject).await? else {
                return Ok(true);
            };
            let put = UNIX_EPOCH + Duration::from_millis(head.published_ms);
            let age = SystemTime::now().duration_since(put).unwrap_or_default();
            let mut mark = head.stored.sequence;
            // A mark is left by a removal that was not finished.
            if head.stored.record != REMOVED {
                if age < unused {
                    return Ok(false);
                }
                let marked = self.log.append(subject.clone(), mark, REMOVED.into());
                match marked.await {
                    Ok(sequence) => mark = sequence,
                    // The next removal finds a mark that was written all the same.
                    Err(AppendError::Conflict | AppendError::Unknown(_)) => return Ok(false),
                    Err(error) => return Err(failed(error)),
                }
            }
            self.log.purge_before(format!("{subject}.*"), mark).await?;
            self.log.purge_before(subject, Sequence(mark.0 + 1)).await?;
            Ok(true)
        })
    }
}
