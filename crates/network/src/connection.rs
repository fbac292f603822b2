//! The report of a connection, and the reasons why a connection is refused.

use crate::authority::Authority;
use cellblock_protocol::NetworkRule;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// A function that gets every connection when it has ended. For a refused connection it is called before the client gets its answer.
pub type ConnectionLog = Arc<dyn Fn(Connection) + Send + Sync>;

/// A connection that the code of a session made, or tried to make.
#[derive(Debug)]
pub struct Connection {
    /// How the connection was requested.
    pub kind: RequestKind,
    /// The requested host. `None` if the request was not understood.
    pub target: Option<Authority>,
    /// Whether it was made.
    pub outcome: ConnectionOutcome,
    /// How long it was open.
    pub time: Duration,
}

/// How a connection was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Plain HTTP, with this method.
    Http(String),
    /// `CONNECT`: a tunnel, most often for TLS.
    Tunnel,
    /// Directly, by a rule with `tcp://`.
    Tcp,
    /// A connection to the proxy whose request was not understood or not read.
    Unknown,
}

/// The outcome of a connection.
#[derive(Debug)]
pub enum ConnectionOutcome {
    /// The connection was made.
    Allowed {
        /// The address of the server.
        address: SocketAddr,
        /// Bytes out of the session.
        sent: u64,
        /// Bytes into it.
        received: u64,
    },
    /// The connection was not made, for this reason.
    Refused(ConnectionRefusal),
}

impl Connection {
    /// Why the connection was not made; `None` where it was.
    pub fn refusal(&self) -> Option<&ConnectionRefusal> {
        match &self.outcome {
            ConnectionOutcome::Refused(refusal) => Some(refusal),
            ConnectionOutcome::Allowed { .. } => None,
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestKind::Http(method) => out.write_str(method),
            RequestKind::Tunnel => out.write_str("CONNECT"),
            RequestKind::Tcp => out.write_str("TCP"),
            RequestKind::Unknown => out.write_str("?"),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connection {
            kind,
            target,
            outcome,
            time,
        } = self;
        let target = target.as_ref().map(Authority::to_string);
        let target = target.as_deref().unwrap_or("?");
        match outcome {
            ConnectionOutcome::Allowed {
                address,
                sent,
                received,
            } => write!(
                out,
                "allowed {kind} {target} at {address}: {sent} bytes out, {received} in, {:.0} ms",
                time.as_secs_f64() * 1e3
            ),
            ConnectionOutcome::Refused(reason) => write!(out, "refused {kind} {target}: {reason}"),
        }
    }
}

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionRefusal {
    /// No rule allows the connection.
    #[error("this session may not reach {target}{}; it may reach {allowed}", .method.as_ref().map(|method| format!(" with {method}")).unwrap_or_default())]
    NoRule {
        /// Host and port.
        target: String,
        /// The method, where another one would have been allowed.
        method: Option<String>,
        /// The rules, joined.
        allowed: String,
    },
    /// No rule names the host, and the request to allow it was turned down.
    #[error("this session may not reach {target}: {reason}")]
    Rejected {
        /// Host and port.
        target: String,
        /// Why.
        reason: String,
    },
    /// The name resolves to a private address, which the rule does not allow.
    #[error(
        "{host} has the private address {address}, which no rule allows; add the word `private` to its rule if it is meant"
    )]
    Private {
        /// The name.
        host: String,
        /// The private address.
        address: IpAddr,
    },
    /// The name cannot be resolved.
    #[error("the name {host} cannot be found: {source}")]
    Unknown {
        /// The name.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server cannot be reached.
    #[error("{target} cannot be reached: {source}")]
    Unreachable {
        /// Host and port.
        target: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The connection broke before anything was passed on.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// What the client sent is not a request to a proxy.
    #[error("this is the way out of a session, and it did not understand the request: {0}")]
    Malformed(&'static str),
    /// The client wants to be told to go on before it sends its body (`Expect`). Clients try again without it.
    #[error(
        "this is the way out of a session, and it does not support the header Expect; send the body without it"
    )]
    Expectation,
    /// The request is clear, but a server could take it for one that no rule allows.
    #[error("this session may not send this request: {0}")]
    NotPassedOn(&'static str),
    /// The session has too many connections.
    #[error("this session has {0} connections open already; close some first")]
    TooMany(usize),
}

impl ConnectionRefusal {
    pub(crate) fn no_rule(
        target: String,
        method: Option<&str>,
        rules: &[NetworkRule],
    ) -> ConnectionRefusal {
        let allowed: Vec<String> = rules.iter().map(NetworkRule::to_string).collect();
        ConnectionRefusal::NoRule {
            target,
            method: method.map(str::to_owned),
            allowed: allowed.join(", "),
        }
    }

    /// The status that a proxy answers with.
    pub(crate) fn status(&self) -> u16 {
        match self {
            ConnectionRefusal::NoRule { .. }
            | ConnectionRefusal::Rejected { .. }
            | ConnectionRefusal::Private { .. }
            | ConnectionRefusal::NotPassedOn(_) => 403,
            ConnectionRefusal::Expectation => 417,
            ConnectionRefusal::Unknown { .. }
            | ConnectionRefusal::Unreachable { .. }
            | ConnectionRefusal::Broken(_) => 502,
            ConnectionRefusal::Malformed(_) => 400,
            ConnectionRefusal::TooMany(_) => 503,
        }
    }
}
