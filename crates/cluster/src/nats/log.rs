//! Conditional writes to a subject of a stream, and reads of it.

use super::failed;
use crate::engine::{AppendError, EngineError, Sequence, Stored};
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::time::Duration;

/// How many messages are read at once.
const READ_BATCH_MESSAGES: usize = 500;

/// How often a read is tried, and the pause between two attempts.
const READ_ATTEMPTS: usize = 5;
const READ_PAUSE: Duration = Duration::from_millis(50);

/// How long a reader may be silent before the server removes it.
const READER_AGE: Duration = Duration::from_secs(30);

/// How long the message stays that says that an entry was removed. Followers read everything anew more often than that.
const REMOVAL_AGE: Duration = Duration::from_secs(3600);

/// A message of a stream.
pub(super) struct ReadMessage {
    pub(super) subject: String,
    pub(super) stored: Stored,
    /// When a server stored it, by the clock of that server, in milliseconds since 1970.
    pub(super) published_ms: u64,
}

/// A stream: a log for each of its subjects.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) context: Context,
    pub(super) stream: Stream,
}

impl Log {
    /// Opens a stream, or makes it.
    pub(super) async fn open(context: &Context, config: Config) -> Result<Log, EngineError> {
        let (ttl, per_subject) = (config.allow_message_ttl, config.max_messages_per_subject);
        let mut stream = context.get_or_create_stream(config).await.map_err(failed)?;
        let known = &stream.cached_info().config;
        let has_limit = per_subject != 1 || known.max_messages_per_subject == 1;
        if (ttl && !known.allow_message_ttl) || !has_limit {
            // A stream of an older version.
            let config = Config {
                allow_message_ttl: ttl,
                max_messages_per_subject: per_subject,
                ..known.clone()
            };
            context.update_stream(&config).await.map_err(failed)?;
            stream = context.get_stream(&config.name).await.map_err(failed)?;
        }
        Ok(Log {
            context: context.clone(),
            stream,
        })
    }

    /// Appends to a subject if its last message is at `after`.
    pub(super) async fn append(
        &self,
        subject: String,
        after: Sequence,
        record: Bytes,
    ) -> Result<Sequence, AppendError> {
        let message = PublishMessage::build().expected_last_subject_sequence(after.0);
        self.publish(subject, message.payload(record)).await
    }

    /// Appends to a subject.
    pub(super) async fn put(&self, subject: String, record: Bytes) -> Result<(), EngineError> {
        let message = PublishMessage::build().payload(record);
        let published = self.publish(subject, message).await;
        published.map(drop).map_err(failed)
    }

    /// Replaces the messages of a subject by an empty one, which followers see and which goes away by itself.
    pub(super) async fn put_removal(&self, subject: String) -> Result<(), EngineError> {
        let message = PublishMessage::build().ttl(REMOVAL_AGE);
        let published = self.publish(subject, message).await;
        published.map(drop).map_err(failed)
    }

    /// Removes all messages of a subject.
    pub(super) async fn purge(&self, subject: String) -> Result<(), EngineError> {
        let purged = self.stream.purge().filter(subject).await;
        purged.map(drop).map_err(failed)
    }

    async fn publish(
        &self,
        subject: String,
        message: PublishMessage,
    ) -> Result<Sequence, AppendError> {
        let published = match self.context.send_publish(subject, message).await {
            Ok(acknowledged) => acknowledged.await,
            Err(error) => Err(error),
        };
        match published {
            Ok(acknowledged) => Ok(Sequence(acknowledged.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                Err(AppendError::Conflict)
            }
            // Also errors that say that the server is busy: the message may be stored all the same.
            Err(error) => Err(AppendError::Unknown(error.to_string())),
        }
    }

    /// Removes the messages of a subject before a place.
    pub(super) async fn purge_before(
        &self,
        subject: String,
        place: Sequence,
    ) -> Result<(), EngineError> {
        let purge = self.stream.purge().filter(subject).sequence(place.0);
        purge.await.map(drop).map_err(failed)
    }

    /// The subjects that have messages.
    pub(super) async fn subjects(&self, filter: &str) -> Result<Vec<String>, EngineError> {
        let mut subjects = Vec::new();
        let mut info = self
            .stream
            .info_with_subjects(filter)
            .await
            .map_err(failed)?;
        while let Some(subject) = info.next().await {
            subjects.push(subject.map_err(failed)?.0);
        }
        Ok(subjects)
    }

    /// The last message of a subject, as the stream's leader has it.
    pub(super) async fn last(&self, subject: &str) -> Result<Option<Stored>, EngineError> {
        let last = self.last_message(subject).await?;
        Ok(last.map(|message| message.stored))
    }

    /// The same with its time.
    pub(super) async fn last_message(
        &self,
        subject: &str,
    ) -> Result<Option<ReadMessage>, EngineError> {
        match self.stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(ReadMessage {
                subject: message.subject.to_string(),
                published_ms: milliseconds(message.time.unix_timestamp_nanos()),
                stored: Stored {
                    sequence: Sequence(message.sequence),
                    record: message.payload,
                },
            })),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The messages of a subject, or of several if it has wildcards. A server that is behind may leave out the newest ones.
    ///
    /// A reader that was just made may not be known yet to the server that is asked (503). So a read that fails is tried again.
    pub(super) async fn read(
        &self,
        subject: String,
        which: DeliverPolicy,
    ) -> Result<Vec<ReadMessage>, EngineError> {
        let mut attempts = 0;
        loop {
            let read = self.read_once(subject.clone(), which).await;
            attempts += 1;
            if read.is_ok() || attempts == READ_ATTEMPTS {
                return read;
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
    }

    async fn read_once(
        &self,
        subject: String,
        which: DeliverPolicy,
    ) -> Result<Vec<ReadMessage>, EngineError> {
        let config = pull::Config {
            filter_subject: subject,
            deliver_policy: which,
            ack_policy: AckPolicy::None,
            inactive_threshold: READER_AGE,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(failed)?;
        let mut all = Vec::new();
        loop {
            let before = all.len();
            let fetched = consumer
                .fetch()
                .max_messages(READ_BATCH_MESSAGES)
                .messages()
                .await;
            let mut messages = fetched.map_err(failed)?;
            while let Some(message) = messages.next().await {
                let message = message.map_err(failed)?;
                let info = message.info().map_err(failed)?;
                all.push(ReadMessage {
                    subject: message.subject.to_string(),
                    stored: Stored {
                        sequence: Sequence(info.stream_sequence),
                        record: message.payload.clone(),
                    },
                    published_ms: milliseconds(info.published.unix_timestamp_nanos()),
                });
            }
            if all.len() - before < READ_BATCH_MESSAGES {
                // The server would remove the reader by itself, but later.
                let name = &consumer.cached_info().name;
                let _ = self.stream.delete_consumer(name).await;
                return Ok(all);
            }
        }
    }
}

fn milliseconds(nanoseconds: i128) -> u64 {
    u64::try_from(nanoseconds / 1_000_000).unwrap_or(0)
}
