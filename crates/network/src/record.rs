//! What is known about a connection when it is over.

use crate::authority::Authority;
use crate::error::Refusal;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Is called with every connection when it is over. A refused one is told of before its client is.
pub type Log = Arc<dyn Fn(Connection) + Send + Sync>;

/// A connection that the code of a session made, or tried to make.
#[derive(Debug)]
pub struct Connection {
    /// In which way.
    pub kind: Kind,
    /// Whom it asked for. `None` where that was not understood.
    pub target: Option<Authority>,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it was open.
    pub time: Duration,
}

/// In which way a connection was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain HTTP, with this method.
    Http(String),
    /// `CONNECT`: a tunnel, most often for TLS.
    Tunnel,
    /// By a rule for TCP.
    Tcp,
    /// To the proxy, with a request that was not understood or not read.
    Unknown,
}

/// What came of a connection.
#[derive(Debug)]
pub enum Outcome {
    /// It was made.
    Allowed {
        /// Where it led.
        address: SocketAddr,
        /// Bytes out of the session.
        sent: u64,
        /// Bytes into it.
        received: u64,
    },
    /// It was not made, and why.
    Refused(Refusal),
}

impl Connection {
    /// Why the connection was not made; `None` where it was.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::Allowed { .. } => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Http(method) => out.write_str(method),
            Kind::Tunnel => out.write_str("CONNECT"),
            Kind::Tcp => out.write_str("TCP"),
            Kind::Unknown => out.write_str("?"),
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
            Outcome::Allowed {
                address,
                sent,
                received,
            } => write!(
                out,
                "allowed {kind} {target} at {address}: {sent} bytes out, {received} in, {:.0} ms",
                time.as_secs_f64() * 1e3
            ),
            Outcome::Refused(reason) => write!(out, "refused {kind} {target}: {reason}"),
        }
    }
}
