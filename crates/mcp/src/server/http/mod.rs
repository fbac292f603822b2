//! Serves many clients over streamable HTTP: the token, the hosts that a request may name, and its session.

mod connections;
mod disconnects;

use super::Server;
use super::bounded_messages::{self, BoundedBody};
use super::client_handler::ClientHandler;
use super::quota::{ClientUser, as_user};
use crate::message_size::{MAX_MESSAGE_BYTES, TooLarge};
use bytes::Bytes;
use connections::{ConnectionSlot, Connections};
use disconnects::DisconnectedClients;
use http::header::{AUTHORIZATION, CONNECTION, HOST, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The header that names a session of the protocol.
const SESSION: &str = "mcp-session-id";
/// The longest head of a request, and what is read of a body at once.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long a client that has shown the token may take to send the head of its next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections may take to end when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// After how many seconds a client that found no place may try again.
const RETRY_SECONDS: u16 = 5;

tokio::task_local! {
    /// Why the request that is answered is refused: the protocol's library reads its body and makes the handler of its client, and replies to
    /// every failure of that with status 500.
    static REFUSAL: RefCell<Option<HttpRefusal>>;
}

/// Why a request is refused.
enum HttpRefusal {
    /// There is no place for the client.
    NoPlace(String),
    TooLarge,
}

type Service = StreamableHttpService<ClientHandler, LocalSessionManager>;

/// How to serve over HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The token that every request must carry.
    pub token: String,
    /// Names in the `Host` header that belong to this server, against DNS rebinding. Empty: any name.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use this server, such as `https://example.com:443`. Empty: none.
    pub origins: Vec<String>,
    /// How long a client may be silent before its session ends.
    pub idle: Duration,
    /// How long a client that disconnected during a call may take to reconnect before its session ends.
    pub grace: Duration,
}

impl HttpOptions {
    /// How long a client may be silent before its session ends, unless the server's owner says otherwise.
    pub const DEFAULT_IDLE: Duration = Duration::from_secs(30 * 60);

    /// For programs on this machine that know the token.
    pub fn new(token: impl Into<String>) -> HttpOptions {
        HttpOptions {
            token: token.into(),
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into(),
            origins: Vec::new(),
            idle: Self::DEFAULT_IDLE,
            grace: Duration::from_secs(60),
        }
    }
}

impl Server {
    /// Serves clients that connect to `/mcp` on this listener, until [`stop`](Server::stop).
    pub async fn serve_http(&self, listener: TcpListener, options: HttpOptions) -> io::Result<()> {
        let handler = self.handler(options);
        let connections = Connections::new();
        let serving = TaskTracker::new();
        let stop = self.inner.stop.clone();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, for example: others may end meanwhile.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (handler, stop) = (handler.clone(), stop.clone());
            let slot = Arc::new(connections.accept());
            serving.spawn(async move {
                tokio::select! {
                    // First: what has arrived is read before the connection is closed.
                    biased;
                    () = serve_connection(stream, handler, Arc::clone(&slot)) => {}
                    () = slot.evicted() => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        serving.close();
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, serving.wait()).await;
        handler.endpoint.disconnected.end_all().await;
        self.wait_for_sessions().await;
        Ok(())
    }

    fn handler(&self, options: HttpOptions) -> RequestHandler {
        RequestHandler {
            bearer_token: BearerToken::new(options.token.clone()),
            endpoint: self.http_endpoint(options),
        }
    }

    /// The endpoint for a server that accepts connections itself. That server checks who sends a request: the endpoint takes every
    /// request that reaches it, and the token of the options does not count.
    pub fn http_endpoint(&self, options: HttpOptions) -> HttpEndpoint {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(options.idle);
        let sessions = Arc::new(sessions);
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(options.hosts)
            .with_allowed_origins(options.origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_cancellation_token(self.inner.stop.child_token());
        // Often, since only what is written shows that a client has gone.
        config.sse_keep_alive = Some(Duration::from_secs(2));
        let server = self.clone();
        let new_client = move || {
            let handler = server.new_client().map_err(|reason| {
                // Outside of a request there is no reply to change.
                let _ = REFUSAL.try_with(|refusal| {
                    refusal.replace(Some(HttpRefusal::NoPlace(reason.clone())))
                });
                io::Error::other(reason)
            })?;
            Ok(handler.with_sessions())
        };
        HttpEndpoint {
            disconnected: DisconnectedClients::new(Arc::clone(&sessions), options.grace),
            service: StreamableHttpService::new(new_client, sessions, config),
        }
    }
}

/// Answers requests of the protocol over HTTP. Clones share their state.
#[derive(Clone)]
pub struct HttpEndpoint {
    disconnected: DisconnectedClients,
    service: Service,
}

impl HttpEndpoint {
    /// Answers a request of a user. A client that begins with it belongs to that user.
    pub async fn reply_to<B>(
        &self,
        user: ClientUser,
        request: Request<B>,
    ) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        as_user(user, self.reply(request)).await
    }

    /// Ends a session of the protocol, and with it the Python sessions of its client.
    pub async fn end_session(&self, session: &str) {
        self.disconnected.end(session).await;
    }

    /// Answers a request.
    pub async fn reply<B>(&self, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let method = request.method().clone();
        let session = request
            .headers()
            .get(SESSION)
            .and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        if let Some(session) = &session {
            self.disconnected.reconnected(session);
        }
        let too_large = || {
            // The body is read where the request is answered.
            let _ = REFUSAL.try_with(|refusal| refusal.replace(Some(HttpRefusal::TooLarge)));
        };
        let request = request.map(|body| BoundedBody::new(body, too_large));
        let replying = async {
            let reply = self.service.handle(request).await;
            (reply, REFUSAL.with(RefCell::take))
        };
        let (reply, refusal) = REFUSAL.scope(RefCell::default(), replying).await;
        match refusal {
            Some(HttpRefusal::NoPlace(reason)) => return unavailable(&reason),
            Some(HttpRefusal::TooLarge) => {
                let reason = bounded_messages::refusal(TooLarge::Memory);
                // The rest of the body is not read.
                return closing(plain(StatusCode::PAYLOAD_TOO_LARGE, &reason));
            }
            None => {}
        }
        match (method, session) {
            (Method::POST, Some(session)) => self.disconnected.watch_reply(session, reply),
            // Some clients take "accepted" for a failure.
            (Method::DELETE, _) if reply.status() == StatusCode::ACCEPTED => {
                plain(StatusCode::OK, "the session is over")
            }
            _ => reply,
        }
    }
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HttpEndpoint").finish_non_exhaustive()
    }
}

/// Answers the requests of all connections. Clones share their state.
#[derive(Clone)]
struct RequestHandler {
    bearer_token: BearerToken,
    endpoint: HttpEndpoint,
}

async fn serve_connection(stream: TcpStream, handler: RequestHandler, slot: Arc<ConnectionSlot>) {
    // Answers are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (handler, slot) = (handler.clone(), Arc::clone(&slot));
        async move { Ok::<Reply, Infallible>(handler.reply(request, &slot).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), answer);
    // A connection that breaks is the client's loss only.
    let _ = serving.await;
}

impl RequestHandler {
    async fn reply(&self, request: Request<Incoming>, slot: &ConnectionSlot) -> Reply {
        // First of all the token: without it, nothing else of a request counts, and the connection ends with the answer.
        if let Err(refusal) = self.bearer_token.check(request.headers()) {
            return closing(*refusal);
        }
        if slot.authenticate().is_err() {
            let problem = "there are too many connections; close some and try again";
            return closing(unavailable(problem));
        }
        if let Err(problem) = check_host(request.uri(), request.headers()) {
            return closing(plain(StatusCode::BAD_REQUEST, problem));
        }
        if request.uri().path().trim_end_matches('/') != PATH {
            return plain(StatusCode::NOT_FOUND, "MCP is served at /mcp");
        }
        self.endpoint.reply(request).await
    }
}

/// Checks that all parts of a request that name a host name the same host.
///
/// The list of allowed hosts is compared with the first header `Host` alone. A second header, or a whole address in the first line of the
/// request, could name another host, and a proxy in front of this server may have decided by the other host.
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().map(HeaderValue::as_bytes);
    if hosts.next().is_some() {
        return Err("the request has more than one header Host");
    }
    let Some(authority) = uri.authority() else {
        return Ok(());
    };
    let is_same = |host: &[u8]| host.eq_ignore_ascii_case(authority.as_str().as_bytes());
    if host.is_some_and(is_same) {
        Ok(())
    } else {
        Err("the address in the first line of the request names another host than its header Host")
    }
}

/// Adds the header that closes the connection after the reply.
fn closing(mut reply: Reply) -> Reply {
    let close = HeaderValue::from_static("close");
    reply.headers_mut().insert(CONNECTION, close);
    reply
}

/// A reply with any body.
pub(super) type Reply = Response<BoxBody<Bytes, Infallible>>;

/// The token that every request must carry.
#[derive(Clone)]
pub(super) struct BearerToken {
    token: String,
}

impl BearerToken {
    pub(super) fn new(token: String) -> BearerToken {
        BearerToken { token }
    }

    /// Checks that a request carries the token. The error is the reply that refuses the request.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Box<Reply>> {
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = given.and_then(|given| {
            let (scheme, token) = given.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
        });
        match token {
            Some(token) if is_equal_in_constant_time(token, self.token.as_bytes()) => Ok(()),
            _ => {
                let mut reply = plain(
                    StatusCode::UNAUTHORIZED,
                    "the header `Authorization: Bearer TOKEN` is missing or has another token",
                );
                let how = HeaderValue::from_static("Bearer realm=\"cellblock\"");
                reply.headers_mut().insert(WWW_AUTHENTICATE, how);
                Err(Box::new(reply))
            }
        }
    }
}

/// A reply of plain text, outside the protocol.
pub(super) fn plain(status: StatusCode, message: &str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(format!("{message}\n"))).boxed());
    *reply.status_mut() = status;
    reply
}

/// A reply to a request that there is no place for now.
fn unavailable(reason: &str) -> Reply {
    let mut reply = plain(StatusCode::SERVICE_UNAVAILABLE, reason);
    reply
        .headers_mut()
        .insert(RETRY_AFTER, RETRY_SECONDS.into());
    reply
}

/// Compares two texts in a time that depends on their lengths alone, so that the time does not tell how much of a token was right.
fn is_equal_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    let mut difference = one.len() ^ other.len();
    for (index, byte) in one.iter().enumerate() {
        let expected = other.get(index).copied().unwrap_or(0);
        difference |= usize::from(byte ^ expected);
    }
    difference == 0
}

#[cfg(test)]
mod gate_tests {
    use super::BearerToken;
    use http::HeaderMap;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let bearer_token = BearerToken::new("secret".to_owned());
        let passes = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                "authorization",
                value.parse().unwrap_or_else(|_| unreachable!()),
            );
            bearer_token.check(&headers).is_ok()
        };
        assert!(passes("Bearer secret") && passes("bearer secret"));
        for wrong in [
            "secret",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secret1",
            "Basic secret",
        ] {
            assert!(!passes(wrong), "{wrong}");
        }
        assert!(bearer_token.check(&HeaderMap::new()).is_err());
    }
}
