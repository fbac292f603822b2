//! Why a session cannot be forked.

/// A cause for which a session cannot be forked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkRefusal {
    /// The session runs in a container.
    #[error("a session in a container cannot be forked; the backend `local` can do that")]
    InContainer,
    /// The session has no runtime to make the fork with.
    #[error("the session cannot be forked: it was made by no runtime")]
    NoRuntime,
    /// The session has not the walls that a fork needs.
    #[error(
        "a session with isolation `{isolation}` cannot be forked: a fork needs namespaces of its own, so the rung must be `full` with the walls files, processes, privileges, seccomp and signals"
    )]
    Isolation {
        /// The walls of the session, in the words of results.
        isolation: String,
    },
    /// The session is a fork of a fork, as deep as forks go.
    #[error(
        "the session cannot be forked: it is the {max}th fork of a fork already, and that is as deep as forks go"
    )]
    TooDeep {
        /// How deep forks go.
        max: u32,
    },
    /// The session and its relatives are too many.
    #[error(
        "the session cannot be forked: with its forks and theirs there are {max} sessions already; close some first"
    )]
    TooMany {
        /// The most sessions that come from one another by forks.
        max: usize,
    },
    /// The kernel makes no more namespaces.
    #[error("the session cannot be forked: the kernel allows no more namespaces, or none so deep")]
    Namespaces,
    /// The guest cannot copy something that code of the session holds.
    #[error("the session cannot be forked: {reason}")]
    Guest {
        /// The reason, in the guest's words.
        reason: String,
    },
    /// Processes of the fork do not stop, so it is not known what they hold of the parent.
    #[error(
        "the session cannot be forked: processes of the fork do not stop, so it cannot be checked what they hold of the parent"
    )]
    NotChecked,
    /// Code of the session has kept something of the parent open in the fork.
    #[error(
        "the session cannot be forked: the fork still holds {what}{}, which code of the session has kept from being closed; nothing of the fork is left",
        numbered(.descriptor)
    )]
    StillHolds {
        /// What the fork holds, in words.
        what: &'static str,
        /// The number of the descriptor, if it has one.
        descriptor: Option<u64>,
    },
    /// The files in `/tmp` and `/dev/shm` cannot be copied.
    #[error("the session cannot be forked: {reason}")]
    TemporaryFiles {
        /// Why not.
        reason: &'static str,
    },
    /// The workspace has too many entries to be copied.
    #[error("a fork works on a copy of the files, and there are more than can be looked at")]
    TooManyFiles,
    /// The copy of the workspace would go over the fork's limit of disk.
    #[error(
        "a fork works on a copy of the files, and {bytes} bytes are more than the limit `disk` of {limit} allows"
    )]
    DiskLimit {
        /// The bytes that would be copied.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

fn numbered(descriptor: &Option<u64>) -> String {
    descriptor.map_or_else(String::new, |number| format!(" (descriptor {number})"))
}
