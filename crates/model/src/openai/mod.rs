//! The client for any endpoint that speaks the OpenAI protocol.

mod attempt;
mod http_errors;
mod key;
mod reply_builder;
mod request_body;
mod retry;
mod sse;
mod think_tags;
mod tool_calls;

use crate::tokens::{estimate_reply, estimate_request};
use crate::{Capabilities, Model, ModelError, Reply, ReplyStream, Request, Usage};
use futures_util::{StreamExt, stream};
use http_errors::Endpoint;
use request_body::request_body;
use reqwest::Url;
use reqwest::redirect::Policy;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::Instrument;

pub use key::{ApiKey, KeyHeader};
pub(crate) use key::{is_loopback, url_without_secrets};
pub use request_body::sent_messages;
pub use retry::RetryPolicy;

/// The events of a reply that may wait for their reader. When more come, the request waits.
const MAX_QUEUED_EVENTS: usize = 64;

/// A model behind an endpoint that speaks the OpenAI protocol. Clones share their connections.
#[derive(Clone)]
pub struct OpenAiModel {
    client: Arc<Client>,
}

/// What the client must know about an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointSettings {
    /// The URL without `/chat/completions`, which is added. A query (`?api-version=…`) is kept.
    pub base_url: String,
    /// The name of the model at this endpoint.
    pub model: String,
    /// The API key, where the endpoint needs one.
    pub key: Option<ApiKey>,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// What the model and the endpoint can do.
    pub capabilities: Capabilities,
    /// How long the client waits.
    pub timeouts: RequestTimeouts,
    /// How often a request that failed is sent again.
    pub retries: RetryPolicy,
    /// The longest reply in bytes: text, reasoning and calls together. The rest is not read.
    pub max_reply_bytes: usize,
    /// Fields that are added to the body of every request, for options that only this endpoint has.
    pub extra: Map<String, Value>,
}

/// How long the client waits before a request counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// The time for the connection.
    pub connect: Duration,
    /// The time from the request to the first byte. A model on this machine may read a long prompt for minutes.
    pub first_byte: Duration,
    /// The time between two parts of a reply.
    pub next_part: Duration,
    /// The time for one reply from beginning to end.
    pub whole: Duration,
}

impl EndpointSettings {
    /// The settings of an endpoint and a model, without a key. The capabilities are those that are known by the model's name.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            base_url: base_url.into(),
            capabilities: Capabilities::of_model(&model),
            model,
            key: None,
            key_header: KeyHeader::default(),
            timeouts: RequestTimeouts::default(),
            retries: RetryPolicy::default(),
            max_reply_bytes: 1_000_000,
            extra: Map::new(),
        }
    }

    /// The settings with this key, or with none.
    pub fn with_key(mut self, key: Option<ApiKey>) -> Self {
        self.key = key;
        self
    }
}

impl Default for RequestTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(180),
            next_part: Duration::from_secs(60),
            whole: Duration::from_secs(900),
        }
    }
}

/// The client that all clones of a model share.
struct Client {
    settings: EndpointSettings,
    url: Url,
    endpoint: Endpoint,
    http: reqwest::Client,
    /// Fields that this endpoint refused and that are left out.
    refused: Mutex<Vec<&'static str>>,
}

impl OpenAiModel {
    /// A client with these settings. It sends nothing yet.
    pub fn new(settings: EndpointSettings) -> Result<Self, ModelError> {
        if settings.model.trim().is_empty() {
            return Err(ModelError::Settings(
                "the name of the model is empty".into(),
            ));
        }
        let url = completions_url(&settings.base_url)?;
        let mut headers = reqwest::header::HeaderMap::new();
        if let Some(key) = &settings.key {
            let (name, value) = key.header(settings.key_header)?;
            headers.insert(name, value);
        }
        // `ring` is the provider that is quickest to build. A provider that the program has installed before stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(settings.timeouts.connect)
            // A redirect would change the request, and send the key to another place.
            .redirect(Policy::none())
            .user_agent(concat!("cellblock/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&settings.base_url) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| {
            ModelError::Settings(format!("no HTTP client can be made: {error}"))
        })?;
        let endpoint = Endpoint {
            url: url_without_secrets(&settings.base_url),
            model: settings.model.clone(),
            key: settings.key.clone(),
            variables: ApiKey::variables(&settings.base_url, None),
        };
        Ok(Self {
            client: Arc::new(Client {
                settings,
                url,
                endpoint,
                http,
                refused: Mutex::default(),
            }),
        })
    }
}

impl Model for OpenAiModel {
    fn name(&self) -> &str {
        &self.client.settings.model
    }

    fn capabilities(&self) -> &Capabilities {
        &self.client.settings.capabilities
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let (sender, mut events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let client = Arc::clone(&self.client);
        let span = tracing::info_span!(
            "model_request",
            model = client.settings.model,
            messages = request.messages.len(),
            attempts = tracing::field::Empty,
            input_tokens = tracing::field::Empty,
            output_tokens = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        // Reading the events drives the request too, so dropping the stream ends it.
        let work = async move { client.ask_with_retries(request, sender).await }.instrument(span);
        let events = stream::poll_fn(move |context| events.poll_recv(context));
        let work = stream::once(work).filter_map(|()| std::future::ready(None));
        Box::pin(stream::select(events, work))
    }
}

impl Client {
    fn http_request(&self, request: &Request) -> reqwest::RequestBuilder {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = &self.settings;
        let body = request_body(
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

/// The URL of the endpoint's chat completions.
fn completions_url(base_url: &str) -> Result<Url, ModelError> {
    let unusable = |problem: &str| {
        let shown = url_without_secrets(base_url);
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
