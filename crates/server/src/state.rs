//! What all requests share.

use crate::agents::{AgentSetup, Chats, LiveRuns};
use crate::auth::{Authentication, LoginTries, Provider, random_id, validate_user_name};
use crate::cluster::Cluster;
use crate::demo::DemoLink;
use crate::e2b::Sandboxes;
use crate::error::ApiError;
use crate::http::{HeldBodies, HostRules};
use crate::jupyter::Kernels;
use crate::live::Registry;
use crate::metrics::Metrics;
use crate::places::SessionPlaces;
use crate::quotas::{CellRates, Quotas};
use crate::routes::completions::Remembered;
use crate::routes::mcp::McpSessions;
use crate::server::ServerOptions;
use crate::snapshots::Snapshots;
use crate::store::{Role, Store, User};
use cellblock_host::Host;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// The state of a server. A handle: clones are the same server.
#[derive(Clone)]
pub struct AppState {
    inner: Arc<ServerState>,
}

struct ServerState {
    host: Host,
    store: Store,
    options: ServerOptions,
    hosts: OnceLock<HostRules>,
    live: Registry,
    runs: LiveRuns,
    chats: Chats,
    remembered: Remembered,
    mcp: Option<McpSessions>,
    tries: LoginTries,
    rates: CellRates,
    metrics: Metrics,
    readers: Arc<AtomicUsize>,
    sandboxes: Sandboxes,
    snapshots: Snapshots,
    kernels: Kernels,
    places: SessionPlaces,
    held_bodies: HeldBodies,
    local_user: tokio::sync::OnceCell<User>,
    entrance: OnceLock<DemoLink>,
    openid: Option<Provider>,
    cluster: OnceLock<Arc<Cluster>>,
    stop: CancellationToken,
}

/// The name of the only user where there is no login.
const LOCAL_USER: &str = "local";

impl AppState {
    pub(crate) fn new(host: Host, store: Store, options: ServerOptions) -> AppState {
        let mcp = options.mcp.as_ref().map(mcp_sessions);
        let openid = options.openid.clone().map(Provider::new);
        AppState {
            inner: Arc::new(ServerState {
                host,
                store,
                options,
                hosts: OnceLock::new(),
                live: Registry::default(),
                runs: LiveRuns::default(),
                chats: Chats::default(),
                remembered: Remembered::default(),
                mcp,
                tries: LoginTries::default(),
                rates: CellRates::default(),
                metrics: Metrics::default(),
                readers: Arc::default(),
                sandboxes: Sandboxes::default(),
                snapshots: Snapshots::default(),
                kernels: Kernels::default(),
                places: SessionPlaces::default(),
                held_bodies: HeldBodies::default(),
                local_user: tokio::sync::OnceCell::new(),
                entrance: OnceLock::new(),
                openid,
                cluster: OnceLock::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.inner.host
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.inner.options
    }

    pub(crate) fn live(&self) -> &Registry {
        &self.inner.live
    }

    pub(crate) fn runs(&self) -> &LiveRuns {
        &self.inner.runs
    }

    pub(crate) fn chats(&self) -> &Chats {
        &self.inner.chats
    }

    /// The sandboxes of programs that speak the E2B API.
    pub(crate) fn sandboxes(&self) -> &Sandboxes {
        &self.inner.sandboxes
    }

    /// The states of sessions that are kept aside.
    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.inner.snapshots
    }

    /// The kernels of programs that speak Jupyter's protocol.
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.inner.kernels
    }

    /// The bodies of requests that are in memory.
    pub(crate) fn held_bodies(&self) -> &HeldBodies {
        &self.inner.held_bodies
    }

    /// The places of sessions that are being opened, and of the clients of MCP.
    pub(crate) fn places(&self) -> &SessionPlaces {
        &self.inner.places
    }

    /// The sessions of MCP clients.
    pub(crate) fn mcp(&self) -> Option<&McpSessions> {
        self.inner.mcp.as_ref()
    }

    /// The chats of conversations that programs hold.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.inner.remembered
    }

    /// The agent of the server. Refused where no model was chosen.
    pub(crate) fn agent_setup(&self) -> Result<&AgentSetup, ApiError> {
        let setup = self.inner.options.agent.as_ref();
        setup.ok_or_else(|| {
            ApiError::conflict("no_model", "this server has no model")
                .hint("its operator chooses one with `cellblock serve --model NAME`")
        })
    }

    pub(crate) fn tries(&self) -> &LoginTries {
        &self.inner.tries
    }

    pub(crate) fn rates(&self) -> &CellRates {
        &self.inner.rates
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Cancelled when the server stops.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.inner.stop
    }

    pub(crate) fn authentication(&self) -> &Authentication {
        &self.inner.options.authentication
    }

    /// Whether browsers reach the server by TLS.
    pub(crate) fn is_behind_tls(&self) -> bool {
        self.inner.options.transport.is_encrypted()
    }

    /// The names that a request may have in its header `Host`.
    pub(crate) fn hosts(&self) -> &HostRules {
        let allowed = &self.inner.options.allowed_hosts;
        self.inner
            .hosts
            .get_or_init(|| HostRules::new(None, allowed))
    }

    /// Sets the address that is listened on. Only the first call counts.
    pub(crate) fn set_address(&self, address: std::net::SocketAddr) {
        let rules = HostRules::new(Some(address), &self.inner.options.allowed_hosts);
        let _ = self.inner.hosts.set(rules);
    }

    /// A place in the data directory.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.inner.options.data.join(name)
    }

    /// The limits of a user.
    pub(crate) fn quotas_of(&self, user: &User) -> Quotas {
        self.inner.options.quotas.of_user(user)
    }

    /// Counts a reader of events until the guard is dropped.
    pub(crate) fn count_reader(&self) -> ReaderGuard {
        self.inner.readers.fetch_add(1, Ordering::Relaxed);
        ReaderGuard(Arc::clone(&self.inner.readers))
    }

    /// The number of readers of events.
    pub(crate) fn readers(&self) -> usize {
        self.inner.readers.load(Ordering::Relaxed)
    }

    /// The provider of logins, where there is one.
    pub(crate) fn openid(&self) -> Option<&Provider> {
        self.inner.openid.as_ref()
    }

    /// The server's part in its cluster, where it is one of several.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.inner.cluster.get()
    }

    /// Sets the server's part in its cluster. Only the first call counts.
    pub(crate) fn set_cluster(&self, cluster: Arc<Cluster>) {
        let _ = self.inner.cluster.set(cluster);
    }

    /// The user that another node of the cluster names. Nodes know users by their names.
    pub(crate) async fn user_of_cluster(&self, name: &str) -> Result<User, ApiError> {
        match self.authentication() {
            Authentication::Off if name == LOCAL_USER => self.local_user().await,
            _ => self.proxied_user(name).await,
        }
    }

    /// The link to the demonstration, where the server is one.
    pub(crate) fn entrance(&self) -> Option<&DemoLink> {
        self.inner.entrance.get()
    }

    /// Sets the link to the demonstration. Only the first call counts.
    pub(crate) fn set_entrance(&self, entrance: DemoLink) {
        let _ = self.inner.entrance.set(entrance);
    }

    /// The administrator that every caller is where there is no login.
    pub(crate) async fn local_user(&self) -> Result<User, ApiError> {
        let user = self
            .inner
            .local_user
            .get_or_try_init(|| async { self.user_named_or_new(LOCAL_USER, Role::Admin).await });
        user.await.cloned()
    }

    /// The user that the proxy named. A new name gets an account.
    pub(crate) async fn proxied_user(&self, name: &str) -> Result<User, ApiError> {
        validate_user_name(name)?;
        let role = match self.inner.options.admins.iter().any(|admin| admin == name) {
            true => Role::Admin,
            false => Role::User,
        };
        self.user_named_or_new(name, role).await
    }

    async fn user_named_or_new(&self, name: &str, role: Role) -> Result<User, ApiError> {
        if let Some(user) = self.store().user_named(name).await? {
            return Ok(user);
        }
        let id = random_id("u")?;
        if let Some(user) = self.store().add_user(&id, name, role, None).await? {
            return Ok(user);
        }
        // Another request was quicker.
        let user = self.store().user_named(name).await?;
        user.ok_or_else(|| ApiError::internal("a user was added and is gone"))
    }

    /// Notes in the audit log what a user did. A store that cannot be written does not undo what was done.
    pub(crate) async fn audit(
        &self,
        user: &str,
        action: &'static str,
        target: Option<&str>,
        detail: Option<String>,
    ) {
        let _ = self
            .store()
            .add_audit(Some(user), action, target, detail)
            .await;
    }
}

/// The endpoint behind the checks of this server: names of hosts and tokens were looked at before.
fn mcp_sessions(server: &cellblock_mcp::Server) -> McpSessions {
    let mut options = cellblock_mcp::HttpOptions::new("");
    options.hosts.clear();
    McpSessions::new(server.http_endpoint(options))
}

/// Counts one reader of events as long as it exists.
pub(crate) struct ReaderGuard(Arc<AtomicUsize>);

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for AppState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("AppState").finish_non_exhaustive()
    }
}
