//! The errors of sessions, in words for a person.

use cellblock_protocol::Invalid;
use std::io;
use std::path::PathBuf;

/// An error of a session or a runtime. A cell that fails is none of these: that is a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A cell is running.
    #[error(
        "session `{session}` is busy: a cell is running in it; wait for its result or interrupt it"
    )]
    Busy {
        /// The session.
        session: String,
    },
    /// The session is over.
    #[error("session `{session}` has ended: {reason}")]
    Ended {
        /// The session.
        session: String,
        /// Why.
        reason: String,
    },
    /// Something that was named is not there.
    #[error("{0}")]
    NotFound(String),
    /// Events that a reader wanted are not kept any more.
    #[error(transparent)]
    EventGap(#[from] crate::EventGap),
    /// Bad input, refused before anything happened.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The guest refused an operation.
    #[error("{0}")]
    Refused(String),
    /// The walls could not be built.
    #[error(transparent)]
    Sandbox(#[from] cellblock_sandbox::Error),
    /// There is no container for it.
    #[error(transparent)]
    Container(#[from] cellblock_docker::Error),
    /// Python did not come up.
    #[error("Python at {} did not start: {problem}", python.display())]
    Python {
        /// The Python.
        python: PathBuf,
        /// The problem, in its own words.
        problem: String,
    },
    /// The workspace cannot be used.
    #[error("the workspace {} cannot be used: {problem}", path.display())]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A file in the workspace cannot be used.
    #[error("the file `{path}` in the workspace: {source}")]
    File {
        /// Relative to the workspace.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A file that a session sees cannot be used.
    #[error("`{path}` of the session: {source}")]
    Path {
        /// The absolute path, as code of the session knows it.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The session is paused.
    #[error("session `{session}` is paused; resume it first")]
    Paused {
        /// Which session.
        session: String,
    },
    /// A directory or file of our own cannot be used.
    #[error("{what} {} failed: {source}", path.display())]
    Storage {
        /// The step that failed.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what} failed: {source}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// A short word for programs, as in the pipe's `error` event.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Busy { .. } => "busy",
            Error::Ended { .. } => "ended",
            Error::NotFound(_) => "not_found",
            Error::EventGap(_) => "gap",
            Error::Invalid(_) => "invalid",
            Error::Refused(_) => "refused",
            Error::Sandbox(_) => "isolation",
            Error::Container(_) => "container",
            Error::Python { .. } => "python",
            Error::Workspace { .. } => "workspace",
            Error::File { .. } | Error::Path { .. } => "file",
            Error::Paused { .. } => "paused",
            Error::Storage { .. } | Error::System { .. } => "system",
        }
    }

    /// Whether the error only means that this machine does not have the walls that were asked for.
    pub fn is_lack_of_walls(&self) -> bool {
        matches!(
            self,
            Error::Sandbox(cellblock_sandbox::Error::Unreachable { .. })
        )
    }

    pub(crate) fn path(path: &str, source: io::Error) -> Error {
        // What openat2 says of a link that leads out is a riddle.
        let source = match source.kind() {
            io::ErrorKind::CrossesDevices => {
                let problem = "a link on the way leads out of its place";
                io::Error::new(io::ErrorKind::PermissionDenied, problem)
            }
            _ => source,
        };
        let path = path.to_owned();
        Error::Path { path, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { what, source }
    }
}
