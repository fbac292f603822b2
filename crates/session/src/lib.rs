//! Sealed, stateful Python sessions.
//!
//! A [`Runtime`] holds one Python, warmed up and walled in; a [`Session`] is born from it by a fork and runs cells. Nothing that
//! comes from inside a session is believed: status, exit code and signal are decided here, from the process.
#![forbid(unsafe_code)]

mod actor;
mod arming;
mod assembly;
mod attributes;
mod birth;
mod calls;
mod capture;
mod cell_run;
mod channel;
mod checkpoints;
mod clock;
mod conclusion;
mod container;
mod disk;
mod echo;
mod error;
mod exchange;
mod file_history;
mod file_restore;
mod file_store;
mod fork;
mod given;
mod guard;
mod guest;
mod held_files;
mod hidden;
mod history;
mod home;
pub mod journal;
mod keeper;
mod line;
mod loan;
mod looks;
mod measure;
mod named_files;
mod origin;
mod outputs;
mod own_files;
mod packages;
mod packets;
mod pipes;
mod plan;
mod pool;
mod private_copy;
mod python;
mod recovery;
mod replay;
mod running;
mod runtime;
mod session;
mod shares;
mod sockets;
mod steps;
mod tracker;
mod undo;
mod verdict;
mod watch;
mod ways_out;
mod workspace;
mod zygote;

pub use cellblock_docker::Engine;
pub use cellblock_network::{BadProxy, Proxies};
pub use cellblock_sandbox::{Cgroups, Mechanism, Probe, Verdict};
pub use container::Containers;
pub use error::Error;
pub use named_files::{OutputDirectory, UntrustedDirectories};
pub use pool::PoolState;
pub use python::{Preload, Python};
pub use running::Running;
pub use runtime::{Runtime, RuntimeBuilder};
pub use session::Session;

/// What the guard of a session's network saw: connections, and why they were refused.
pub mod network {
    pub use cellblock_network::{Authority, Connection, Kind, Outcome, Refusal};
}
