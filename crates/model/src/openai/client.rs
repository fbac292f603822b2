//! The client: asks, and asks again where that may help.

use super::attempt::{Attempt, Failed, Listener};
use super::body::{DISPENSABLE, body};
use super::key::{Key, is_loopback, without_secrets};
use super::refusal::{Asked, refuses_field};
use super::settings::Settings;
use crate::tokens::{estimate_reply, estimate_request};
use crate::{Capabilities, Event, Model, ModelError, Reply, ReplyStream, Request, Usage};
use futures_util::{StreamExt, stream};
use reqwest::Url;
use reqwest::redirect::Policy;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::Instrument;

/// A model behind an endpoint that speaks the OpenAI protocol.
///
/// Clones share their connections.
#[derive(Clone)]
pub struct OpenAi {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    url: Url,
    asked: Asked,
    http: reqwest::Client,
    /// Fields that this endpoint refused once.
    refused: Mutex<Vec<&'static str>>,
}

impl OpenAi {
    /// A client for these settings. Nothing is sent yet.
    pub fn new(settings: Settings) -> Result<Self, ModelError> {
        if settings.model.trim().is_empty() {
            return Err(ModelError::Settings(
                "the name of the model is empty".into(),
            ));
        }
        let url = completions(&settings.base_url)?;
        let mut headers = reqwest::header::HeaderMap::new();
        if let Some(key) = &settings.key {
            let (name, value) = key.header(settings.key_header)?;
            headers.insert(name, value);
        }
        // The one that is quickest to build. Where the program has chosen another, that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(settings.time_limits.connect)
            // A redirect would turn the request into another one, and carry the key elsewhere.
            .redirect(Policy::none())
            .user_agent(concat!("cellblock/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&settings.base_url) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| {
            ModelError::Settings(format!("no HTTP client can be made: {error}"))
        })?;
        let asked = Asked {
            url: without_secrets(&settings.base_url),
            model: settings.model.clone(),
            key: settings.key.clone(),
            variables: Key::variables(&settings.base_url, None),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                settings,
                url,
                asked,
                http,
                refused: Mutex::default(),
            }),
        })
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.shared.settings.model
    }

    fn capabilities(&self) -> &Capabilities {
        &self.shared.settings.capabilities
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let (listener, mut events) = mpsc::channel(64);
        let shared = Arc::clone(&self.shared);
        let span = tracing::info_span!(
            "model_request",
            model = shared.settings.model,
            messages = request.messages.len(),
            attempts = tracing::field::Empty,
            input_tokens = tracing::field::Empty,
            output_tokens = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        // The work is driven by who reads the events, so dropping the stream ends the request.
        let work = async move { shared.converse(request, listener).await }.instrument(span);
        let events = stream::poll_fn(move |context| events.poll_recv(context));
        let work = stream::once(work).filter_map(|()| std::future::ready(None));
        Box::pin(stream::select(events, work))
    }
}

impl Shared {
    /// Asks until there is a reply or no hope.
    async fn converse(&self, request: Request, listener: Listener) {
        let mut failed = 0;
        let span = tracing::Span::current();
        let outcome = loop {
            let attempt = Attempt {
                asked: &self.asked,
                limits: self.settings.time_limits,
                max_reply_bytes: self.settings.max_reply_bytes,
                listener: &listener,
                began: Instant::now(),
            };
            let failure = match attempt.run(self.http_request(&request)).await {
                Ok(reply) => break Ok(self.with_usage(reply, &request)),
                Err(failure) => failure,
            };
            let adapted = self.adapt(&failure.error, &request);
            if !adapted {
                failed += 1;
            }
            let wait = if adapted {
                Some(Duration::ZERO)
            } else {
                self.wait_after(&failure, failed)
            };
            let Some(wait) = wait else {
                break Err(failure.error);
            };
            tracing::warn!(error = %failure.error, ?wait, "the model is asked again");
            let again = Event::Retrying {
                attempt: failed + 1,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                reason: failure.error.to_string(),
            };
            let _ = listener.send(Ok(again)).await;
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
        let last = outcome.map(|reply| Event::Finished { reply });
        let _ = listener.send(last).await;
    }

    fn http_request(&self, request: &Request) -> reqwest::RequestBuilder {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = &self.settings;
        let body = body(
            &settings.model,
            request,
            &settings.capabilities,
            &settings.extra,
            &refused,
        );
        let accepted = "text/event-stream, application/json";
        let post = self.http.post(self.url.clone());
        post.header(reqwest::header::ACCEPT, accepted).json(&body)
    }

    fn wait_after(&self, failure: &Failed, failed: u32) -> Option<Duration> {
        let wait = self.settings.retries.wait(failed, failure.retry_after);
        wait.filter(|_| failure.error.is_passing())
    }

    /// Whether the endpoint refused a field that we can leave out from now on.
    fn adapt(&self, error: &ModelError, request: &Request) -> bool {
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
        let sent = body(
            &settings.model,
            request,
            &settings.capabilities,
            &settings.extra,
            &refused,
        );
        let field = DISPENSABLE.iter().find(|field| {
            sent.get(**field).is_some()
                && !settings.extra.contains_key(**field)
                && refuses_field(message, field)
        });
        if let Some(field) = field {
            refused.push(field);
        }
        field.is_some()
    }

    fn with_usage(&self, mut reply: Reply, request: &Request) -> Reply {
        if reply.usage == Usage::default() {
            reply.usage = Usage {
                input_tokens: estimate_request(request),
                output_tokens: estimate_reply(&reply),
                estimated: true,
                ..Usage::default()
            };
        }
        reply
    }
}

/// The address of the one operation that we use.
fn completions(base_url: &str) -> Result<Url, ModelError> {
    let unusable = |problem: &str| {
        let shown = without_secrets(base_url);
        ModelError::Settings(format!("the base URL ({shown}) {problem}"))
    };
    let mut url = Url::parse(base_url).map_err(|error| unusable(&format!("is none: {error}")))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(unusable("must begin with http:// or https://"));
    }
    let path = url.path().trim_end_matches('/');
    if !path.ends_with("/chat/completions") {
        let path = format!("{path}/chat/completions");
        url.set_path(&path);
    }
    Ok(url)
}
