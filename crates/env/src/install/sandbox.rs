//! The sandbox that installers run in, as this crate asks for one. The crate `cellblock` implements it
//! with sessions; this crate knows nothing of sessions.

use std::{ffi::OsString, fmt, path::Path, path::PathBuf, time::Duration};

use crate::{Cancel, Interpreter};

/// Opens sandboxes: places where programs see, reach and write only what [`SandboxOptions`] name.
pub trait InstallerSandbox: fmt::Debug + Send + Sync {
    /// Opens a sandbox. Dropping the answer closes it and ends every program that still runs in it.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] where this machine cannot isolate programs as asked; an installer then
    /// runs without a sandbox. [`SandboxError::Failed`] stops the install.
    fn open(&self, options: &SandboxOptions) -> Result<Box<dyn OpenSandbox>, SandboxError>;
}

/// A sandbox that runs one command after the other.
pub trait OpenSandbox {
    /// The path of [`SandboxOptions::directory`] as programs in the sandbox see it.
    fn directory(&self) -> &Path;

    /// Runs a command to its end. `on_line` gets each line of its standard output and error.
    fn run(
        &mut self,
        command: &SandboxCommand,
        cancel: &Cancel,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), CommandFailure>;

    /// Reads a file below the sandbox's directory. A link that leads out of the directory is not followed.
    fn read(&self, name: &str) -> Result<Vec<u8>, String>;
}

/// What programs in a sandbox see, reach and write.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SandboxOptions {
    /// The Python whose files are readable.
    pub interpreter: Interpreter,
    /// Further readable files and directories.
    pub readable: Vec<PathBuf>,
    /// The hosts that can be reached, each perhaps with a port. No host, no network.
    pub hosts: Vec<String>,
    /// The proxies between this machine and the hosts.
    pub proxies: ProxySettings,
    /// The working directory, and the only directory that is writable.
    pub directory: PathBuf,
    /// How strong the isolation must be.
    pub strength: SandboxStrength,
    /// The time limit of one command.
    pub time_limit: Duration,
}

/// Proxies, as the variables `http_proxy`, `https_proxy` and `no_proxy` name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxySettings {
    /// The proxy for plain HTTP.
    pub http: Option<String>,
    /// The proxy for TLS.
    pub https: Option<String>,
    /// Hosts that are reached without a proxy, as `no_proxy` lists them.
    pub bypass: String,
}

/// How strong the isolation of a sandbox must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxStrength {
    /// Every wall (the rung `full`), or no sandbox. A network can be guarded only there.
    Full,
    /// The best walls of this machine, but never none.
    BestAvailable,
}

/// A command for a sandbox.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SandboxCommand {
    /// The program and its arguments. Relative paths are below the sandbox's directory.
    pub arguments: Vec<OsString>,
    /// The environment variables. The sandbox adds those that name its proxy, and no others.
    pub variables: Vec<(OsString, OsString)>,
}

/// Why there is no sandbox.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// This machine cannot isolate programs as asked.
    #[error("{0}")]
    Unavailable(String),
    /// The sandbox could not be opened for another reason.
    #[error("{0}")]
    Failed(String),
}

/// How a command in a sandbox failed.
#[derive(Clone, Debug)]
pub struct CommandFailure {
    /// How the program ended.
    pub end: ProgramEnd,
    /// The hosts that the program asked for and did not reach.
    pub unreached: Vec<UnreachedHost>,
}

/// A host that a program asked for and did not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedHost {
    /// The host, with its port unless that is the usual one.
    pub host: String,
    /// Why the host was not reached.
    pub why: String,
    /// Whether the host is none of [`SandboxOptions::hosts`].
    pub is_foreign: bool,
}

/// How a program ended that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramEnd {
    /// The program exited with this code.
    Exit(i32),
    /// The program was killed by this signal.
    Signal(i32),
    /// The program was ended after its time limit.
    TimedOut(Duration),
    /// The program did not start, or its end was not seen; the text says why.
    Other(String),
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(out, "exit {code}"),
            Self::Signal(signal) => write!(out, "killed by signal {signal}"),
            Self::TimedOut(limit) if limit.as_secs() >= 120 => {
                write!(out, "it did not end in {} min", limit.as_secs() / 60)
            }
            Self::TimedOut(limit) => write!(out, "it did not end in {} s", limit.as_secs_f64()),
            Self::Other(why) => out.write_str(why),
        }
    }
}
