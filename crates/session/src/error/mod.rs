//! The errors of sessions: a variant for each cause, and a text for a person.

mod fork;
mod not_found;
mod problems;
mod process;
mod refusal;

pub use fork::ForkRefusal;
pub use not_found::NotFound;
pub use problems::{PythonProblem, WorkspaceProblem};
pub use process::{ProcessProblem, ProcessRefusal};
pub use refusal::Refusal;

use cellblock_protocol::Invalid;
use cellblock_protocol::guest::HeadError;
use std::io;
use std::path::{Path, PathBuf};

/// An error of a session or a runtime. A cell that fails is none of these: that is a result.
///
/// Each cause is a variant with its values, so that a program decides without reading the text:
///
/// ```
/// # cellblock_test_support::wait(async {
/// # let session = cellblock_test_support::open_session(Default::default()).await?;
/// use cellblock_session::{Error, NotFound};
///
/// session.run("x = 1").await?;
/// let error = session.undo(5).await.unwrap_err();
/// let Error::NotFound(NotFound::TooFewCells { kept, .. }) = &error else {
///     panic!("{error}");
/// };
/// assert_eq!(*kept, 1);
/// assert_eq!(error.to_string(), "there are only 1 cells to take back");
/// # Ok::<(), cellblock_session::Error>(())
/// # }).unwrap();
/// ```
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
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// Events that a reader wanted are not kept any more.
    #[error(transparent)]
    EventGap(#[from] crate::EventGap),
    /// Bad input, refused before anything happened.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Something was asked that this session, host or guest does not do.
    #[error(transparent)]
    Refused(#[from] Refusal),
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
        /// Why it did not start.
        problem: PythonProblem,
    },
    /// The workspace cannot be used.
    #[error("the workspace {} cannot be used: {problem}", path.display())]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// Why not.
        problem: WorkspaceProblem,
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

impl From<ForkRefusal> for Error {
    fn from(cause: ForkRefusal) -> Error {
        Error::Refused(cause.into())
    }
}

impl From<ProcessRefusal> for Error {
    fn from(cause: ProcessRefusal) -> Error {
        Error::Refused(cause.into())
    }
}

impl From<HeadError> for Error {
    fn from(cause: HeadError) -> Error {
        Error::Refused(Refusal::Guest(cause))
    }
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

    pub(crate) fn workspace(path: &Path, problem: WorkspaceProblem) -> Error {
        let path = path.to_owned();
        Error::Workspace { path, problem }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_says_its_values() {
        let held = |descriptor| {
            let what = "a pipe";
            Error::from(ForkRefusal::StillHolds { what, descriptor }).to_string()
        };
        assert!(held(Some(7)).contains("still holds a pipe (descriptor 7), which"));
        assert!(held(None).contains("still holds a pipe, which"));
        let programs = |more| {
            let named = vec!["a".to_owned(), "b".to_owned()];
            WorkspaceProblem::SetIdPrograms { named, more }.to_string()
        };
        assert!(programs(0).contains("of their owner: a, b; take"));
        assert!(programs(3).contains("of their owner: a, b and 3 more; take"));
        let few = |is_fork| NotFound::TooFewCells { kept: 2, is_fork }.to_string();
        assert_eq!(few(false), "there are only 2 cells to take back");
        let forked =
            "there are only 2 cells to take back since the session was forked from another";
        assert_eq!(few(true), forked);
    }

    #[test]
    fn a_refusal_has_one_code_whatever_its_cause() {
        let process = "web".to_owned();
        let problem = ProcessProblem::NoTerminal;
        let error = Error::from(ProcessRefusal::Unusable { process, problem });
        let text = "the process web has no terminal; spawn it with `pty`";
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("refused", text)
        );
        let error = Error::from(NotFound::Output { cell: 3 });
        assert_eq!(error.code(), "not_found");
    }
}
