//! What a session wanted to reach and did not, as its guard saw it.

use cellblock_env::UnreachedHost;
use cellblock_session::Session;
use cellblock_session::network::{Authority, Connection, ConnectionRefusal};
use std::sync::Arc;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// The most hosts that are told of.
const MAX_HOSTS: usize = 5;
/// The longest reason, in characters.
const MAX_REASON_CHARS: usize = 400;

/// Listens to the guard, and keeps each host once.
pub(crate) struct UnreachedHosts {
    connections: Receiver<Arc<Connection>>,
    found: Vec<UnreachedHost>,
}

impl UnreachedHosts {
    pub(crate) fn of(session: &Session) -> UnreachedHosts {
        UnreachedHosts {
            connections: session.connections(),
            found: Vec::new(),
        }
    }

    /// Takes in what happened since the last time. The channel drops what is not taken in time.
    pub(crate) fn listen(&mut self) {
        loop {
            match self.connections.try_recv() {
                Ok(connection) => {
                    let Some(one) = unreached(&connection) else {
                        continue;
                    };
                    let is_new = self.found.iter().all(|other| other.host != one.host);
                    if is_new && self.found.len() < MAX_HOSTS {
                        self.found.push(one);
                    }
                }
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// All of them.
    pub(crate) fn collect(mut self) -> Vec<UnreachedHost> {
        self.listen();
        self.found
    }
}

fn unreached(connection: &Connection) -> Option<UnreachedHost> {
    let refusal = connection.refusal()?;
    let target = connection.target.as_ref()?;
    Some(UnreachedHost {
        host: match target {
            Authority {
                host,
                port: 80 | 443,
            } => host.clone(),
            _ => target.to_string(),
        },
        why: refusal.to_string().chars().take(MAX_REASON_CHARS).collect(),
        is_foreign: matches!(refusal, ConnectionRefusal::NoRule { .. }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellblock_session::network::{ConnectionOutcome, RequestKind};
    use std::time::Duration;

    fn connection(port: u16, outcome: ConnectionOutcome) -> Connection {
        let host = "files.example".to_owned();
        Connection {
            kind: RequestKind::Tunnel,
            target: Some(Authority { host, port }),
            outcome,
            time: Duration::ZERO,
        }
    }

    #[test]
    fn a_refused_connection_says_who_was_not_reached() {
        let refusal = ConnectionRefusal::NoRule {
            target: "files.example:443".to_owned(),
            method: None,
            allowed: "packages.example.org".to_owned(),
        };
        assert_eq!(
            unreached(&connection(443, ConnectionOutcome::Refused(refusal))),
            Some(UnreachedHost {
                host: "files.example".to_owned(),
                why: "this session may not reach files.example:443; it may reach packages.example.org"
                    .to_owned(),
                is_foreign: true,
            })
        );
        let gone = ConnectionRefusal::Unreachable {
            target: "files.example:8080".to_owned(),
            source: std::io::ErrorKind::ConnectionRefused.into(),
        };
        let found = unreached(&connection(8080, ConnectionOutcome::Refused(gone))).unwrap();
        assert_eq!(
            (found.host.as_str(), found.is_foreign),
            ("files.example:8080", false)
        );
        let allowed = ConnectionOutcome::Allowed {
            address: ([192, 0, 2, 1], 443).into(),
            sent: 1,
            received: 1,
        };
        assert_eq!(unreached(&connection(443, allowed)), None);
    }
}
