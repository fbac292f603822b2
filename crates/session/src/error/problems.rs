//! Why a workspace cannot be used, and why a Python does not start.

use std::io;

/// A cause for which a directory cannot be a workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceProblem {
    /// The directory does not exist.
    #[error("it does not exist; create it first")]
    Missing,
    /// It is the root directory.
    #[error("the root directory is no workspace")]
    RootDirectory,
    /// It is a file or something else.
    #[error("it is not a directory")]
    NotADirectory,
    /// The file system is read-only.
    #[error("it is on a read-only file system")]
    ReadOnly,
    /// This user has no right to write there.
    #[error("it cannot be written by this user")]
    NotWritable,
    /// There is no room on the disk.
    #[error("its disk is full")]
    DiskFull,
    /// Programs in it run with the rights of their owner, and code of a session could rewrite them.
    #[error(
        "code in it could rewrite programs that others run with the rights of their owner: {}; take these rights away (chmod ug-s, setcap -r), or choose another directory",
        list(.named, .more)
    )]
    SetIdPrograms {
        /// The first of these programs.
        named: Vec<String>,
        /// How many others there are.
        more: usize,
    },
    /// A mount that only the host sees hides the directory from the sandbox.
    #[error("the sandbox does not find the same directory there")]
    HiddenByMount,
    /// The directory was replaced by a link since it was recorded.
    #[error("a link leads elsewhere from there by now")]
    LeadsElsewhere,
    /// The directory is too large for a private copy.
    #[error("it has {entries} entries with {} MB, too much to be copied", bytes / 1_000_000)]
    TooLargeToCopy {
        /// Its files, directories and links.
        entries: usize,
        /// The bytes of its files.
        bytes: u64,
    },
    /// The launcher could not mount it.
    #[error("{0}")]
    Mount(cellblock_sandbox::Error),
    /// The system refused something else.
    #[error("{0}")]
    System(io::Error),
}

/// A cause for which a Python does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PythonProblem {
    /// There is no such program.
    #[error("there is no such program")]
    Missing,
    /// The user that sessions run as may not read or execute it.
    #[error(
        "it cannot be read or executed by the user that sessions run as; choose another with CELLBLOCK_PYTHON"
    )]
    NotExecutable,
    /// It started and said nothing in time.
    #[error("nothing was heard of it for {seconds} s")]
    Silent {
        /// How long the host waited, in whole seconds.
        seconds: u64,
    },
    /// Its first message is none of the guest's.
    #[error("its first message made no sense")]
    MalformedMessage,
    /// It ended before it was ready.
    #[error("{description}")]
    Ended {
        /// How it ended, with what it wrote to standard error.
        description: String,
    },
    /// The system refused to execute it.
    #[error("{0}")]
    System(io::Error),
}

fn list(named: &[String], more: &usize) -> String {
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
