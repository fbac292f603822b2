//! Descriptors that tasks can wait for.

use rustix::fd::OwnedFd;
use std::io;
use tokio::io::unix::AsyncFd;

/// Registers a non-blocking descriptor with the runtime that this is called in.
pub fn readiness(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps its descriptor open, and the same one, until it is dropped with the `AsyncFd`.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
