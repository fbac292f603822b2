//! A server: opened on a data directory, asked through its router, and served on a listener until it is stopped.

use crate::agents::AgentSetup;
use crate::auth::{Authentication, OpenIdOptions, Secret};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterOptions};
use crate::error::ServerError;
use crate::http::{CountedStream, HeldMessage};
use crate::quotas::Quotas;
use crate::routes;
use crate::state::AppState;
use crate::store::Store;
use crate::tls::Tls;
use axum::Router;
use cellblock_host::Host;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Connections at the same time.
const MAX_CONNECTIONS: usize = 4096;
/// How long requests may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long sessions may take to end after that.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a one-time link can be used.
const FIRST_LINK_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How a server is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The directory with everything that outlives the process.
    pub data: PathBuf,
    /// How callers prove who they are.
    pub authentication: Authentication,
    /// How browsers reach the server.
    pub transport: Transport,
    /// Names in the header `Host` that belong to the server, beside those of the loopback.
    pub allowed_hosts: Vec<String>,
    /// Users that a proxy names and that manage the server.
    pub admins: Vec<String>,
    /// Another server that users may log in with, beside their passwords.
    pub openid: Option<OpenIdOptions>,
    /// What a user may use, unless the user has limits of their own.
    pub quotas: Quotas,
    /// What the agent works with. Without it the server has sessions and no runs.
    pub agent: Option<AgentSetup>,
    /// The MCP server behind `/mcp`. Without it that path does not exist.
    pub mcp: Option<cellblock_mcp::Server>,
    /// How programs that speak the E2B API find the server.
    pub e2b: E2bOptions,
    /// How the server is one of several. Without it the server is alone and needs no other program.
    pub cluster: Option<ClusterOptions>,
    /// By which logins, tokens, invitations and daily quotas end.
    pub clock: Clock,
}

/// How programs that speak the E2B API find a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct E2bOptions {
    /// The domain under which sandboxes have host names of their own: `api.DOMAIN` and `PORT-ID.DOMAIN`. Without one, programs use one
    /// address for everything.
    pub domain: Option<String>,
    /// The hosts that sandboxes reach: none, unless they are named here.
    pub network: Vec<cellblock_protocol::NetworkRule>,
}

/// How browsers reach a server.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// By plain HTTP, on this machine.
    #[default]
    Plain,
    /// By TLS, which a proxy in front of the server ends.
    BehindTls,
    /// By TLS, which the server ends itself.
    Tls(Tls),
}

impl Transport {
    /// Whether browsers speak TLS with the server, or with a proxy in front of it.
    pub(crate) fn is_encrypted(&self) -> bool {
        !matches!(self, Transport::Plain)
    }
}

impl ServerOptions {
    /// The default options over this data directory.
    pub fn new(data: impl Into<PathBuf>) -> ServerOptions {
        ServerOptions {
            data: data.into(),
            authentication: Authentication::default(),
            transport: Transport::default(),
            allowed_hosts: Vec::new(),
            admins: Vec::new(),
            openid: None,
            quotas: Quotas::default(),
            agent: None,
            mcp: None,
            e2b: E2bOptions::default(),
            cluster: None,
            clock: Clock::default(),
        }
    }

    /// Refuses an address that these options would leave open to other machines.
    pub fn check_address(&self, address: SocketAddr) -> Result<(), ServerError> {
        if address.ip().is_loopback() {
            return Ok(());
        }
        if self.authentication == Authentication::Off {
            return Err(ServerError::Options(format!(
                "without a login the server may only listen on this machine, and other machines reach {address}"
            )));
        }
        if !self.transport.is_encrypted() {
            return Err(ServerError::Options(format!(
                "other machines reach {address}, and passwords would travel unencrypted; give a certificate with --tls-cert and --tls-key, or put a proxy with TLS in front and say --behind-proxy"
            )));
        }
        Ok(())
    }
}

/// A server. A handle: clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    state: AppState,
    /// One router for all clones and listeners: it holds the kernels of the Jupyter API.
    router: Router,
}

impl Server {
    /// Opens the store in the data directory, and makes both where they are missing.
    pub async fn open(host: Host, options: ServerOptions) -> Result<Server, ServerError> {
        if let Some(openid) = &options.openid {
            openid.check()?;
        }
        let data = options.data.clone();
        crate::data_directory::claim(&data)?;
        let clock = options.clock.clone();
        let store = tokio::task::spawn_blocking(move || Store::open(&data, clock)).await;
        let store = store.map_err(|error| ServerError::Options(error.to_string()))??;
        store.mark_cut_off_runs().await?;
        let cluster = options.cluster.clone();
        let mut options = options;
        if let Some(cluster) = &cluster {
            // Requests of other nodes name this one as its heartbeat does.
            options.allowed_hosts.extend(cluster.host());
        }
        let state = AppState::new(host, store, options);
        if let Some(cluster) = cluster {
            if *state.authentication() == Authentication::Users {
                return Err(ServerError::Options(
                    "accounts with passwords are not shared between the nodes of a cluster: let a proxy name the user with --auth-header, or give --no-auth".to_owned(),
                ));
            }
            if let Transport::Tls(_) = &state.options().transport {
                return Err(ServerError::Options(
                    "the nodes of a cluster speak plain HTTP with each other: put a proxy with TLS in front and give --behind-proxy".to_owned(),
                ));
            }
            state.set_cluster(Cluster::join(&state, &cluster).await?);
        }
        let router = routes::router(&state);
        Ok(Server { state, router })
    }

    /// The secret of the one-time link that makes the first administrator. `None` where there is one already, or where there is no login.
    pub async fn first_start_secret(&self) -> Result<Option<String>, ServerError> {
        let store = self.state.store();
        if *self.state.authentication() != Authentication::Users || store.has_admin().await? {
            return Ok(None);
        }
        let secret = Secret::random().map_err(|error| ServerError::Options(error.message))?;
        store.add_first_link(secret.hash(), FIRST_LINK_LIFE).await?;
        Ok(Some(secret.0))
    }

    /// What all requests share.
    pub(crate) fn state(&self) -> &AppState {
        &self.state
    }

    /// Answers requests without a socket.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Answers requests on a listener until `stop` is cancelled. Then requests that are under way are finished, and sessions are ended:
    /// they come back from their journals.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), ServerError> {
        let address = listener.local_addr().map_err(ServerError::Listen)?;
        self.state.options().check_address(address)?;
        self.state.set_address(address);
        let router = self.router();
        if let Some(cluster) = self.state.cluster() {
            cluster.start(&self.state);
        }
        let connections = TaskTracker::new();
        let stopping = stop.clone();
        let stop = CancellationToken::new();
        let leaving = {
            let (state, stop) = (self.state.clone(), stop.clone());
            tokio::spawn(async move {
                stopping.cancelled().await;
                // Until its sessions are elsewhere, requests are still answered here.
                if let Some(cluster) = state.cluster() {
                    let _ = tokio::time::timeout(DRAIN_TIMEOUT, cluster.leave()).await;
                }
                stop.cancel();
            })
        };
        let _leaving = AbortOnDrop(leaving);
        let tls = match &self.state.options().transport {
            Transport::Tls(tls) => Some(tls.acceptor()),
            Transport::Plain | Transport::BehindTls => None,
        };
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => stream,
                // Too many connections or no descriptors: others end meanwhile.
                _ => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            // Answers are small and must not wait for each other.
            let _ = stream.set_nodelay(true);
            let (router, stop) = (router.clone(), stop.clone());
            match tls.clone() {
                None => connections.spawn(serve_connection(stream, router, stop)),
                Some(tls) => connections.spawn(async move {
                    let handshake = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await;
                    // A client that does not finish the handshake is dropped.
                    if let Ok(Ok(stream)) = handshake {
                        serve_connection(stream, router, stop).await;
                    }
                }),
            };
        }
        drop(listener);
        // Streams of events would never end by themselves.
        self.state.stop().cancel();
        connections.close();
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await;
        let running = self.state.runs().running();
        running.iter().for_each(|run| run.cancel.cancel());
        let ended = futures_util::future::join_all(running.iter().map(|run| run.ended()));
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
        if let Some(mcp) = &self.state.options().mcp {
            mcp.stop();
        }
        self.stop_sessions().await;
        Ok(())
    }

    /// Ends all sessions. They come back from their journals.
    pub async fn stop_sessions(&self) {
        self.state.chats().clear();
        let closing = TaskTracker::new();
        for live in self.state.live().all() {
            self.state.live().remove(&live.id);
            closing.spawn(async move { live.suspend().await });
        }
        closing.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing.wait()).await;
    }
}

/// Ends a task when it is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve_connection<S>(stream: S, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let message = HeldMessage::default();
    let stream = CountedStream::new(stream, message.clone());
    let router = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(message.clone());
        request
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        // A connection that breaks is the client's loss only.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
