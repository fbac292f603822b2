//! Many clients over streamable HTTP.

use super::Server;
use super::client_handler::ClientHandler;
use super::connections::{Connections, Place};
use super::gate::{Gate, Reply, plain};
use super::presence::Presence;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

/// Where clients find us on the address.
const PATH: &str = "/mcp";
/// The header that names a session of the protocol.
const SESSION: &str = "mcp-session-id";
/// The longest request: the largest arguments, in JSON.
const MAX_REQUEST_BYTES: usize = 48 << 20;
/// The longest head of a request, and what is read of a body at once.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long a client that has shown the token may take to send the head of its next request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// How long connections may take to end when we stop.
const FAREWELL: Duration = Duration::from_secs(2);

type Service = StreamableHttpService<ClientHandler, LocalSessionManager>;

/// How to serve over HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The token that every request must carry.
    pub token: String,
    /// Names in the `Host` header that are ours, against DNS rebinding. Empty: any name.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use us, such as `https://example.com:443`. Empty: none.
    pub origins: Vec<String>,
    /// How long a client may be silent before its session ends.
    pub idle: Duration,
    /// How long a client that vanished in the middle of a call has to come back before its session ends.
    pub grace: Duration,
}

impl HttpOptions {
    /// For programs on this machine that know the token.
    pub fn new(token: impl Into<String>) -> HttpOptions {
        HttpOptions {
            token: token.into(),
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into(),
            origins: Vec::new(),
            idle: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(60),
        }
    }
}

impl Server {
    /// Serves whoever comes to `/mcp` on this listener, until [`stop`](Server::stop).
    pub async fn serve_http(&self, listener: TcpListener, options: HttpOptions) -> io::Result<()> {
        let desk = self.desk(options);
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
            let (desk, stop) = (desk.clone(), stop.clone());
            let place = Arc::new(connections.enter());
            serving.spawn(async move {
                tokio::select! {
                    () = serve_connection(stream, desk, Arc::clone(&place)) => {}
                    () = place.has_to_go() => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        serving.close();
        let _ = tokio::time::timeout(FAREWELL, serving.wait()).await;
        desk.presence.end_all().await;
        self.wait_for_sessions().await;
        Ok(())
    }

    fn desk(&self, options: HttpOptions) -> Desk {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(options.idle);
        let sessions = Arc::new(sessions);
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(options.hosts)
            .with_allowed_origins(options.origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(MAX_REQUEST_BYTES)
            .with_cancellation_token(self.inner.stop.child_token());
        // Often, since only what is written shows that a client has gone.
        config.sse_keep_alive = Some(Duration::from_secs(2));
        let server = self.clone();
        let admit = move || {
            let handler = server.admit().map_err(io::Error::other)?;
            Ok(handler.with_sessions())
        };
        Desk {
            gate: Gate::new(options.token),
            presence: Presence::new(Arc::clone(&sessions), options.grace),
            service: StreamableHttpService::new(admit, sessions, config),
        }
    }
}

/// Where requests are answered.
#[derive(Clone)]
struct Desk {
    gate: Gate,
    presence: Presence,
    service: Service,
}

async fn serve_connection(stream: TcpStream, desk: Desk, place: Arc<Place>) {
    // Answers are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (desk, place) = (desk.clone(), Arc::clone(&place));
        async move { Ok::<Reply, Infallible>(desk.reply(request, &place).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), answer);
    // A connection that breaks is the client's loss only.
    let _ = serving.await;
}

impl Desk {
    async fn reply(&self, request: Request<Incoming>, place: &Place) -> Reply {
        // First of all the token: without it, nothing else of a request counts, and the connection ends with the answer.
        if let Err(refusal) = self.gate.check(request.headers()) {
            return closing(*refusal);
        }
        if place.prove().is_err() {
            let reply = plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many connections; close some and try again",
            );
            return closing(reply);
        }
        if request.uri().path().trim_end_matches('/') != PATH {
            return plain(StatusCode::NOT_FOUND, "MCP is served at /mcp");
        }
        let method = request.method().clone();
        let session = request
            .headers()
            .get(SESSION)
            .and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        if let Some(session) = &session {
            self.presence.seen(session);
        }
        let reply = self.service.handle(request).await;
        match (method, session) {
            (Method::POST, Some(session)) => self.presence.watch(session, reply),
            // Some clients take "accepted" for a failure.
            (Method::DELETE, _) if reply.status() == StatusCode::ACCEPTED => {
                plain(StatusCode::OK, "the session is over")
            }
            _ => reply,
        }
    }
}

/// The same reply, after which the connection is closed.
fn closing(mut reply: Reply) -> Reply {
    let close = HeaderValue::from_static("close");
    reply.headers_mut().insert(CONNECTION, close);
    reply
}
