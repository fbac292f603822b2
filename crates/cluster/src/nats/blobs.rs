//! Blobs as chunks on a stream.

use super::failed;
use super::log::Log;
use crate::engine::{
    AppendError, Blobs, Digest, EngineError, Sequence, check_blob_digest, check_blob_length,
};
use crate::runtime::BoxFuture;
use bytes::{Bytes, BytesMut};

/// The length of a chunk: a message of a server has at most 1 MB unless it is set up otherwise.
const CHUNK_BYTES: usize = 512 << 10;

/// Blobs in chunks. The message that says how many chunks there are comes last, so a blob that has it is whole.
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

    /// Stores a message under a subject that is written once.
    async fn put_once(&self, subject: String, bytes: Bytes) -> Result<(), EngineError> {
        match self.log.append(subject, Sequence::START, bytes).await {
            // The digest is part of the subject, so what is there already is the same.
            Ok(_) | Err(AppendError::Conflict) => Ok(()),
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
            let mut chunks = 0;
            for chunk in bytes.chunks(CHUNK_BYTES) {
                let chunk = bytes.slice_ref(chunk);
                self.put_once(format!("{subject}.{chunks}"), chunk).await?;
                chunks += 1;
            }
            self.put_once(subject, chunks.to_string().into()).await?;
            Ok(digest)
        })
    }

    fn get<'a>(&'a self, digest: &'a Digest) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}{digest}", self.prefix);
            let Some(stored) = self.log.last(&subject).await? else {
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
}
