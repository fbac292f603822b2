//! A container engine, used through its HTTP API on a Unix socket.
//!
//! [`Engine`] finds the engine and creates containers from a [`ContainerSpec`]. A [`Container`] is
//! started, its output is read, its end is waited for, and it is removed. The crate knows nothing of
//! Python, cells or sessions.
//!
//! Written by hand instead of with `bollard` 0.21, as measured: `bollard` adds 30 s of processor time
//! to a release build (21 s of it for its generated types) for the five requests that are used here.
//!
//! ```no_run
//! # async fn example(spec: cellblock_docker::ContainerSpec) -> Result<(), cellblock_docker::Error> {
//! let engine = cellblock_docker::Engine::from_environment()?;
//! let container = engine.create(&spec).await?;
//! let mut output = container.attach().await?;
//! container.start().await?;
//! while let Some(line) = output.next_line().await {
//!     println!("{}: {}", line.stream, line.text);
//! }
//! println!("exit code {}", container.wait().await?);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod container;
mod engine;
mod output;

pub use container::{Container, ContainerSpec, Mount};
pub use engine::{Engine, Error};
pub use output::{Output, OutputLine, OutputStream};
