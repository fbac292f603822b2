//! Sealed, stateful Python sessions.
//!
//! A [`Runtime`] holds one Python with imported packages behind walls; a [`Session`] is forked from it and runs cells. Nothing that
//! comes from inside a session is believed: status, exit code and signal are decided here, from the process.
#![forbid(unsafe_code)]

mod actor;
mod checkpoint;
mod container;
mod error;
mod events;
mod files;
pub mod journal;
mod live;
pub mod network;
mod packages;
mod paths;
mod processes;
mod running;
mod runtime;
mod session;
mod snapshot;
mod spawn;
mod state_directory;
mod wire;

pub use cellblock_docker::{Engine, Error as ContainerError};
pub use cellblock_network::{BadProxy, Proxies};
pub use cellblock_sandbox::{Cgroups, Error as IsolationError, Mechanism, Probe, Verdict};
pub use container::Containers;
pub use container::image_python::ImagePython;
pub use error::{
    Error, ForkRefusal, NotFound, ProcessProblem, ProcessRefusal, PythonProblem, Refusal,
    WorkspaceProblem,
};
pub use events::{EventGap, EventReader};
pub use files::kept_workspaces::{KeptWorkspace, KeptWorkspaces, WorkspaceRetention};
pub use files::untrusted::{OutputDirectory, ReplacedFile, UntrustedDirectories};
pub use paths::{Below, Existing, MAX_LISTED, MAX_READ_BYTES, MAX_WATCHES, PathWatch, Paths};
pub use processes::{AttachedProcess, FinishedProcess, Process, ProcessEvent, ProcessEvents};
pub use running::Running;
pub use runtime::{LoadedPython, Preload, Python, Runtime, RuntimeBuilder};
pub use session::{ResourceUse, Session};
pub use snapshot::Snapshot;
pub use spawn::pool::PoolState;
