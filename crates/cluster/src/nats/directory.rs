//! Directories of sessions and of runs: a stream that keeps the last message of each subject.
//!
//! An entry that is removed is replaced by an empty message, so that followers see it. A server removes that message after an hour.

use super::failed;
use super::log::Log;
use super::sessions::parse;
use crate::engine::{
    AppendError, ClaimError, Directory, DirectoryReader, EngineError, Epoch, Followed, Placed,
    Sequence, SessionEntry, Stored,
};
use crate::message::encode;
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt as _;

pub(super) struct NatsDirectory {
    log: Log,
    prefix: String,
}

impl NatsDirectory {
    /// A directory whose subjects are this prefix and a name.
    pub(super) fn new(log: Log, prefix: String) -> NatsDirectory {
        NatsDirectory { log, prefix }
    }
}

impl Directory for NatsDirectory {
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        seen: Option<Epoch>,
        entry: &'a SessionEntry,
    ) -> BoxFuture<'a, Result<Epoch, ClaimError>> {
        Box::pin(async move {
            let subject = format!("{}{session}", self.prefix);
            let after = seen.map_or(Sequence::START, |epoch| Sequence(epoch.0));
            let mut appended = self.log.append(subject.clone(), after, encode(entry)).await;
            if seen.is_none()
                && appended == Err(AppendError::Conflict)
                && let Ok(Some(last)) = self.log.last(&subject).await
                && last.record.is_empty()
            {
                appended = self.log.append(subject, last.sequence, encode(entry)).await;
            }
            match appended {
                Ok(sequence) => Ok(Epoch(sequence.0)),
                Err(AppendError::Conflict) => Err(ClaimError::Lost),
                Err(error) => Err(ClaimError::Unknown(error.to_string())),
            }
        })
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Placed>, EngineError>> {
        Box::pin(async move {
            let last = self.log.last(&format!("{}{session}", self.prefix)).await?;
            let last = last.filter(|stored| !stored.record.is_empty());
            last.map(|stored| placed(&stored)).transpose()
        })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.log.put_removal(format!("{}{session}", self.prefix)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SessionId, Placed)>, EngineError>> {
        Box::pin(async move {
            let subject = format!("{}*", self.prefix);
            let read = self
                .log
                .read(subject, DeliverPolicy::LastPerSubject)
                .await?;
            let mut entries = Vec::new();
            let read = read.iter().filter(|read| !read.stored.record.is_empty());
            for message in read {
                let session = name_in(&message.subject, &self.prefix)?;
                entries.push((session, placed(&message.stored)?));
            }
            Ok(entries)
        })
    }

    fn follow(&self) -> BoxFuture<'_, Result<Box<dyn DirectoryReader>, EngineError>> {
        Box::pin(async move {
            let config = pull::OrderedConfig {
                filter_subject: format!("{}*", self.prefix),
                deliver_policy: DeliverPolicy::LastPerSubject,
                ..pull::OrderedConfig::default()
            };
            let stream = &self.log.stream;
            let consumer = stream.create_consumer(config).await.map_err(failed)?;
            let left = consumer.cached_info().num_pending;
            let messages = consumer.messages().await.map_err(failed)?;
            let reader = NatsReader {
                messages,
                prefix: self.prefix.clone(),
                left: Some(left),
            };
            Ok(Box::new(reader) as Box<dyn DirectoryReader>)
        })
    }
}

struct NatsReader {
    messages: pull::Ordered,
    prefix: String,
    /// How many of the entries that were there at the start are still to come. `None`: that was told.
    left: Option<u64>,
}

impl DirectoryReader for NatsReader {
    fn next(&mut self) -> BoxFuture<'_, Result<Followed, EngineError>> {
        Box::pin(async move {
            if self.left == Some(0) {
                self.left = None;
                return Ok(Followed::Current);
            }
            let message = self.messages.next().await;
            let message = message.ok_or_else(|| failed("the changes ended"))?;
            let message = message.map_err(failed)?;
            let info = message.info().map_err(failed)?;
            self.left = self.left.map(|_| info.pending);
            let epoch = Epoch(info.stream_sequence);
            Ok(Followed::Changed {
                id: name_in(&message.subject, &self.prefix)?,
                epoch,
                // Empty: the entry was removed. Unreadable: a newer version wrote it, for its own nodes.
                entry: parse(&message.payload).ok(),
            })
        })
    }
}

/// The session or run of a subject.
fn name_in(subject: &str, prefix: &str) -> Result<SessionId, EngineError> {
    let name = subject.strip_prefix(prefix);
    SessionId::new(name.unwrap_or_default()).map_err(failed)
}

fn placed(stored: &Stored) -> Result<Placed, EngineError> {
    Ok(Placed {
        entry: parse(&stored.record)?,
        epoch: Epoch(stored.sequence.0),
    })
}
