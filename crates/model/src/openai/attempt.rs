//! One request to the endpoint, from the connection to the last byte.

use super::RequestTimeouts;
use super::http_errors::{Endpoint, error_status};
use super::reply_builder::ReplyBuilder;
use super::sse::{SseData, SseDecoder};
use crate::{ModelError, Reply, ReplyEvent, ReplyRepair, TimeoutPhase};
use bytes::Bytes;
use cellblock_protocol::{JsonError, parse_json_within};
use futures_core::Stream;
use futures_util::StreamExt;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};

/// The bytes that are read of a response that is no reply.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// The most memory that an event, or a reply without events, may take once it is parsed.
const MAX_JSON_MEMORY: usize = 64 << 20;

/// Why one attempt failed.
pub(super) struct AttemptError {
    pub(super) error: ModelError,
    /// The time that the endpoint asks to wait before the next attempt.
    pub(super) retry_after: Option<Duration>,
}

/// The sender of a reply's events to its reader.
pub(super) type EventSender = Sender<Result<ReplyEvent, ModelError>>;

/// One attempt to get a reply.
pub(super) struct Attempt<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) timeouts: RequestTimeouts,
    pub(super) max_reply_bytes: usize,
    pub(super) events: &'a EventSender,
    pub(super) started: Instant,
}

impl From<ModelError> for AttemptError {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

impl Attempt<'_> {
    /// Sends the request and reads the reply.
    pub(super) async fn run(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<Reply, AttemptError> {
        let sent = self.wait(TimeoutPhase::FirstByte, self.started, request.send());
        let response = sent.await?.map_err(|error| self.send_error(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            let retry_after = super::retry::retry_after(response.headers(), SystemTime::now());
            let body = self.beginning_of(response.bytes_stream()).await;
            let error = self.endpoint.error_of_response(status, &body, retry_after);
            return Err(AttemptError { error, retry_after });
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.starts_with("text/html") {
            let body = self.beginning_of(response.bytes_stream()).await;
            return Err(self.endpoint.invalid_response(&body).into());
        }
        Ok(self.read(response.bytes_stream()).await?)
    }

    /// Reads the reply. The bytes decide whether it is a stream, because headers are often wrong.
    async fn read(
        &self,
        bytes: impl Stream<Item = reqwest::Result<Bytes>>,
    ) -> Result<Reply, ModelError> {
        let mut bytes = std::pin::pin!(bytes);
        let mut builder = ReplyBuilder::new(self.max_reply_bytes);
        let mut decoder = SseDecoder::default();
        let mut beginning = Vec::new();
        let mut wait = (TimeoutPhase::FirstByte, self.started);
        let mut is_marked_done = false;
        let mut has_event = false;
        let broken = loop {
            let next = self.wait(wait.0, wait.1, bytes.next()).await?;
            wait = (TimeoutPhase::NextPart, Instant::now());
            let bytes = match next {
                None => break None,
                Some(Err(error)) => break Some(root_cause(&error)),
                Some(Ok(bytes)) => bytes,
            };
            // An endpoint that does not stream sends the whole reply as JSON, on one line.
            if !has_event && beginning.len() <= self.max_reply_bytes.saturating_mul(2) {
                beginning.extend_from_slice(&bytes);
            }
            let found = decoder
                .push(&bytes)
                .map_err(|_| ModelError::InvalidResponse {
                    url: self.endpoint.url.clone(),
                    problem: "one event of its stream is longer than 8 MiB".into(),
                })?;
            has_event |= !found.is_empty();
            for data in found {
                is_marked_done |= self.take_event(data, &mut builder).await?;
            }
            if is_marked_done || builder.is_cut_off() {
                break None;
            }
        };
        if !is_marked_done && let Some(data) = decoder.finish() {
            has_event = true;
            is_marked_done |= self.take_event(data, &mut builder).await?;
        }
        if !has_event && broken.is_none() {
            self.take_whole(&beginning, &mut builder).await?;
        }
        self.complete(builder, is_marked_done, broken).await
    }

    /// Takes one event of the stream. Returns true for the event that marks the end.
    async fn take_event(
        &self,
        data: SseData,
        builder: &mut ReplyBuilder,
    ) -> Result<bool, ModelError> {
        if !data.was_utf8 {
            builder.note(ReplyRepair::NotUtf8);
        }
        if data.text.trim() == "[DONE]" {
            return Ok(true);
        }
        let chunk: Value = match parse_json_within(data.text.as_bytes(), MAX_JSON_MEMORY) {
            Ok(chunk) => chunk,
            Err(JsonError::TooManyValues { .. }) => return Err(self.too_many_values()),
            Err(JsonError::Json(_)) => {
                let excerpt = self.endpoint.excerpt_without_key(&data.text);
                builder.note(ReplyRepair::UnreadableChunk { excerpt });
                return Ok(false);
            }
        };
        if let Some(status) = error_status(&chunk) {
            return Err(self.endpoint.error_of_response(status, &data.text, None));
        }
        self.send_events(builder.push(&chunk)).await;
        Ok(false)
    }

    /// Takes a response without events: a whole reply as JSON, or something else.
    async fn take_whole(&self, bytes: &[u8], builder: &mut ReplyBuilder) -> Result<(), ModelError> {
        let text = String::from_utf8_lossy(bytes);
        let whole: Value = match parse_json_within(text.as_bytes(), MAX_JSON_MEMORY) {
            Ok(whole) => whole,
            Err(JsonError::TooManyValues { .. }) => return Err(self.too_many_values()),
            Err(JsonError::Json(_)) => return Err(self.endpoint.invalid_response(&text)),
        };
        if let Some(status) = error_status(&whole) {
            return Err(self.endpoint.error_of_response(status, &text, None));
        }
        if whole.get("choices").is_none() {
            return Err(self.endpoint.invalid_response(&text));
        }
        self.send_events(builder.push(&whole)).await;
        Ok(())
    }

    fn too_many_values(&self) -> ModelError {
        ModelError::InvalidResponse {
            url: self.endpoint.url.clone(),
            problem: "a part of it would take more than 64 MiB of memory once it is parsed".into(),
        }
    }

    async fn complete(
        &self,
        builder: ReplyBuilder,
        is_marked_done: bool,
        broken: Option<String>,
    ) -> Result<Reply, ModelError> {
        let url = self.endpoint.url.clone();
        let is_whole = is_marked_done || builder.has_finish_reason() || builder.is_cut_off();
        if !builder.has_choice() && broken.is_none() {
            let problem = "the list of choices is empty".into();
            return Err(ModelError::EmptyReply { url, problem });
        }
        if !is_whole {
            let problem = broken.unwrap_or_else(|| "the stream ended in the middle".into());
            return Err(ModelError::Interrupted { url, problem });
        }
        let (events, reply) = builder.finish();
        self.send_events(events).await;
        Ok(reply)
    }

    async fn send_events(&self, events: Vec<ReplyEvent>) {
        for event in events {
            // A reader that stopped reading has dropped this future too.
            let _ = self.events.send(Ok(event)).await;
        }
    }

    /// Waits for a future, up to the time limit of this phase and of the whole reply.
    async fn wait<F: Future>(
        &self,
        phase: TimeoutPhase,
        since: Instant,
        future: F,
    ) -> Result<F::Output, ModelError> {
        let limit = match phase {
            TimeoutPhase::Connection => self.timeouts.connect,
            TimeoutPhase::FirstByte => self.timeouts.first_byte,
            _ => self.timeouts.next_part,
        };
        let end = self.started + self.timeouts.whole;
        let own = since + limit;
        let (until, phase, limit) = if own <= end {
            (own, phase, limit)
        } else {
            (end, TimeoutPhase::WholeReply, self.timeouts.whole)
        };
        let url = &self.endpoint.url;
        timeout_at(until, future)
            .await
            .map_err(|_| ModelError::TimedOut {
                url: url.clone(),
                phase,
                limit,
            })
    }

    fn send_error(&self, error: &reqwest::Error) -> ModelError {
        let url = self.endpoint.url.clone();
        if error.is_timeout() {
            return ModelError::TimedOut {
                url,
                phase: TimeoutPhase::Connection,
                limit: self.timeouts.connect,
            };
        }
        let problem = root_cause(error);
        ModelError::Unreachable { url, problem }
    }

    /// The beginning of a response as text. Errors on the way only make it shorter.
    async fn beginning_of(&self, bytes: impl Stream<Item = reqwest::Result<Bytes>>) -> String {
        let mut bytes = std::pin::pin!(bytes);
        let mut beginning = Vec::new();
        while beginning.len() < MAX_ERROR_BYTES {
            let next = self.wait(TimeoutPhase::NextPart, Instant::now(), bytes.next());
            let Ok(Some(Ok(more))) = next.await else {
                break;
            };
            beginning.extend_from_slice(&more);
        }
        beginning.truncate(MAX_ERROR_BYTES);
        String::from_utf8_lossy(&beginning).into_owned()
    }
}

/// The innermost cause of an error. The outer ones only repeat the URL, which may contain a key.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
