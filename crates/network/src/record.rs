//! One line for every connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who is told of every connection when it is over.
pub type Log = Arc<dyn Fn(&Connection) + Send + Sync>;

/// A connection that the code of a session made, or tried to make.
#[derive(Debug)]
pub struct Connection {
    /// In which way.
    pub kind: Kind,
    /// Whom it asked for, as `host:port`.
    pub target: String,
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
    /// It was not, and why.
    Refused(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Http(method) => out.write_str(method),
            Kind::Tunnel => out.write_str("CONNECT"),
            Kind::Tcp => out.write_str("TCP"),
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
