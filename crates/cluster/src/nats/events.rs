//! Live events on a stream in memory.

use super::failed;
use super::log::Log;
use crate::engine::{Delivery, EngineError, EventLog, EventReader, Sequence};
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use async_nats::Client;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bytes::Bytes;
use futures_util::StreamExt as _;

pub(super) struct NatsEvents {
    client: Client,
    log: Log,
    prefix: String,
}

struct NatsReader {
    messages: pull::Ordered,
    /// Whether events before the first message are missing.
    has_gap: bool,
}

impl NatsEvents {
    pub(super) fn new(client: Client, log: Log, prefix: &str) -> NatsEvents {
        NatsEvents {
            client,
            log,
            prefix: format!("{prefix}.e."),
        }
    }
}

impl EventLog for NatsEvents {
    fn publish<'a>(
        &'a self,
        session: &'a SessionId,
        event: Bytes,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let subject = format!("{}{session}", self.prefix);
            self.client.publish(subject, event).await.map_err(failed)
        })
    }

    fn follow<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
    ) -> BoxFuture<'a, Result<Box<dyn EventReader>, EngineError>> {
        Box::pin(async move {
            let is_from_start = after == Sequence::START;
            // If the last event that the reader has is gone, later ones may be gone too.
            let has_gap = !is_from_start && self.log.stream.get_raw_message(after.0).await.is_err();
            let deliver_policy = if is_from_start {
                DeliverPolicy::All
            } else {
                DeliverPolicy::ByStartSequence {
                    start_sequence: after.0 + 1,
                }
            };
            let config = pull::OrderedConfig {
                filter_subject: format!("{}{session}", self.prefix),
                deliver_policy,
                ..pull::OrderedConfig::default()
            };
            let consumer = self
                .log
                .stream
                .create_consumer(config)
                .await
                .map_err(failed)?;
            let messages = consumer.messages().await.map_err(failed)?;
            let reader = NatsReader { messages, has_gap };
            Ok(Box::new(reader) as Box<dyn EventReader>)
        })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.log.purge(format!("{}{session}", self.prefix)))
    }
}

impl EventReader for NatsReader {
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, EngineError>> {
        Box::pin(async move {
            if std::mem::take(&mut self.has_gap) {
                return Ok(Delivery::Gap);
            }
            let message = self.messages.next().await;
            let message = message.ok_or_else(|| failed("the events ended"))?;
            let message = message.map_err(failed)?;
            let sequence = message.info().map_err(failed)?.stream_sequence;
            Ok(Delivery::Event(Sequence(sequence), message.payload.clone()))
        })
    }
}
