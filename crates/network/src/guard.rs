//! The guard: checks rules, resolves names, connects, and relays bytes for rules with `tcp://`.

use crate::authority::{Authority, is_own, is_private};
use crate::connection::{
    Connection, ConnectionLog, ConnectionOutcome, ConnectionRefusal, RequestKind,
};
use crate::credentials::{Credential, ServerTrust};
use crate::upstream_proxy::Proxies;
use cellblock_protocol::{HostPattern, NetworkRule};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the lookup of a name may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// The most connections of one session at a time.
pub(crate) const MAX_CONNECTIONS: usize = 128;

/// A function that resolves a host name.
pub type Lookup = Arc<dyn Fn(String, u16) -> LookupFuture + Send + Sync>;
type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// A function that asks whether a host may be reached that no rule names. The error is the reason why it may not.
pub type AskForHost = Arc<dyn Fn(Authority) -> HostDecision + Send + Sync>;
/// A decision about a host that is waited for.
pub type HostDecision = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Enforces the network rules of one session. Clones share its state.
#[derive(Clone)]
pub struct Guard {
    rules: Arc<[NetworkRule]>,
    pub(crate) credentials: Arc<[Credential]>,
    pub(crate) trust: ServerTrust,
    pub(crate) proxies: Arc<Proxies>,
    lookup: Lookup,
    ask_for_host: Option<AskForHost>,
    log: ConnectionLog,
    connection_slots: Arc<Semaphore>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Guard")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard with these rules. It calls `log` with every connection, and resolves names as the host does.
    pub fn new(rules: &[NetworkRule], log: ConnectionLog) -> Guard {
        Guard {
            rules: rules.into(),
            credentials: Arc::default(),
            trust: ServerTrust::default(),
            proxies: Arc::default(),
            lookup: Arc::new(|host, port| {
                Box::pin(async move {
                    Ok(tokio::net::lookup_host((host.as_str(), port))
                        .await?
                        .collect())
                })
            }),
            ask_for_host: None,
            log,
            connection_slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }

    /// Adds these credentials to requests.
    pub fn credentials(mut self, credentials: &[Credential]) -> Guard {
        self.credentials = credentials.into();
        self
    }

    /// Checks the certificates of servers with this configuration instead of the system's.
    pub fn trust(mut self, config: Arc<rustls::ClientConfig>) -> Guard {
        self.trust = ServerTrust::Custom(config);
        self
    }

    /// Connects through these proxies, which then resolve the names.
    pub fn proxies(mut self, proxies: Arc<Proxies>) -> Guard {
        self.proxies = proxies;
        self
    }

    /// Asks this function about hosts that no rule names.
    pub fn ask_for_hosts(mut self, ask: AskForHost) -> Guard {
        self.ask_for_host = Some(ask);
        self
    }

    /// Resolves names with this function.
    pub fn lookup(mut self, lookup: Lookup) -> Guard {
        self.lookup = lookup;
        self
    }

    /// The rule that allows a connection through the proxy; `method` for plain HTTP.
    pub(crate) fn rule(
        &self,
        host: &str,
        port: u16,
        method: Option<&str>,
    ) -> Result<&NetworkRule, ConnectionRefusal> {
        let mut others = false;
        for rule in self.rules.iter().filter(|rule| !rule.raw) {
            if !rule.opens(port) || !rule.host.matches(host) {
                continue;
            }
            if rule.methods.is_empty()
                || method.is_some_and(|method| rule.methods.iter().any(|known| known == method))
            {
                return Ok(rule);
            }
            others = true;
        }
        let shown = others.then_some(method.unwrap_or("CONNECT"));
        Err(ConnectionRefusal::no_rule(
            target(host, port),
            shown,
            &self.rules,
        ))
    }

    /// The rule that allows a connection through the proxy; where none names the host, a rule for this host and port alone, if the
    /// request for it is granted. The wait for that ends when the client gives up.
    pub(crate) async fn rule_or_ask(
        &self,
        target: &Authority,
        method: Option<&str>,
        client: &TcpStream,
    ) -> Result<NetworkRule, ConnectionRefusal> {
        let refusal = match self.rule(&target.host, target.port, method) {
            Ok(rule) => return Ok(rule.clone()),
            Err(refusal) => refusal,
        };
        let is_named = matches!(
            &refusal,
            ConnectionRefusal::NoRule {
                method: Some(_),
                ..
            }
        );
        let Some(ask) = self.ask_for_host.as_ref().filter(|_| !is_named) else {
            return Err(refusal);
        };
        // Without a rule that can be written there is nothing to ask for.
        let Ok(rule) = target.to_string().parse::<NetworkRule>() else {
            return Err(refusal);
        };
        let rejected = |reason| ConnectionRefusal::Rejected {
            target: target.to_string(),
            reason,
        };
        tokio::select! {
            decision = ask(target.clone()) => decision.map_err(rejected)?,
            () = wait_until_closed(client) => {
                return Err(rejected("the code gave up before the request was answered".to_owned()));
            }
        }
        Ok(rule)
    }

    /// Connects to a host that a rule allows. It connects to the very address that it checked, so a name cannot change in between.
    pub(crate) async fn connect(
        &self,
        rule: &NetworkRule,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, ConnectionRefusal> {
        let unknown = |source| ConnectionRefusal::Unknown {
            host: host.to_owned(),
            source,
        };
        let found = match timeout(LOOKUP_TIMEOUT, (self.lookup)(host.to_owned(), port)).await {
            Ok(found) => found.map_err(unknown)?,
            Err(_) => return Err(unknown(io::ErrorKind::TimedOut.into())),
        };
        let is_near = |address: IpAddr| is_private(address) || is_own(address);
        let (good, bad): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|found| rule.private || !is_near(found.ip()));
        if good.is_empty() {
            return Err(match bad.first() {
                Some(address) => ConnectionRefusal::Private {
                    host: host.to_owned(),
                    address: address.ip(),
                },
                None => unknown(io::ErrorKind::NotFound.into()),
            });
        }
        let unreachable = |source| ConnectionRefusal::Unreachable {
            target: target(host, port),
            source,
        };
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(&good[..])).await {
            Ok(stream) => stream.map_err(unreachable)?,
            Err(_) => return Err(unreachable(io::ErrorKind::TimedOut.into())),
        };
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// A slot for one more connection. Refused when all are taken.
    pub(crate) fn acquire_slot(&self) -> Result<OwnedSemaphorePermit, ConnectionRefusal> {
        Arc::clone(&self.connection_slots)
            .try_acquire_owned()
            .map_err(|_| ConnectionRefusal::TooMany(MAX_CONNECTIONS))
    }

    pub(crate) fn report(
        &self,
        kind: RequestKind,
        target: Option<Authority>,
        begun: Instant,
        outcome: ConnectionOutcome,
    ) {
        let time = begun.elapsed();
        (self.log)(Connection {
            kind,
            target,
            outcome,
            time,
        });
    }
}

/// Waits until the client has closed its connection. A client that sends on is not waited for.
async fn wait_until_closed(client: &TcpStream) {
    match client.peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

/// A host and a port as text.
pub(crate) fn target(host: &str, port: u16) -> String {
    let host = host.to_owned();
    Authority { host, port }.to_string()
}

/// The size of the buffer in each direction. A smaller one slows fast connections down.
pub(crate) const RELAY_BUFFER_BYTES: usize = 256 << 10;

impl Guard {
    /// Serves one connection of the session to the host of `rule`, which must be a rule for TCP.
    pub async fn serve_tcp(&self, mut client: TcpStream, rule: &NetworkRule) {
        let begun = Instant::now();
        let host = match &rule.host {
            HostPattern::Name(name) | HostPattern::Below(name) => name.clone(),
            HostPattern::Address(address) => address.to_string(),
        };
        let port = rule.port.unwrap_or_default();
        let outcome = match self.acquire_slot() {
            Err(refusal) => Err(refusal),
            Ok(_slot) => match self.connect(rule, &host, port).await {
                Err(refusal) => Err(refusal),
                Ok(mut server) => relay(&mut client, &mut server).await,
            },
        };
        let outcome = outcome.unwrap_or_else(ConnectionOutcome::Refused);
        let target = Authority { host, port };
        self.report(RequestKind::Tcp, Some(target), begun, outcome);
    }
}

/// Copies bytes in both directions until both have ended.
pub(crate) async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> Result<ConnectionOutcome, ConnectionRefusal> {
    let address = server.peer_addr().map_err(ConnectionRefusal::Broken)?;
    let _ = client.set_nodelay(true);
    let copied: io::Result<(u64, u64)> =
        copy_bidirectional_with_sizes(client, server, RELAY_BUFFER_BYTES, RELAY_BUFFER_BYTES).await;
    // A connection that broke was made nevertheless.
    let (sent, received) = copied.unwrap_or_default();
    Ok(ConnectionOutcome::Allowed {
        address,
        sent,
        received,
    })
}
