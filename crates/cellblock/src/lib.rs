//! A sealed, stateful, real Python for language models.
//!
//! ```
//! use cellblock::Session;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), cellblock::Error> {
//! let session = Session::builder().start().await?;
//! session.run("x = 20").await?;
//! let result = session.run("x + 1").await?;
//! assert_eq!(result.value.map(|value| value.repr), Some("21".to_owned()));
//! # Ok(())
//! # }
//! ```
//!
//! This crate is a facade: it finds a Python, starts it behind walls once, and makes sessions. What it hands out is described
//! in `cellblock-session` (the sessions) and `cellblock-protocol` (the data).
#![forbid(unsafe_code)]

pub mod agent;
mod builder;
mod error;
mod host;
mod installer_sandbox;
pub mod journal;
mod packages;
mod refusals;
mod runtimes;
mod shared_host;

pub use builder::{Session, SessionBuilder};
pub use cellblock_protocol::*;
pub use cellblock_session::{
    Cgroups, Mechanism, OutputDirectory, PoolState, Preload, Probe, Running, UntrustedDirectories,
    Verdict,
};
pub use error::Error;
pub use host::{Host, HostBuilder, PythonChoice};
pub use packages::Packages;

/// Tools: what models, code in sessions and MCP clients can call.
pub mod tools {
    pub use cellblock_tools::*;
}

/// The Model Context Protocol: us as a server, and the tools of other servers. Without the feature `mcp`, which is on by default, it is left out.
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use cellblock_mcp::*;
}

/// Python interpreters and environments.
pub mod env {
    pub use cellblock_env::*;
}

/// Tasks with checks: how well a model does.
pub mod eval {
    pub use cellblock_eval::*;
}

/// Language models.
pub mod model {
    pub use cellblock_model::*;
}

/// What the guard of a session's network saw.
pub mod network {
    pub use cellblock_session::network::*;
}
