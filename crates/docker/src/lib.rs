//! A container engine, spoken to through its HTTP API on a Unix socket.
//!
//! [`Engine`] finds it and makes containers; a [`Container`] is started, listened to, waited for and removed. Knows nothing of
//! Python, cells or sessions.
#![forbid(unsafe_code)]

mod container;
mod engine;
mod error;
mod exchange;
mod output;
mod plan;

pub use container::Container;
pub use engine::Engine;
pub use error::Error;
pub use output::{Output, Source};
pub use plan::{Mount, Plan};
