//! The nodes of a cluster over HTTP. Every node answers for all runs and sessions, so a node that does not answer is replaced by the next.

use crate::failure::Usage;
use reqwest::header::{HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The variable with the token.
pub(super) const TOKEN_VARIABLE: &str = "CELLBLOCK_TOKEN";
/// How long the nodes are asked again before a request counts as lost. Runs are safe in the queue while the nodes are slow or away, so
/// there is no hurry.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a node may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How many requests are under way at the same time, however many tasks run. More would make busy nodes slower, and not the evaluation
/// faster: a description of a run that waits costs a node a look at the whole queue. Streams of events do not count.
const MAX_REQUESTS: usize = 8;
/// How long all nodes are left alone after none of them answered.
const ROUND_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait that a node may ask for with `Retry-After`. A longer one is an error: a limit of the day, for example.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The addresses of a cluster's nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    client: Client,
    urls: Vec<Url>,
    token: Option<HeaderValue>,
    /// A permit for each request that may be under way.
    permits: Semaphore,
    /// The place of the node that is asked first: the last one that answered.
    current: AtomicUsize,
}

/// A request to any node.
#[derive(Clone, Debug)]
pub(super) struct NodeRequest<'a> {
    method: Method,
    path: Vec<&'a str>,
    body: Option<&'a Value>,
    key: Option<&'a str>,
}

/// The answer of a node.
#[derive(Debug)]
pub(super) struct NodeResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl<'a> NodeRequest<'a> {
    /// A request that reads. The path has its parts as they are; they are encoded here.
    pub(super) fn get(path: impl IntoIterator<Item = &'a str>) -> NodeRequest<'a> {
        NodeRequest::new(Method::GET, path)
    }

    /// A request that may be sent twice without harm.
    pub(super) fn post(path: impl IntoIterator<Item = &'a str>) -> NodeRequest<'a> {
        NodeRequest::new(Method::POST, path)
    }

    /// A request that removes something.
    pub(super) fn delete(path: impl IntoIterator<Item = &'a str>) -> NodeRequest<'a> {
        NodeRequest::new(Method::DELETE, path)
    }

    /// Adds a body.
    pub(super) fn body(mut self, body: &'a Value) -> NodeRequest<'a> {
        self.body = Some(body);
        self
    }

    /// Adds an idempotency key.
    pub(super) fn key(mut self, key: &'a str) -> NodeRequest<'a> {
        self.key = Some(key);
        self
    }

    fn new(method: Method, path: impl IntoIterator<Item = &'a str>) -> NodeRequest<'a> {
        NodeRequest {
            method,
            path: path.into_iter().collect(),
            body: None,
            key: None,
        }
    }
}

impl NodeResponse {
    /// The body as JSON; null if it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as JSON, or what the node refused the request with.
    pub(super) fn good(self) -> Result<Value, String> {
        match self.status < 300 {
            true => Ok(self.json()),
            false => Err(self.problem()),
        }
    }

    fn problem(&self) -> String {
        let json = self.json();
        let message = json["message"].as_str();
        let message = message.map_or_else(|| format!("status {}", self.status), str::to_owned);
        match json["hint"].as_str() {
            Some(hint) => format!("{message} ({hint})"),
            None => message,
        }
    }
}

impl Nodes {
    /// The nodes at these addresses. Nothing is sent yet.
    pub(super) fn new(addresses: &[String]) -> anyhow::Result<Nodes> {
        let urls = addresses.iter().map(|address| url(address));
        let urls = urls.collect::<anyhow::Result<Vec<Url>>>()?;
        let token = std::env::var(TOKEN_VARIABLE).ok();
        let token = token.map(|token| token.trim().to_owned());
        let token = token.filter(|token| !token.is_empty()).map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Usage::plain(format!("{TOKEN_VARIABLE} is no token")))?;
            value.set_sensitive(true);
            Ok::<_, anyhow::Error>(value)
        });
        // The second time there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Nodes {
            client: Client::builder().connect_timeout(REQUEST_TIMEOUT).build()?,
            urls,
            token: token.transpose()?,
            permits: Semaphore::new(MAX_REQUESTS),
            current: AtomicUsize::new(0),
        })
    }

    /// Sends a request to the first node that answers, and waits where a node asks for it. The error says what the last node did.
    pub(super) async fn send(&self, request: &NodeRequest<'_>) -> Result<NodeResponse, String> {
        self.send_within(request, SUBMIT_TIMEOUT).await
    }

    /// Sends a request to each node at most once, until one answers.
    pub(super) async fn send_once(
        &self,
        request: &NodeRequest<'_>,
    ) -> Result<NodeResponse, String> {
        self.send_within(request, Duration::ZERO).await
    }

    /// Opens a stream of events at the node that answered last.
    pub(super) async fn stream(&self, request: &NodeRequest<'_>) -> Result<Response, String> {
        let at = self.current.load(Ordering::Relaxed);
        let sent = self.request(request, at).send();
        let opened = tokio::time::timeout(REQUEST_TIMEOUT, sent).await;
        match opened.map_err(|_| ()).and_then(|sent| sent.map_err(drop)) {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(format!("status {}", response.status().as_u16())),
            Err(()) => {
                self.leave(at);
                Err("no answer".to_owned())
            }
        }
    }

    /// The node that answered last does not answer: the next request goes to another one.
    pub(super) fn leave_current(&self) {
        self.leave(self.current.load(Ordering::Relaxed));
    }

    async fn send_within(
        &self,
        request: &NodeRequest<'_>,
        patience: Duration,
    ) -> Result<NodeResponse, String> {
        let deadline = Instant::now() + patience;
        let mut failures = 0;
        loop {
            let at = self.current.load(Ordering::Relaxed);
            let problem = match self.send_to(request, at).await {
                Ok((answer, wait)) if answer.status == 429 => {
                    let wait = wait.filter(|wait| *wait <= MAX_RETRY_AFTER);
                    let wait = wait.ok_or_else(|| answer.problem())?;
                    tokio::time::sleep(wait).await;
                    continue;
                }
                // The node is there, and cannot reach what it needs: a part of the cluster is lost or starts.
                Ok((answer, _)) if matches!(answer.status, 502..=504) => answer.problem(),
                Ok((answer, _)) => return Ok(answer),
                Err(problem) => problem,
            };
            failures += 1;
            let is_round = failures % self.urls.len() == 0;
            if is_round && Instant::now() >= deadline {
                return Err(format!("{}: {problem}", self.url(at)));
            }
            self.leave(at);
            if is_round {
                tokio::time::sleep(ROUND_PAUSE).await;
            }
        }
    }

    async fn send_to(
        &self,
        request: &NodeRequest<'_>,
        at: usize,
    ) -> Result<(NodeResponse, Option<Duration>), String> {
        // The time limit counts from here on.
        let _permit = self.permits.acquire().await;
        let sent = self.request(request, at).timeout(REQUEST_TIMEOUT).send();
        let response = sent.await.map_err(|error| problem_of(&error))?;
        let status = response.status().as_u16();
        let wait = response.headers().get(RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        let body = response.bytes().await;
        let body = body.map_err(|error| problem_of(&error))?.to_vec();
        Ok((NodeResponse { status, body }, wait.map(Duration::from_secs)))
    }

    fn request(&self, request: &NodeRequest<'_>, at: usize) -> RequestBuilder {
        let mut url = self.url(at).clone();
        // Addresses without a path were refused.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(&request.path);
        }
        let mut sent = self.client.request(request.method.clone(), url);
        // A server without logins wants a header that no page of another origin can send.
        sent = sent.header("x-cellblock", "1");
        if let Some(token) = &self.token {
            sent = sent.header("authorization", token);
        }
        if let Some(key) = request.key {
            sent = sent.header("idempotency-key", key);
        }
        match request.body {
            Some(body) => sent.json(body),
            None => sent,
        }
    }

    fn url(&self, at: usize) -> &Url {
        &self.urls[at % self.urls.len()]
    }

    /// Goes on to the next node, unless another request did so meanwhile.
    fn leave(&self, at: usize) {
        let next = at.wrapping_add(1);
        let _ = self
            .current
            .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn url(address: &str) -> anyhow::Result<Url> {
    let wrong = |problem: &str| Usage::plain(format!("--cluster {address}: {problem}"));
    let url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(Usage::hinted(
            format!("--cluster {address}: this is no http:// or https:// address"),
            "give the address of a node, as `cellblock nodes` lists it; the engine of the cluster (nats://) is for `serve`",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Usage::hinted(
            "--cluster: an address with a password is seen in the list of processes",
            format!("put a token into {TOKEN_VARIABLE}"),
        ));
    }
    Ok(url)
}

/// An error of a connection with its cause, which is what helps.
fn problem_of(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    let mut cause = error.source();
    while let Some(inner) = cause.and_then(|error| error.source()) {
        cause = Some(inner);
    }
    match cause {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}
