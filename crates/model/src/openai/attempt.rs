//! One request, from the connection to the last byte.

use super::lines::{Data, Events};
use super::merge::Growing;
use super::refusal::{Asked, error_in};
use super::settings::TimeLimits;
use crate::{Event, ModelError, Repair, Reply, Waiting};
use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};

/// As much of an answer that is no reply as is read.
const LONGEST_ERROR: usize = 64 << 10;

/// Why one attempt failed.
pub(super) struct Failed {
    pub(super) error: ModelError,
    /// What the endpoint asks for.
    pub(super) retry_after: Option<Duration>,
}

/// Where the events of an attempt go. Nobody listens any more: that is the end of it.
pub(super) type Listener = Sender<Result<Event, ModelError>>;

pub(super) struct Attempt<'a> {
    pub(super) asked: &'a Asked,
    pub(super) limits: TimeLimits,
    pub(super) max_reply_bytes: usize,
    pub(super) listener: &'a Listener,
    pub(super) began: Instant,
}

impl From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

impl Attempt<'_> {
    pub(super) async fn run(&self, request: reqwest::RequestBuilder) -> Result<Reply, Failed> {
        let sent = self.wait(Waiting::FirstByte, self.began, request.send());
        let answer = sent.await?.map_err(|error| self.not_sent(&error))?;
        let status = answer.status().as_u16();
        if status != 200 {
            let retry_after = super::retry::retry_after(answer.headers(), SystemTime::now());
            let body = self.beginning_of(answer.bytes_stream()).await;
            let error = self.asked.refusal(status, &body, retry_after);
            return Err(Failed { error, retry_after });
        }
        let kind = answer.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.starts_with("text/html") {
            let body = self.beginning_of(answer.bytes_stream()).await;
            return Err(self.asked.not_the_protocol(&body).into());
        }
        Ok(self.read(answer.bytes_stream()).await?)
    }

    /// Reads the reply. Whether it is a stream is told by what comes, for headers are often wrong.
    async fn read(
        &self,
        bytes: impl Stream<Item = reqwest::Result<Bytes>>,
    ) -> Result<Reply, ModelError> {
        let mut bytes = std::pin::pin!(bytes);
        let mut growing = Growing::new(self.max_reply_bytes);
        let mut events = Events::default();
        let mut beginning = Vec::new();
        let mut waiting = (Waiting::FirstByte, self.began);
        let mut marked_as_done = false;
        let mut seen_event = false;
        let broken = loop {
            let next = self.wait(waiting.0, waiting.1, bytes.next()).await?;
            waiting = (Waiting::NextPart, Instant::now());
            let bytes = match next {
                None => break None,
                Some(Err(error)) => break Some(root_cause(&error)),
                Some(Ok(bytes)) => bytes,
            };
            // A whole reply in JSON may be on one line, as long as a reply may be.
            if !seen_event && beginning.len() <= self.max_reply_bytes.saturating_mul(2) {
                beginning.extend_from_slice(&bytes);
            }
            let found = events
                .push(&bytes)
                .map_err(|_| ModelError::NotTheProtocol {
                    url: self.asked.url.clone(),
                    problem: "one event of its stream is longer than 8 MiB".into(),
                })?;
            seen_event |= !found.is_empty();
            for data in found {
                marked_as_done |= self.take(data, &mut growing).await?;
            }
            if marked_as_done || growing.is_cut_off() {
                break None;
            }
        };
        if !marked_as_done && let Some(data) = events.finish() {
            seen_event = true;
            marked_as_done |= self.take(data, &mut growing).await?;
        }
        if !seen_event && broken.is_none() {
            self.take_whole(&beginning, &mut growing).await?;
        }
        self.complete(growing, marked_as_done, broken).await
    }

    /// One event. True for the one that marks the end.
    async fn take(&self, data: Data, growing: &mut Growing) -> Result<bool, ModelError> {
        if !data.was_utf8 {
            growing.note(Repair::NotUtf8);
        }
        if data.text.trim() == "[DONE]" {
            return Ok(true);
        }
        let Ok(chunk) = serde_json::from_str::<Value>(&data.text) else {
            let excerpt = self.asked.harmless(&data.text);
            growing.note(Repair::UnreadableChunk { excerpt });
            return Ok(false);
        };
        if let Some(status) = error_in(&chunk) {
            return Err(self.asked.refusal(status, &data.text, None));
        }
        self.tell(growing.push(&chunk)).await;
        Ok(false)
    }

    /// An answer without events: a reply in one piece, or something else.
    async fn take_whole(&self, bytes: &[u8], growing: &mut Growing) -> Result<(), ModelError> {
        let text = String::from_utf8_lossy(bytes);
        let Ok(whole) = serde_json::from_str::<Value>(&text) else {
            return Err(self.asked.not_the_protocol(&text));
        };
        if let Some(status) = error_in(&whole) {
            return Err(self.asked.refusal(status, &text, None));
        }
        if whole.get("choices").is_none() {
            return Err(self.asked.not_the_protocol(&text));
        }
        self.tell(growing.push(&whole)).await;
        Ok(())
    }

    async fn complete(
        &self,
        growing: Growing,
        marked_as_done: bool,
        broken: Option<String>,
    ) -> Result<Reply, ModelError> {
        let url = self.asked.url.clone();
        let is_whole = marked_as_done || growing.has_finish_reason() || growing.is_cut_off();
        if !growing.has_choice() && broken.is_none() {
            let problem = "the list of choices is empty".into();
            return Err(ModelError::EmptyReply { url, problem });
        }
        if !is_whole {
            let problem = broken.unwrap_or_else(|| "the stream ended in the middle".into());
            return Err(ModelError::BrokenOff { url, problem });
        }
        let (events, reply) = growing.finish();
        self.tell(events).await;
        Ok(reply)
    }

    async fn tell(&self, events: Vec<Event>) {
        for event in events {
            // Who stopped listening also dropped this future.
            let _ = self.listener.send(Ok(event)).await;
        }
    }

    /// Waits for something, but not for ever.
    async fn wait<F: Future>(
        &self,
        waiting: Waiting,
        since: Instant,
        future: F,
    ) -> Result<F::Output, ModelError> {
        let limit = match waiting {
            Waiting::Connection => self.limits.connect,
            Waiting::FirstByte => self.limits.first_byte,
            _ => self.limits.next_part,
        };
        let end = self.began + self.limits.whole;
        let own = since + limit;
        let (until, waiting, limit) = if own <= end {
            (own, waiting, limit)
        } else {
            (end, Waiting::WholeReply, self.limits.whole)
        };
        let url = &self.asked.url;
        timeout_at(until, future)
            .await
            .map_err(|_| ModelError::TimedOut {
                url: url.clone(),
                waiting,
                limit,
            })
    }

    fn not_sent(&self, error: &reqwest::Error) -> ModelError {
        let url = self.asked.url.clone();
        if error.is_timeout() {
            return ModelError::TimedOut {
                url,
                waiting: Waiting::Connection,
                limit: self.limits.connect,
            };
        }
        let problem = root_cause(error);
        ModelError::Unreachable { url, problem }
    }

    /// The beginning of an answer; whatever happens on the way, what came is enough.
    async fn beginning_of(&self, bytes: impl Stream<Item = reqwest::Result<Bytes>>) -> String {
        let mut bytes = std::pin::pin!(bytes);
        let mut beginning = Vec::new();
        while beginning.len() < LONGEST_ERROR {
            let next = self.wait(Waiting::NextPart, Instant::now(), bytes.next());
            let Ok(Some(Ok(more))) = next.await else {
                break;
            };
            beginning.extend_from_slice(&more);
        }
        beginning.truncate(LONGEST_ERROR);
        String::from_utf8_lossy(&beginning).into_owned()
    }
}

/// The innermost reason. The outer ones only repeat the address, in which a key may stand.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
