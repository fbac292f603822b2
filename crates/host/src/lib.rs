//! The host of sessions.
//!
//! A [`Host`] finds a Python with its packages, starts one runtime for each environment and each set
//! of walls, and opens sessions in them. [`SessionBuilder`] is the short way to one session.
//! [`Packages`] installs into sessions that live already. [`journal`] restores a session from its
//! journal and exports it.
//!
//! Sessions themselves are in `cellblock-session`, and the data that they take and return in
//! `cellblock-protocol`.
#![forbid(unsafe_code)]

mod error;
mod host;
pub mod journal;
pub mod operations;
mod packages;
mod runtimes;
mod session_builder;
mod shared_host;

pub use cellblock_session::Session;
pub use error::Error;
pub use host::{Host, HostBuilder, PythonChoice};
pub use packages::Packages;
pub use session_builder::SessionBuilder;
