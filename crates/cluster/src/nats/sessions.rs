//! Members and journals: what sessions and runs need beside the directories.

use super::failed;
use super::log::Log;
use crate::engine::{
    AppendError, Digest, EngineError, Journals, Members, NodeRecord, Sequence, Stored,
    check_record_length, note_silence,
};
use crate::message::encode;
use crate::names::{NodeId, SessionId};
use crate::runtime::BoxFuture;
use async_nats::jetstream::consumer::DeliverPolicy;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How often a journal is read again when a server is behind.
const READ_ATTEMPTS: usize = 50;
const READ_PAUSE: Duration = Duration::from_millis(50);

pub(super) fn parse<T: DeserializeOwned>(record: &Bytes) -> Result<T, EngineError> {
    serde_json::from_slice(record).map_err(failed)
}

pub(super) struct NatsMembers {
    log: Log,
    prefix: String,
    lease: Duration,
}

impl NatsMembers {
    pub(super) fn new(log: Log, prefix: &str, lease: Duration) -> NatsMembers {
        NatsMembers {
            log,
            prefix: format!("{prefix}.n."),
            lease,
        }
    }
}

impl Members for NatsMembers {
    fn renew<'a>(&'a self, record: &'a NodeRecord) -> BoxFuture<'a, Result<Duration, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}{}", self.prefix, record.node);
            self.log.put(subject, encode(record)).await?;
            Ok(self.lease)
        })
    }

    fn leave<'a>(&'a self, node: &'a NodeId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.log.purge(format!("{}{node}", self.prefix)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}*", self.prefix);
            let read = self
                .log
                .read(subject, DeliverPolicy::LastPerSubject)
                .await?;
            let mut nodes = Vec::new();
            for message in &read {
                let record: NodeRecord = parse(&message.stored.record)?;
                nodes.push((record, message.published_ms));
            }
            nodes.sort_by(|(a, _), (b, _)| a.node.cmp(&b.node));
            Ok(note_silence(nodes))
        })
    }
}

pub(super) struct NatsJournals {
    shards: Vec<Log>,
    prefix: String,
}

impl NatsJournals {
    pub(super) fn new(shards: Vec<Log>, prefix: &str) -> NatsJournals {
        NatsJournals {
            shards,
            prefix: prefix.to_owned(),
        }
    }

    /// The stream of a session's journal, and its subject there.
    fn place(&self, session: &SessionId) -> Result<(&Log, String), EngineError> {
        let digest = Digest::of(session.as_str().as_bytes());
        let number = u64::from_str_radix(&digest.as_str()[..8], 16).map_err(failed)?;
        let shard = usize::try_from(number).map_err(failed)? % self.shards.len().max(1);
        let log = self.shards.get(shard);
        let log = log.ok_or_else(|| failed("the cluster has no streams for journals"))?;
        Ok((log, format!("{}.j.{shard}.{session}", self.prefix)))
    }
}

impl Journals for NatsJournals {
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
        record: Bytes,
    ) -> BoxFuture<'a, Result<Sequence, AppendError>> {
        Box::pin(async move {
            check_record_length(&record)?;
            let place = self.place(session);
            let (log, subject) = place.map_err(|error| AppendError::Unknown(error.to_string()))?;
            log.append(subject, after, record).await
        })
    }

    fn last<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Stored>, EngineError>> {
        Box::pin(async move {
            let (log, subject) = self.place(session)?;
            log.last(&subject).await
        })
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionId,
        until: Sequence,
    ) -> BoxFuture<'a, Result<Vec<Stored>, EngineError>> {
        Box::pin(async move {
            let (log, subject) = self.place(session)?;
            for _ in 0..READ_ATTEMPTS {
                let read = log.read(subject.clone(), DeliverPolicy::All).await?;
                let mut records: Vec<_> = read.into_iter().map(|read| read.stored).collect();
                let is_whole = records.last().is_some_and(|last| last.sequence >= until);
                if is_whole {
                    records.retain(|stored| stored.sequence <= until);
                    return Ok(records);
                }
                tokio::time::sleep(READ_PAUSE).await;
            }
            Err(failed("the server that was read from is too far behind"))
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionId>, EngineError>> {
        Box::pin(async move {
            let mut names = Vec::new();
            for (number, shard) in self.shards.iter().enumerate() {
                let prefix = format!("{}.j.{number}.", self.prefix);
                let subjects = shard.subjects(&format!("{prefix}*")).await?;
                let stripped = subjects
                    .iter()
                    .filter_map(|name| name.strip_prefix(&prefix));
                names.extend(stripped.filter_map(|name| SessionId::new(name).ok()));
            }
            Ok(names)
        })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let (log, subject) = self.place(session)?;
            log.purge(subject).await
        })
    }
}
