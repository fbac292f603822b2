//! A session's ways to the network: sockets on its own loopback, with a guard of the host's behind each.

use crate::Error;
use cellblock_network::{Guard, Log};
use cellblock_protocol::{Event, HostPattern, NetworkRule};
use cellblock_sandbox::Birth;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::{AbortHandle, JoinSet};

/// Where the proxy listens inside.
const PROXY_PORT: u16 = 3128;

/// Where a connection that comes in at a door goes.
#[derive(Clone, Debug)]
enum Behind {
    Proxy,
    Host(NetworkRule),
}

/// The doors of a session, in the order in which init opens them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doors {
    rules: Vec<NetworkRule>,
    behind: Vec<Behind>,
}

/// A door that init has opened: its number, and the socket that listens there.
pub(crate) type Opened = (usize, OwnedFd);

/// Those who serve the doors, for as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct WaysOut {
    serving: Vec<AbortHandle>,
}

impl Doors {
    pub(crate) fn for_rules(rules: &[NetworkRule]) -> Doors {
        let by_proxy = rules.iter().any(|rule| !rule.raw);
        let raw = rules.iter().filter(|rule| rule.raw).cloned();
        let behind = by_proxy.then_some(Behind::Proxy).into_iter();
        Doors {
            rules: rules.to_vec(),
            behind: behind.chain(raw.map(Behind::Host)).collect(),
        }
    }

    /// Asks init for the doors, and for names under which the code finds what is behind them.
    pub(crate) fn ask_for(&self, mut birth: Birth) -> Result<Birth, Error> {
        if self.behind.is_empty() {
            return Ok(birth);
        }
        let mut places = BTreeMap::new();
        let mut names = String::from("127.0.0.1 localhost\n");
        for behind in &self.behind {
            birth = match behind {
                Behind::Proxy => birth.door(PROXY_PORT, 0)?,
                Behind::Host(rule) => {
                    let host = rule.host.to_string();
                    places.entry("localhost".to_owned()).or_insert(0);
                    let next = places.len() as u16;
                    let place = *places.entry(host.clone()).or_insert_with(|| {
                        let [high, low] = next.to_be_bytes();
                        names.push_str(&format!("127.1.{high}.{low} {host}\n"));
                        next
                    });
                    birth.door(rule.port.unwrap_or_default(), place)?
                }
            };
        }
        Ok(birth.file(Path::new("/etc/hosts"), &names)?)
    }

    /// What programs inside look for to find the proxy.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let allowed: Vec<String> = self.rules.iter().map(NetworkRule::to_string).collect();
        let mut variables = vec![("CELLBLOCK_NETWORK".to_owned(), allowed.join(", "))];
        if self
            .behind
            .iter()
            .any(|behind| matches!(behind, Behind::Proxy))
        {
            let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
            for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
                variables.push((name.to_owned(), proxy.clone()));
            }
            // What rules for TCP name is found without the proxy.
            let direct = self.behind.iter().filter_map(|behind| match behind {
                Behind::Host(rule) => Some(rule.host.to_string()),
                Behind::Proxy => None,
            });
            let direct: Vec<String> = direct.collect();
            for name in ["no_proxy", "NO_PROXY"] {
                variables.push((name.to_owned(), direct.join(",")));
            }
        }
        variables
    }

    /// Serves what init has opened. Each connection is told to those who listen to the session.
    pub(crate) fn serve(
        &self,
        opened: Vec<Opened>,
        logs: &broadcast::Sender<Event>,
    ) -> Result<WaysOut, Error> {
        let logs = logs.clone();
        let log: Log = Arc::new(move |connection| {
            let text = format!("network: {connection}\n");
            let _ = logs.send(Event::Log { text });
        });
        let guard = Guard::new(&self.rules, log);
        let mut ways = WaysOut::default();
        for (number, socket) in opened {
            let behind = self.behind.get(number).cloned();
            let behind = behind.ok_or(cellblock_sandbox::Error::Protocol { process: "init" })?;
            let door = listener(socket).map_err(Error::system("listening for the network"))?;
            let task = tokio::spawn(serve(door, guard.clone(), behind));
            ways.serving.push(task.abort_handle());
        }
        Ok(ways)
    }
}

impl Drop for WaysOut {
    fn drop(&mut self) {
        for serving in &self.serving {
            serving.abort();
        }
    }
}

/// An address has no name that would lead somewhere else.
pub(crate) fn refuse_addresses(rules: &[NetworkRule]) -> Result<(), Error> {
    let is_address = |rule: &&NetworkRule| rule.raw && matches!(rule.host, HostPattern::Address(_));
    match rules.iter().find(is_address) {
        None => Ok(()),
        Some(rule) => Err(Error::Refused(format!(
            "the rule `{rule}` cannot be kept: inside a session, hosts for tcp:// are found by their names, and an address has none; use a name, such as `tcp://localhost:5432`"
        ))),
    }
}

fn listener(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Every connection ends with the door.
async fn serve(door: TcpListener, guard: Guard, behind: Behind) {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = door.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(serve_one(client, guard.clone(), behind.clone()));
                }
                // No descriptors are left, most likely.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_one(client: TcpStream, guard: Guard, behind: Behind) {
    match behind {
        Behind::Proxy => guard.serve_http(client).await,
        Behind::Host(rule) => guard.serve_tcp(client, &rule).await,
    }
}
