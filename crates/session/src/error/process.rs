//! Why a process beside the head cannot be started or used.

use std::io;

/// A cause for which a process cannot be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessRefusal {
    /// The session runs in a container.
    #[error(
        "a session in a container starts no processes beside its interpreter; the backend `local` can do that, and cells can start some (`subprocess`)"
    )]
    InContainer,
    /// The description of what the session may see does not fit into a request.
    #[error(
        "no process can be started: what the session may see takes {bytes} bytes to say, and {max} are the most"
    )]
    RequestTooLong {
        /// The bytes of the description.
        bytes: usize,
        /// The most bytes.
        max: usize,
    },
    /// The session has as many processes as its limit allows.
    #[error("no process can be started: the session has as many as its limit `processes` allows")]
    ProcessLimit,
    /// The program is there and cannot be executed.
    #[error("`{program}` cannot be executed: {error}")]
    NotExecutable {
        /// The program.
        program: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A step on the way to a process failed.
    #[error("{what} could not be started: {step} failed: {error}")]
    Start {
        /// What was started: `the process`, or `the spawner` that starts processes.
        what: &'static str,
        /// The step.
        step: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// The process is there, and something cannot be done with it.
    #[error("the process {process} {problem}")]
    Unusable {
        /// The name of the process.
        process: String,
        /// Why not.
        problem: ProcessProblem,
    },
}

/// Why something cannot be done with a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProcessProblem {
    /// The process has ended.
    #[error("has ended")]
    Ended,
    /// The process has closed its side of the input.
    #[error("does not read its input any more")]
    DoesNotRead,
    /// The process was started without an input.
    #[error("was started without an input; spawn it with `stdin`")]
    NoInput,
    /// The caller has closed the input.
    #[error("has a closed input")]
    InputClosed,
    /// The process has no terminal.
    #[error("has no terminal; spawn it with `pty`")]
    NoTerminal,
}
