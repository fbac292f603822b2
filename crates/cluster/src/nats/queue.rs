//! A queue of jobs on a work-queue stream.

use super::failed;
use super::log::Log;
use crate::engine::{AppendError, EngineError, Job, Pushed, Queue, Sequence, TakenJob, Ticket};
use crate::names::JobId;
use crate::runtime::BoxFuture;
use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::time::Duration;

/// The consumer that all nodes share.
const CONSUMER: &str = "nodes";

pub(super) struct NatsQueue {
    client: Client,
    jobs: Log,
    answers: Log,
    consumer: PullConsumer,
    prefix: String,
}

impl NatsQueue {
    pub(super) async fn open(
        client: Client,
        jobs: Log,
        answers: Log,
        prefix: &str,
        lease: Duration,
    ) -> Result<NatsQueue, EngineError> {
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: lease,
            ..pull::Config::default()
        };
        let consumer = jobs.stream.get_or_create_consumer(CONSUMER, config).await;
        Ok(NatsQueue {
            client,
            consumer: consumer.map_err(failed)?,
            jobs,
            answers,
            prefix: prefix.to_owned(),
        })
    }

    fn answer_subject(&self, job: &JobId) -> String {
        format!("{}.a.{job}", self.prefix)
    }

    async fn stored_answer(&self, job: &JobId) -> Result<Option<Bytes>, EngineError> {
        let last = self.answers.last(&self.answer_subject(job)).await?;
        Ok(last.map(|stored| stored.record))
    }

    /// Tells the server about a delivery.
    async fn tell(&self, taken: &TakenJob, word: &'static str) -> Result<(), EngineError> {
        let subject = taken.ticket.0.clone();
        let told = self.client.publish(subject, word.into()).await;
        told.map_err(failed)?;
        self.client.flush().await.map_err(failed)
    }
}

impl Queue for NatsQueue {
    fn push<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<Pushed, EngineError>> {
        Box::pin(async move {
            // A job that is finished is no longer in its stream. If it is finished between these two steps it runs again, and its first
            // answer stays.
            if self.stored_answer(&job.id).await?.is_some() {
                return Ok(Pushed::Duplicate);
            }
            let subject = format!("{}.q.{}", self.prefix, job.id);
            let body = job.body.clone();
            match self.jobs.append(subject, Sequence::START, body).await {
                Ok(_) => Ok(Pushed::Stored),
                Err(AppendError::Conflict) => Ok(Pushed::Duplicate),
                Err(error) => Err(failed(error)),
            }
        })
    }

    fn take(&self) -> BoxFuture<'_, Result<Option<TakenJob>, EngineError>> {
        Box::pin(async move {
            let fetched = self.consumer.fetch().max_messages(1).messages().await;
            let Some(message) = fetched.map_err(failed)?.next().await else {
                return Ok(None);
            };
            let message = message.map_err(failed)?;
            let delivery = message.info().map_err(failed)?.delivered;
            let id = message.subject.rsplit('.').next().unwrap_or_default();
            let id = JobId::new(id).map_err(failed)?;
            let ticket = message.reply.as_ref().map(ToString::to_string);
            Ok(Some(TakenJob {
                job: Job {
                    id,
                    body: message.payload.clone(),
                },
                delivery: u64::try_from(delivery).unwrap_or(1),
                ticket: Ticket(ticket.unwrap_or_default()),
            }))
        })
    }

    fn extend<'a>(&'a self, taken: &'a TakenJob) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.tell(taken, "+WPI"))
    }

    fn finish<'a>(
        &'a self,
        taken: &'a TakenJob,
        answer: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, EngineError>> {
        Box::pin(async move {
            let id = &taken.job.id;
            let subject = self.answer_subject(id);
            let stored = self
                .answers
                .append(subject, Sequence::START, answer.clone());
            let standing = match stored.await {
                Ok(_) => answer,
                Err(AppendError::Conflict) => {
                    let earlier = self.stored_answer(id).await?;
                    earlier.ok_or_else(|| failed("the answer is not there yet"))?
                }
                Err(error) => return Err(failed(error)),
            };
            // The answer comes first: a job that is acknowledged without one would be lost.
            self.tell(taken, "+ACK").await?;
            Ok(standing)
        })
    }

    fn answer<'a>(&'a self, job: &'a JobId) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        Box::pin(self.stored_answer(job))
    }
}
