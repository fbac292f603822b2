//! The errors of local models.

use std::io;
use std::path::{Path, PathBuf};

/// Why a local model cannot be had or served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No stored model has this name.
    #[error("there is no local model `{name}`")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The text names no source of weights.
    #[error("`{text}` is no model: {problem}")]
    BadSource {
        /// The text of the user.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An address was given without the hash of its file.
    #[error("the weights at {address} need a hash to be checked against")]
    NoHash {
        /// The address.
        address: String,
    },
    /// The file is no GGUF file.
    #[error("{} is no GGUF file", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
    },
    /// The weights are not those that were asked for.
    #[error("the weights have the hash {found}, expected {expected}; they were removed")]
    WrongHash {
        /// The hash that was expected.
        expected: String,
        /// The hash of what came.
        found: String,
    },
    /// The disk has too little space.
    #[error("{} has {} MB free, and the weights need {} MB", path.display(), free / 1_000_000, needed / 1_000_000)]
    DiskFull {
        /// The directory of the weights.
        path: PathBuf,
        /// The free bytes.
        free: u64,
        /// The bytes that are needed.
        needed: u64,
    },
    /// A file could not be read or written.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A download failed, still after several attempts.
    #[error("{address} could not be downloaded: {problem}")]
    Download {
        /// The address, without its query.
        address: String,
        /// The cause.
        problem: String,
    },
    /// The server did not start.
    #[error("the model's server did not start: {problem}")]
    Server {
        /// The last lines of its log.
        problem: String,
    },
    /// An environment could not be made.
    #[error(transparent)]
    Environment(#[from] cellblock_env::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }

    /// What to do about the error, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some(
                "`cellblock model list` shows the local models, `cellblock model get` brings one"
                    .to_owned(),
            ),
            Self::BadSource { .. } => Some(
                "give a name of `cellblock model list`, a path of a GGUF file, an https address with --sha256, or hub:OWNER/REPOSITORY/FILE.gguf"
                    .to_owned(),
            ),
            Self::NoHash { .. } => Some("name the file's hash with --sha256".to_owned()),
            Self::DiskFull { .. } => Some(
                "free some space, or set XDG_CACHE_HOME to a directory on another disk".to_owned(),
            ),
            Self::Download { .. } => {
                Some("the same command again goes on where it stopped".to_owned())
            }
            Self::Environment(error) => error.hint(),
            _ => None,
        }
    }
}
