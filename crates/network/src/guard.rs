//! Who may be reached, and how.

use crate::address::is_private;
use crate::authority::Authority;
use crate::credentials::Credential;
use crate::error::Refusal;
use crate::proxies::Proxies;
use crate::record::{Connection, Kind, Log, Outcome};
use crate::tls::Trust;
use cellblock_protocol::NetworkRule;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a connection may take to stand.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a name may take to be found.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);
/// Connections of one session at a time.
pub(crate) const MOST_CONNECTIONS: usize = 128;

/// How names become addresses.
pub type Lookup = Arc<dyn Fn(String, u16) -> Found + Send + Sync>;
type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The rules of one session, and what is needed to keep them.
#[derive(Clone)]
pub struct Guard {
    rules: Arc<[NetworkRule]>,
    pub(crate) credentials: Arc<[Credential]>,
    pub(crate) trust: Trust,
    pub(crate) proxies: Arc<Proxies>,
    lookup: Lookup,
    log: Log,
    room: Arc<Semaphore>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Guard")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard with these rules, who tells `log` of every connection. Names are found as the host finds them.
    pub fn new(rules: &[NetworkRule], log: Log) -> Guard {
        Guard {
            rules: rules.into(),
            credentials: Arc::default(),
            trust: Trust::default(),
            proxies: Arc::default(),
            lookup: Arc::new(|host, port| {
                Box::pin(async move {
                    Ok(tokio::net::lookup_host((host.as_str(), port))
                        .await?
                        .collect())
                })
            }),
            log,
            room: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        }
    }

    /// Puts these on requests on their way out.
    pub fn credentials(mut self, credentials: &[Credential]) -> Guard {
        self.credentials = credentials.into();
        self
    }

    /// Believes whom this says, and not the host's system, to be who they say they are.
    pub fn trust(mut self, config: Arc<rustls::ClientConfig>) -> Guard {
        self.trust = Trust::Own(config);
        self
    }

    /// Goes through these proxies, which then find the names.
    pub fn proxies(mut self, proxies: Arc<Proxies>) -> Guard {
        self.proxies = proxies;
        self
    }

    /// Finds names in another way.
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
    ) -> Result<&NetworkRule, Refusal> {
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
        Err(Refusal::no_rule(target(host, port), shown, &self.rules))
    }

    /// Connects to a host that a rule allows. The address that was looked at is the one that is used.
    pub(crate) async fn connect(
        &self,
        rule: &NetworkRule,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, Refusal> {
        let unknown = |source| Refusal::Unknown {
            host: host.to_owned(),
            source,
        };
        let found = match timeout(LOOKUP_LIMIT, (self.lookup)(host.to_owned(), port)).await {
            Ok(found) => found.map_err(unknown)?,
            Err(_) => return Err(unknown(io::ErrorKind::TimedOut.into())),
        };
        let (good, bad): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|found| rule.private || !is_private(found.ip()));
        if good.is_empty() {
            return Err(match bad.first() {
                Some(address) => Refusal::Private {
                    host: host.to_owned(),
                    address: address.ip(),
                },
                None => unknown(io::ErrorKind::NotFound.into()),
            });
        }
        let unreachable = |source| Refusal::Unreachable {
            target: target(host, port),
            source,
        };
        let stream = match timeout(CONNECT_LIMIT, TcpStream::connect(&good[..])).await {
            Ok(stream) => stream.map_err(unreachable)?,
            Err(_) => return Err(unreachable(io::ErrorKind::TimedOut.into())),
        };
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// Room for one more connection.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.room)
            .try_acquire_owned()
            .map_err(|_| Refusal::TooMany(MOST_CONNECTIONS))
    }

    pub(crate) fn note(
        &self,
        kind: Kind,
        target: Option<Authority>,
        begun: Instant,
        outcome: Outcome,
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

/// A host and a port as one word.
pub(crate) fn target(host: &str, port: u16) -> String {
    let host = host.to_owned();
    Authority { host, port }.to_string()
}
