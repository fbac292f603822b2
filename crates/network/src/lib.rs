//! The network guard of a session: a proxy on the host that decides about every connection by rules.
//!
//! A session has no network of its own. A session with rules has a proxy on its loopback, and its connections arrive at a [`Guard`] on
//! the host. The guard reads the host that a request names, checks the rules, resolves the name itself, refuses private addresses unless
//! a rule allows them, and reports every [`Connection`] with its [`ConnectionOutcome`]. The guard also adds credentials to requests, so that the
//! session never holds them.
#![forbid(unsafe_code)]

mod authority;
mod connection;
mod credentials;
mod guard;
mod http;
mod upstream_proxy;

pub use crate::authority::Authority;
pub use crate::connection::{
    Connection, ConnectionLog, ConnectionOutcome, ConnectionRefusal, RequestKind,
};
pub use crate::credentials::{Credential, CredentialError};
pub use crate::guard::{AskForHost, Guard, HostDecision, Lookup};
pub use crate::http::Rewritten;
pub use crate::upstream_proxy::{BadProxy, Proxies};
