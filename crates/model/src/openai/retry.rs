//! Retries: which failed requests are sent again, and how long the client waits before that.

use super::Client;
use super::attempt::{Attempt, AttemptError, EventSender};
use super::http_errors::refuses_field;
use super::request_body::{OPTIONAL_FIELDS, request_body};
use crate::{ModelError, ReplyEvent, Request};
use reqwest::header::HeaderMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};

/// How often a request is sent again after it failed, and how long the client waits before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The number of attempts in all, with the first one.
    pub max_attempts: u32,
    /// The wait before the second attempt. Each further wait is twice as long, times a random number from 0.5 to 1.5.
    pub first_wait: Duration,
    /// The longest wait. An endpoint that asks for a longer one is not asked again.
    pub max_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 4,
            first_wait: Duration::from_millis(500),
            max_wait: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// The wait after this number of failed attempts. `None` where there is no further attempt.
    fn wait_after(&self, failed: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if failed >= self.max_attempts {
            return None;
        }
        if let Some(wait) = retry_after {
            return (wait <= self.max_wait).then_some(wait);
        }
        let doubled = self.first_wait.saturating_mul(1 << (failed - 1).min(16));
        // Many programs that failed at the same moment must not retry at the same moment.
        Some(doubled.mul_f64(0.5 + random_fraction()).min(self.max_wait))
    }
}

impl Client {
    /// Asks for a reply until there is one or no further attempt makes sense, and sends its events.
    pub(super) async fn ask_with_retries(&self, request: Request, events: EventSender) {
        let mut failed = 0;
        let span = tracing::Span::current();
        let outcome = loop {
            let attempt = Attempt {
                endpoint: &self.endpoint,
                timeouts: self.settings.timeouts,
                max_reply_bytes: self.settings.max_reply_bytes,
                events: &events,
                started: Instant::now(),
            };
            let failure = match attempt.run(self.http_request(&request)).await {
                Ok(reply) => break Ok(self.with_usage(reply, &request)),
                Err(failure) => failure,
            };
            let wait = if self.leave_out_refused_field(&failure.error, &request) {
                Some(Duration::ZERO)
            } else {
                failed += 1;
                self.wait_after(&failure, failed)
            };
            let Some(wait) = wait else {
                break Err(failure.error);
            };
            tracing::warn!(error = %failure.error, ?wait, "the model is asked again");
            let retrying = ReplyEvent::Retrying {
                attempt: failed + 1,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                reason: failure.error.to_string(),
            };
            let _ = events.send(Ok(retrying)).await;
            sleep(wait).await;
        };
        span.record("attempts", failed + 1);
        match &outcome {
            Ok(reply) => {
                span.record("input_tokens", reply.usage.input_tokens);
                span.record("output_tokens", reply.usage.output_tokens);
                span.record("outcome", "ok");
                for repair in &reply.repairs {
                    tracing::warn!(%repair, "the reply was repaired");
                }
            }
            Err(error) => {
                span.record("outcome", error.to_string());
            }
        }
        let last = outcome.map(|reply| ReplyEvent::Finished { reply });
        let _ = events.send(last).await;
    }

    fn wait_after(&self, failure: &AttemptError, failed: u32) -> Option<Duration> {
        let wait = self
            .settings
            .retries
            .wait_after(failed, failure.retry_after);
        wait.filter(|_| failure.error.is_transient())
    }

    /// Whether the endpoint refused a field that can be left out. The field is left out from now on.
    fn leave_out_refused_field(&self, error: &ModelError, request: &Request) -> bool {
        let ModelError::Refused {
            status: 400 | 422,
            message,
            ..
        } = error
        else {
            return false;
        };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = &self.settings;
        let sent = request_body(
            &settings.model,
            request,
            &settings.capabilities,
            &settings.extra,
            &refused,
        );
        let field = OPTIONAL_FIELDS.iter().find(|field| {
            sent.get(**field).is_some()
                && !settings.extra.contains_key(**field)
                && refuses_field(message, field)
        });
        if let Some(field) = field {
            refused.push(field);
        }
        field.is_some()
    }
}

/// The wait that the header `Retry-After` asks for, in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let text = text("retry-after")?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// A random number from 0 to 1. The standard library seeds each hasher anew, which is random enough here.
fn random_fraction() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
