//! The guard at a session's only way to the network.
//!
//! A session has no network of its own. Where it was given rules, it finds a proxy on its own loopback, and behind that stands a
//! [`Guard`] on the host: it reads whom the code wants to reach, asks the rules, looks the name up itself, refuses private
//! addresses that nobody meant, and writes down every connection, whatever came of it. Credentials are put on here, on the way
//! out, so that the session never holds them.
#![forbid(unsafe_code)]

mod address;
mod answer;
mod authority;
mod body;
mod credentials;
mod error;
mod guard;
mod head;
mod headers;
mod http;
mod proxies;
mod record;
mod request;
mod rewrite;
mod tcp;
mod tls;

pub use authority::Authority;
pub use credentials::{Credential, CredentialError};
pub use error::Refusal;
pub use guard::{Guard, Lookup};
pub use proxies::{BadProxy, Proxies};
pub use record::{Connection, Kind, Log, Outcome};
pub use rewrite::Rewritten;
