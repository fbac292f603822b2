//! From the executed library to the processes of a session: the launcher, the zygote's requests, and the functions that Python calls.

pub mod launcher;
pub mod prespawn;
pub mod restart_calls;
pub mod spawn;

#[cfg(standalone)]
mod exports;
#[cfg(standalone)]
mod freestanding;
#[cfg(standalone)]
pub(crate) mod start;
