//! Errors, with messages and hints for the person who reads them.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use crate::{
    MIN_PYTHON_VERSION, ProgramEnd, PythonVersion, RejectedPython, UnreachedHost,
    install::EXTRA_HOSTS_VARIABLE,
};

/// Every error of this crate. [`Error::hint`] says what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither `HOME` nor the password database names a home directory.
    #[error(
        "there is no home directory: HOME is not an absolute path, and this user has no entry in the password database"
    )]
    NoHome,

    /// No interpreter can be used.
    #[error(
        "no Python {}.{} or newer was found{}",
        MIN_PYTHON_VERSION.major,
        MIN_PYTHON_VERSION.minor,
        list(tried)
    )]
    NoInterpreter {
        /// Each candidate, and why it cannot be used.
        tried: Vec<RejectedPython>,
    },

    /// The interpreter that was asked for cannot be used. There is no fallback.
    #[error("the Python that was asked for cannot be used: {0}")]
    BadInterpreter(RejectedPython),

    /// There is no uv, and pip could not download it.
    #[error("there is nothing to install packages with: {}", reasons.join("; "))]
    NoInstaller {
        /// What was tried.
        reasons: Vec<String>,
    },

    /// The installer ended with a failure. Nothing of the environment is left behind.
    #[error("{0}")]
    Install(Box<InstallFailure>),

    /// The sandbox of the installer could not be opened, although this machine has one.
    #[error("the walls around the installer could not be made: {why}")]
    SandboxFailed {
        /// Why not.
        why: String,
    },

    /// A setting names a directory that no installer may see, because the home is in it.
    #[error(
        "a setting about packages names {}, but your home directory lies in it, and no installer may see that",
        path.display()
    )]
    HomeExposed {
        /// The directory.
        path: PathBuf,
    },

    /// The packages were installed but cannot be imported. Nothing of the environment is left behind.
    #[error(
        "the packages were installed but cannot be used: {what}{}",
        quote(lines)
    )]
    ImportFailed {
        /// Which import failed, or which file is missing.
        what: String,
        /// The last lines that Python wrote (at most 20).
        lines: Vec<String>,
        /// Whether the environment is on a file system that forbids to execute files.
        is_noexec: bool,
    },

    /// A file or directory could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A text is no requirement that is allowed.
    #[error("`{text}` cannot be installed: {why}")]
    BadRequirement {
        /// The text, shortened.
        text: String,
        /// What is wrong with it.
        why: String,
    },

    /// A file with requirements cannot be used.
    #[error("no packages can be read from {}: {why}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// The header of a script is not TOML, or not as PEP 723 has it.
    #[error("the script's header (`# /// script`) cannot be read: {why}")]
    BadHeader {
        /// What is wrong with it.
        why: String,
    },

    /// The requirements are for another Python.
    #[error("Python {wanted} is asked for, and this one is {version}")]
    PythonMismatch {
        /// The range that was asked for.
        wanted: String,
        /// The version of the interpreter.
        version: PythonVersion,
    },

    /// A package is installed in a version that a requirement excludes.
    #[error(
        "{name} {installed} is installed already, and {name} {wanted} cannot be installed beside it"
    )]
    Conflict {
        /// The package.
        name: String,
        /// The installed version.
        installed: String,
        /// The version or range that was asked for.
        wanted: String,
    },

    /// There is no environment of that name.
    #[error("there is no environment `{name}`{}", list_names(known))]
    NoSuchEnvironment {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },

    /// A text cannot be the name of an environment.
    #[error(
        "`{name}` cannot be the name of an environment: 1 to 64 of the characters A-Z a-z 0-9 _ - are"
    )]
    BadName {
        /// The text, shortened.
        name: String,
    },

    /// An environment cannot be removed while sessions use it.
    #[error("the environment `{name}` is in use")]
    InUse {
        /// The environment's name.
        name: String,
    },

    /// [`crate::Cancel::cancel`] was called.
    #[error("the making of the environment was cancelled")]
    Cancelled,
}

/// How an installer failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{program} could not {what} for {}: {end}{}", python.display(), quote(lines))]
#[non_exhaustive]
pub struct InstallFailure {
    /// The program that failed, with its version.
    pub program: String,
    /// What it could not do.
    pub what: &'static str,
    /// The interpreter that packages were installed for.
    pub python: PathBuf,
    /// The interpreter's version.
    pub version: PythonVersion,
    /// How the program ended.
    pub end: ProgramEnd,
    /// Why it failed, as far as that is known.
    pub cause: FailureCause,
    /// The last lines it wrote (at most 20), and a line for each host that it did not reach.
    pub lines: Vec<String>,
    /// The hosts that it did not reach, as far as the guard of the network saw it.
    pub unreached: Vec<UnreachedHost>,
}

/// Why an installer failed. Found by exit codes and by checks of our own, never by the installer's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureCause {
    /// The disk is (nearly) full.
    DiskFull,
    /// No set of packages meets the requirements, or a package cannot be built.
    NoSolution,
    /// The package index could not be used: no connection, an untrusted certificate, a broken answer.
    IndexUnusable,
    /// The cause is not known.
    Unknown,
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// What the user can do about the error, in one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set HOME, or XDG_CACHE_HOME and XDG_STATE_HOME".to_owned()),
            Self::NoInterpreter { .. } => Some(
                "install Python (on Debian and Ubuntu: apt-get install python3), or name one with CELLBLOCK_PYTHON"
                    .to_owned(),
            ),
            Self::BadInterpreter(_) => Some(
                "name another executable with CELLBLOCK_PYTHON, or leave it unset to search PATH".to_owned(),
            ),
            Self::NoInstaller { .. } => Some(
                "install uv, or pip for this Python (on Debian and Ubuntu: apt-get install python3-venv python3-pip)"
                    .to_owned(),
            ),
            Self::Install(failure) => Some(failure.hint()),
            Self::SandboxFailed { .. } => Some("`cellblock doctor` shows what is missing".to_owned()),
            Self::HomeExposed { .. } => Some(
                "let the setting (find-links, the address of an index, or a directory of certificates) name the very directory that holds them".to_owned(),
            ),
            Self::ImportFailed { is_noexec, .. } => is_noexec.then(|| {
                "the cache is on a file system mounted with noexec: set XDG_CACHE_HOME to another one".to_owned()
            }),
            Self::Io { source, .. } => io_hint(source.kind()),
            Self::PythonMismatch { .. } => {
                Some("name another interpreter with --python or CELLBLOCK_PYTHON".to_owned())
            }
            Self::Conflict { .. } => Some(
                "a session keeps the versions it has; begin a new one in an environment with the other version".to_owned(),
            ),
            Self::NoSuchEnvironment { .. } => Some(
                "`cellblock env list` shows them, and `cellblock env create NAME PACKAGE…` makes one; a file needs a / or an ending".to_owned(),
            ),
            Self::InUse { .. } => Some("end the sessions that run in it first".to_owned()),
            Self::BadRequirement { .. } | Self::BadFile { .. } | Self::BadHeader { .. } | Self::BadName { .. } | Self::Cancelled => None,
        }
    }
}

const NO_SPACE: &str =
    "free some disk space (about 1 GB is needed), or set XDG_CACHE_HOME to a larger file system";

fn io_hint(kind: io::ErrorKind) -> Option<String> {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(NO_SPACE.to_owned()),
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory => {
            Some("set XDG_CACHE_HOME to a directory that you can write to".to_owned())
        }
        _ => None,
    }
}

impl InstallFailure {
    /// The unreached hosts that no setting names, separated by spaces.
    fn foreign_hosts(&self) -> Option<String> {
        let foreign = self.unreached.iter().filter(|host| host.is_foreign);
        let hosts: Vec<&str> = foreign.map(|host| host.host.as_str()).collect();
        (!hosts.is_empty()).then(|| hosts.join(" "))
    }

    fn hint(&self) -> String {
        const UNREACHED: &str = "the package index could not be reached: check the network, or name a mirror with UV_DEFAULT_INDEX or pip's index-url";
        if let Some(hosts) = self.foreign_hosts() {
            return format!(
                "the package index leads to {hosts}, which is none of the hosts that your settings name: if you trust it, set {EXTRA_HOSTS_VARIABLE}={hosts:?}"
            );
        }
        if !self.unreached.is_empty() {
            return UNREACHED.to_owned();
        }
        match self.cause {
            FailureCause::DiskFull => NO_SPACE.to_owned(),
            FailureCause::NoSolution => format!(
                "check the names and versions of the packages: they must exist for Python {} on this machine, and fit to each other and to what is installed",
                self.version
            ),
            FailureCause::IndexUnusable => format!(
                "{UNREACHED}; if its certificate is not trusted, set SSL_CERT_FILE to your organisation's CA bundle"
            ),
            FailureCause::Unknown => "the lines above are the installer's own".to_owned(),
        }
    }
}

fn list_names(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("; there are: {}", names.join(", "))
}

fn list(tried: &[RejectedPython]) -> String {
    if tried.is_empty() {
        return ": nothing named python3 or python is on PATH, in /usr/bin or in /usr/local/bin"
            .to_owned();
    }
    tried.iter().fold(String::new(), |mut text, rejected| {
        let _ = write!(text, "\n  {rejected}");
        text
    })
}

fn quote(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = write!(text, "\n  {line}");
        text
    })
}
