//! A session's ways to the network: sockets on its own loopback, with a guard of the host's behind each.

mod host_requests;

pub use cellblock_network::{
    Authority, Connection, ConnectionOutcome, ConnectionRefusal, CredentialError, HostDecision,
    RequestKind,
};
pub use host_requests::HostApprover;
pub(crate) use host_requests::HostRequests;

use crate::session::SessionShared;
use crate::{Error, Refusal};
use cellblock_network::{ConnectionLog, Credential, Guard, Proxies};
use cellblock_protocol::{
    CellError, CredentialRule, Event, HostPattern, NetworkRule, SessionOptions, UnlistedHosts,
};
use cellblock_sandbox::SpawnRequest;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// The port that the proxy listens on inside a session.
const PROXY_PORT: u16 = 3128;

/// The target of a connection to a listener.
#[derive(Clone, Debug)]
enum Upstream {
    Proxy,
    Host(NetworkRule),
}

/// The doors of a session, in the order in which init opens them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkListeners {
    rules: Vec<NetworkRule>,
    credentials: Vec<CredentialRule>,
    upstream: Vec<Upstream>,
    unlisted_hosts: UnlistedHosts,
    proxies: Arc<Proxies>,
}

/// A door that init has opened: its number, and the socket that listens there.
pub(crate) type OpenedListener = (usize, OwnedFd);

/// The most refusals of one cell that are kept.
const MAX_REFUSALS: usize = 8;

/// The guards that serve a session's listeners, for as long as this value lives.
#[derive(Debug, Default)]
pub(crate) struct NetworkAccess {
    serving: Vec<AbortHandle>,
    /// The connections that the guard refused since the last cell began.
    refused: Arc<Mutex<Vec<Arc<Connection>>>>,
    traffic: Arc<Traffic>,
    /// The tasks of the doors, which can be asked to take in at once whatever waits there.
    listeners: Vec<mpsc::UnboundedSender<oneshot::Sender<()>>>,
    /// The requests for hosts that no rule names.
    host_requests: Arc<HostRequests>,
    /// How many connections there were when [`NetworkAccess::take_use`] was last called.
    reported_connections: u64,
}

/// The connections through the listeners of a session.
#[derive(Debug, Default)]
struct Traffic {
    /// Connections that ever came in.
    came: AtomicU64,
    /// Connections that are open.
    open: AtomicU64,
    /// While this is so, a connection is closed as soon as it comes in.
    shut: AtomicBool,
}

/// A connection that is open.
struct OpenConnection(Arc<Traffic>);

impl OpenConnection {
    fn new(traffic: &Arc<Traffic>) -> OpenConnection {
        traffic.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(traffic))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl NetworkListeners {
    /// The listeners of a session with these options.
    pub(crate) fn of(options: &SessionOptions) -> NetworkListeners {
        let rules = &options.network;
        let unlisted_hosts = options.unlisted_hosts;
        let by_proxy = unlisted_hosts == UnlistedHosts::Ask || rules.iter().any(|rule| !rule.raw);
        let raw = rules.iter().filter(|rule| rule.raw).cloned();
        let upstream = by_proxy.then_some(Upstream::Proxy).into_iter();
        NetworkListeners {
            rules: rules.clone(),
            credentials: options.credentials.clone(),
            upstream: upstream.chain(raw.map(Upstream::Host)).collect(),
            unlisted_hosts,
            proxies: Arc::default(),
        }
    }

    /// Sends connections through the proxies between this machine and the network.
    pub(crate) fn through(mut self, proxies: &Arc<Proxies>) -> NetworkListeners {
        self.proxies = Arc::clone(proxies);
        self
    }

    /// Asks init for the doors, and for names under which the code finds what is behind them.
    pub(crate) fn ask_for(&self, mut spawn_request: SpawnRequest) -> Result<SpawnRequest, Error> {
        if self.upstream.is_empty() {
            return Ok(spawn_request);
        }
        let (places, names) = self.places();
        for (place, port) in places {
            spawn_request = spawn_request.loopback_port(port, place)?;
        }
        Ok(spawn_request.file(Path::new("/etc/hosts"), &names)?)
    }

    /// The addresses to listen on in a container, and the text of its `/etc/hosts`.
    pub(crate) fn addresses(&self) -> (Vec<String>, String) {
        let (places, names) = self.places();
        let address = |(place, port)| format!("{}:{port}", address_of(place));
        (places.into_iter().map(address).collect(), names)
    }

    /// For each door its place on the loopback and its port; and the names of the places.
    fn places(&self) -> (Vec<(u16, u16)>, String) {
        let mut known = BTreeMap::from([("localhost".to_owned(), 0)]);
        let mut names = String::from("127.0.0.1 localhost\n");
        let mut place_of = |upstream: &Upstream| match upstream {
            Upstream::Proxy => (0, PROXY_PORT),
            Upstream::Host(rule) => {
                let host = rule.host.to_string();
                let next = known.len() as u16;
                let place = *known.entry(host.clone()).or_insert_with(|| {
                    names.push_str(&format!("{} {host}\n", address_of(next)));
                    next
                });
                (place, rule.port.unwrap_or_default())
            }
        };
        let places = self.upstream.iter().map(&mut place_of).collect();
        (places, names)
    }

    /// The environment variables by which programs inside find the proxy.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        if self.upstream.is_empty() {
            return Vec::new();
        }
        let mut allowed: Vec<String> = self.rules.iter().map(NetworkRule::to_string).collect();
        if self.unlisted_hosts == UnlistedHosts::Ask {
            allowed.push("hosts that the user approves when the code asks for them".to_owned());
        }
        let mut variables = vec![("CELLBLOCK_NETWORK".to_owned(), allowed.join(", "))];
        if self
            .upstream
            .iter()
            .any(|upstream| matches!(upstream, Upstream::Proxy))
        {
            let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
            for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
                variables.push((name.to_owned(), proxy.clone()));
            }
            // What rules for TCP name is found without the proxy.
            let direct = self.upstream.iter().filter_map(|upstream| match upstream {
                Upstream::Host(rule) => Some(rule.host.to_string()),
                Upstream::Proxy => None,
            });
            let direct: Vec<String> = direct.collect();
            for name in ["no_proxy", "NO_PROXY"] {
                variables.push((name.to_owned(), direct.join(",")));
            }
        }
        variables
    }

    /// Serves what init has opened. Each connection is reported to the readers of the session's log.
    pub(crate) fn serve(
        &self,
        opened_listeners: Vec<OpenedListener>,
        shared: &SessionShared,
    ) -> Result<NetworkAccess, Error> {
        let mut access = NetworkAccess::default();
        let log = log(shared, Arc::clone(&access.refused));
        let credentials = self.credentials.iter().map(Credential::read);
        let credentials = credentials
            .collect::<Result<Vec<_>, _>>()
            .map_err(Refusal::Credential)?;
        let mut guard = Guard::new(&self.rules, log)
            .credentials(&credentials)
            .proxies(Arc::clone(&self.proxies));
        if self.unlisted_hosts == UnlistedHosts::Ask {
            guard = guard.ask_for_hosts(HostRequests::asker(&shared.host_requests));
        }
        access.host_requests = Arc::clone(&shared.host_requests);
        for (number, socket) in opened_listeners {
            let upstream = self.upstream.get(number).cloned();
            let upstream =
                upstream.ok_or(cellblock_sandbox::Error::Protocol { process: "init" })?;
            let listener = listen(socket).map_err(Error::system("listening for the network"))?;
            let traffic = Arc::clone(&access.traffic);
            let (asker, asked) = mpsc::unbounded_channel();
            access.listeners.push(asker);
            let task = tokio::spawn(serve(listener, guard.clone(), upstream, traffic, asked));
            access.serving.push(task.abort_handle());
        }
        Ok(access)
    }
}

impl NetworkAccess {
    /// Forgets what earlier cells were refused.
    pub(crate) fn begin_cell(&self) {
        self.refused().clear();
        self.host_requests.begin_cell();
    }

    /// Whether code waits for a decision about a host.
    pub(crate) fn is_asking(&self) -> bool {
        self.host_requests.is_asking()
    }

    /// Waits until code begins or ends to wait for a decision about a host.
    pub(crate) async fn asking_changed(&self) {
        self.host_requests.changed().await;
    }

    /// The hint for an error of a cell that was refused a connection, unless the error says it already.
    pub(crate) fn hint(&self, error: &CellError) -> Option<String> {
        let refused = self.refused();
        let mut refusals = refused.iter().rev();
        // The last one is the most likely cause.
        let refusal = refusals.find_map(|connection| connection.refusal());
        let text = refusal?.to_string();
        let is_said = error.value.contains(&text) || error.traceback.contains(&text);
        (!is_said).then_some(text)
    }

    /// Whether the network was used since the last call: a connection came in, or one is open, which code may use at any time.
    pub(crate) async fn take_use(&mut self) -> bool {
        self.take_in().await;
        let came = self.traffic.came.load(Ordering::Relaxed);
        let is_new = came != std::mem::replace(&mut self.reported_connections, came);
        is_new || self.traffic.open.load(Ordering::Relaxed) > 0
    }

    /// From now on nothing is reached, whatever the rules say. What is open stays so.
    pub(crate) fn shut(&self) {
        self.traffic.shut.store(true, Ordering::Relaxed);
    }

    /// The rules hold again, for what connects from now on.
    pub(crate) async fn open_again(&mut self) {
        self.take_use().await;
        self.traffic.shut.store(false, Ordering::Relaxed);
    }

    /// Waits until each connection that code has made so far was taken in. The kernel makes one before the host knows of it.
    async fn take_in(&self) {
        const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);
        for listener in &self.listeners {
            let (done, taken) = oneshot::channel();
            if listener.send(done).is_ok() {
                let _ = timeout(ACCEPT_TIMEOUT, taken).await;
            }
        }
    }

    fn refused(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the readers of a session of every connection: as a value, and as a line of the log.
fn log(shared: &SessionShared, refused: Arc<Mutex<Vec<Arc<Connection>>>>) -> ConnectionLog {
    let (logs, connections) = (shared.base.logs.clone(), shared.connections.clone());
    Arc::new(move |connection| {
        let connection = Arc::new(connection);
        if connection.refusal().is_some() {
            let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.len() == MAX_REFUSALS {
                refused.remove(0);
            }
            refused.push(Arc::clone(&connection));
        }
        let text = format!("network: {connection}\n");
        logs.send(Event::Log { text });
        let _ = connections.send(connection);
    })
}

impl Drop for NetworkAccess {
    fn drop(&mut self) {
        for serving in &self.serving {
            serving.abort();
        }
    }
}

/// The place with this number on the loopback.
fn address_of(place: u16) -> Ipv4Addr {
    let [high, low] = place.to_be_bytes();
    if place == 0 {
        Ipv4Addr::LOCALHOST
    } else {
        Ipv4Addr::new(127, 1, high, low)
    }
}

/// An address has no name that would lead somewhere else.
pub(crate) fn refuse_addresses(rules: &[NetworkRule]) -> Result<(), Error> {
    let is_address = |rule: &&NetworkRule| rule.raw && matches!(rule.host, HostPattern::Address(_));
    match rules.iter().find(is_address) {
        None => Ok(()),
        Some(rule) => Err(Error::Refused(Refusal::AddressRule { rule: rule.clone() })),
    }
}

fn listen(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Every connection ends with the door.
async fn serve(
    listener: TcpListener,
    guard: Guard,
    upstream: Upstream,
    traffic: Arc<Traffic>,
    mut asked: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
) {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut connections = JoinSet::new();
    let take = |client: TcpStream, connections: &mut JoinSet<()>| {
        traffic.came.fetch_add(1, Ordering::Relaxed);
        if traffic.shut.load(Ordering::Relaxed) {
            return;
        }
        let open = OpenConnection::new(&traffic);
        let serving = serve_one(client, guard.clone(), upstream.clone());
        connections.spawn(async move {
            serving.await;
            drop(open);
        });
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => take(client, &mut connections),
                // No descriptors are left, most likely.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            Some(done) = asked.recv() => {
                // Without the event loop, which may not know yet what waits.
                while let Ok(client) = rustix::net::accept(&listener) {
                    let client = std::net::TcpStream::from(client);
                    let client = client.set_nonblocking(true).and_then(|()| TcpStream::from_std(client));
                    if let Ok(client) = client {
                        take(client, &mut connections);
                    }
                }
                let _ = done.send(());
            }
        }
    }
}

async fn serve_one(client: TcpStream, guard: Guard, upstream: Upstream) {
    match upstream {
        Upstream::Proxy => guard.serve_http(client).await,
        Upstream::Host(rule) => guard.serve_tcp(client, &rule).await,
    }
}
