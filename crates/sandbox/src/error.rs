//! The errors of building walls, in words for a person.

use cellblock_native::wire::message::Stage;
use cellblock_protocol::Rung;
use std::path::PathBuf;

/// An error of the sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call of the host's failed.
    #[error("{what} failed: {source}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The error of the kernel.
        #[source]
        source: std::io::Error,
    },
    /// A process inside could not be built.
    #[error("{process} could not be built: {step} failed: {source}")]
    Build {
        /// The process.
        process: &'static str,
        /// At which step.
        step: &'static str,
        /// The error of the kernel.
        #[source]
        source: std::io::Error,
    },
    /// The asked rung cannot be reached here.
    #[error(
        "this machine cannot reach isolation `{wanted}`: {reason}; run `cellblock doctor` to see wall by wall what is missing"
    )]
    Unreachable {
        /// The rung that was asked for.
        wanted: Rung,
        /// The mechanisms that are missing, in words.
        reason: String,
    },
    /// A path that the native code cannot carry.
    #[error("the path {} cannot be used in a session: it is not UTF-8, or holds a zero byte", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// The workspace cannot be where the session sees something else.
    #[error("the workspace cannot be at {}: the session's Python is in {}, and one would cover the other", place.display(), shown.display())]
    PlaceTaken {
        /// Where the workspace was to be.
        place: PathBuf,
        /// What is shown there.
        shown: PathBuf,
    },
    /// The other side sent something that makes no sense.
    #[error("{process} sent a message that makes no sense")]
    Protocol {
        /// The process.
        process: &'static str,
    },
}

impl Error {
    pub(crate) fn system(what: &'static str, error: impl Into<std::io::Error>) -> Error {
        Error::System {
            what,
            source: error.into(),
        }
    }

    /// Whether a workspace could not be mounted because its file system cannot map the owners of files.
    pub fn is_id_map_unsupported(&self) -> bool {
        let Error::Build { step, source, .. } = self else {
            return false;
        };
        *step == Stage::describe(Stage::IdMap as u64)
            && source.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
    }

    /// Why a fork could not have a copy of its parent's temporary files, if it could not.
    pub fn why_no_temporary_files(&self) -> Option<&'static str> {
        let Error::Build { step, source, .. } = self else {
            return None;
        };
        if *step != Stage::describe(Stage::TemporaryFiles as u64) {
            return None;
        }
        let is = |errno: rustix::io::Errno| source.raw_os_error() == Some(errno.raw_os_error());
        Some(if is(rustix::io::Errno::NAMETOOLONG) {
            "directories in /tmp or /dev/shm are more than 100 levels deep"
        } else if is(rustix::io::Errno::OVERFLOW) {
            "names in /tmp or /dev/shm change all the time"
        } else {
            "there is no room for a copy of what is in /tmp and /dev/shm"
        })
    }

    pub(crate) fn build(process: &'static str, stage: u64, errno: u64) -> Error {
        let source = std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
        Error::Build {
            process,
            step: Stage::describe(stage),
            source,
        }
    }
}
