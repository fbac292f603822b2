//! Why something was not reached, in words for whoever reads the code's traceback.

use cellblock_protocol::NetworkRule;
use std::io;
use std::net::IpAddr;

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No rule allows it.
    #[error("this session may not reach {target}{}; it may reach {allowed}", .method.as_ref().map(|method| format!(" with {method}")).unwrap_or_default())]
    NoRule {
        /// Host and port.
        target: String,
        /// The method, where another one would have been allowed.
        method: Option<String>,
        /// The rules, joined.
        allowed: String,
    },
    /// The name leads to an address that nobody meant.
    #[error(
        "{host} has the private address {address}, which no rule allows; add the word `private` to its rule if it is meant"
    )]
    Private {
        /// The name.
        host: String,
        /// Where it leads.
        address: IpAddr,
    },
    /// The name is not known.
    #[error("the name {host} cannot be found: {source}")]
    Unknown {
        /// The name.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// Nobody answers there.
    #[error("{target} cannot be reached: {source}")]
    Unreachable {
        /// Host and port.
        target: String,
        /// What the system says.
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

impl Refusal {
    pub(crate) fn no_rule(target: String, method: Option<&str>, rules: &[NetworkRule]) -> Refusal {
        let allowed: Vec<String> = rules.iter().map(NetworkRule::to_string).collect();
        Refusal::NoRule {
            target,
            method: method.map(str::to_owned),
            allowed: allowed.join(", "),
        }
    }

    /// The status that a proxy answers with.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Refusal::NoRule { .. } | Refusal::Private { .. } | Refusal::NotPassedOn(_) => 403,
            Refusal::Expectation => 417,
            Refusal::Unknown { .. } | Refusal::Unreachable { .. } | Refusal::Broken(_) => 502,
            Refusal::Malformed(_) => 400,
            Refusal::TooMany(_) => 503,
        }
    }
}
