//! What can go wrong, in words for the person who reads it.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use crate::{Rejected, Unreached, Version, places::MORE_HOSTS};

/// Every error of this crate. [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither `HOME` nor the password database names a home directory.
    #[error(
        "there is no home directory: HOME is not an absolute path, and this user has no entry in the password database"
    )]
    NoHome,

    /// No candidate was good enough.
    #[error("no Python {}.{} or newer was found{}", crate::OLDEST.0, crate::OLDEST.1, list(tried))]
    NoInterpreter {
        /// Each one that was looked at, and what was wrong with it.
        tried: Vec<Rejected>,
    },

    /// The interpreter that was asked for by name cannot be used. There is no fallback.
    #[error("the Python that was asked for cannot be used: {0}")]
    BadInterpreter(Rejected),

    /// There is no uv, it could not be fetched, and there is no pip either.
    #[error("there is nothing to install packages with: {}", reasons.join("; "))]
    NoInstaller {
        /// What was tried.
        reasons: Vec<String>,
    },

    /// The installer ended with a failure. Nothing of the environment is left behind.
    #[error("{0}")]
    Install(Box<InstallFailure>),

    /// The installer could not be put behind walls, though this machine has them.
    #[error("the walls around the installer could not be made: {why}")]
    NoRoom {
        /// What was in the way.
        why: String,
    },

    /// A setting names a directory that no installer may see.
    #[error(
        "a setting about packages names {}, but your home directory lies in it, and no installer may see that",
        path.display()
    )]
    HomeInPlace {
        /// The directory.
        path: PathBuf,
    },

    /// The packages were installed but cannot be imported. Nothing of the environment is left behind.
    #[error(
        "the packages were installed but cannot be used: {what}{}",
        quote(lines)
    )]
    WarmUp {
        /// Which import or product is missing.
        what: String,
        /// The last lines that Python wrote (at most 20).
        lines: Vec<String>,
    },

    /// A file or directory of ours could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Something that is no requirement was given as one.
    #[error("`{text}` cannot be installed: {why}")]
    BadRequirement {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },

    /// A file does not say which packages are wanted.
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

    /// It is for another Python.
    #[error("Python {wanted} is asked for, and this one is {version}")]
    OtherPython {
        /// The range that was asked for.
        wanted: String,
        /// What is there.
        version: Version,
    },

    /// A package is there in one version, and another was asked for.
    #[error(
        "{name} {there} is installed already, and {name} {wanted} cannot be installed beside it"
    )]
    Conflict {
        /// The package.
        name: String,
        /// The version that is there.
        there: String,
        /// What was asked for.
        wanted: String,
    },

    /// There is no environment of that name.
    #[error("there is no environment `{name}`{}", known(there))]
    NoSuchEnvironment {
        /// What was asked for.
        name: String,
        /// Those that there are.
        there: Vec<String>,
    },

    /// That cannot be the name of an environment.
    #[error(
        "`{name}` cannot be the name of an environment: 1 to 64 of the characters A-Z a-z 0-9 _ - are"
    )]
    BadName {
        /// What was given.
        name: String,
    },

    /// It cannot be removed while sessions use it.
    #[error("the environment `{name}` is in use")]
    InUse {
        /// Its name.
        name: String,
    },

    /// [`crate::Cancel::cancel`] was called.
    #[error("the making of the environment was cancelled")]
    Cancelled,
}

/// How an installer failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{tool} could not {what} for {}: {status}{}", python.display(), quote(lines))]
#[non_exhaustive]
pub struct InstallFailure {
    /// Which program failed.
    pub tool: String,
    /// At what.
    pub what: &'static str,
    /// The interpreter it was for.
    pub python: PathBuf,
    /// Its version.
    pub version: Version,
    /// How the program ended.
    pub status: String,
    /// The last lines it wrote (at most 20), and what it could not reach.
    pub lines: Vec<String>,
    /// What it wanted to reach and could not, as far as the guard of the network saw it.
    pub unreached: Vec<Unreached>,
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// What the user can do, in one line.
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
            Self::NoRoom { .. } => Some("`cellblock doctor` shows what is missing".to_owned()),
            Self::HomeInPlace { .. } => Some(
                "let the setting (find-links, the address of an index, or a directory of certificates) name the very directory that holds them".to_owned(),
            ),
            Self::WarmUp { lines, .. } => lines.join("\n").contains("failed to map segment").then(|| {
                "the cache is on a file system mounted with noexec: set XDG_CACHE_HOME to another one".to_owned()
            }),
            Self::Io { source, .. } => io_hint(source.kind()),
            Self::OtherPython { .. } => {
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
    /// Those that no setting names, separated by spaces.
    fn foreign_hosts(&self) -> Option<String> {
        let foreign = self.unreached.iter().filter(|one| one.is_foreign);
        let hosts: Vec<&str> = foreign.map(|one| one.host.as_str()).collect();
        (!hosts.is_empty()).then(|| hosts.join(" "))
    }

    fn hint(&self) -> String {
        let (version, text) = (self.version, self.lines.join("\n"));
        let says = |any: &[&str]| any.iter().any(|part| text.contains(part));
        if says(&["No space left on device", "Disk quota exceeded"]) {
            NO_SPACE.to_owned()
        } else if says(&["certificate", "CERTIFICATE"]) {
            "the package index's certificate is not trusted: set SSL_CERT_FILE to your organisation's CA bundle".to_owned()
        } else if let Some(host) = self.foreign_hosts() {
            format!(
                "the package index leads to {host}, which is none of the hosts that your settings name: if you trust it, set {MORE_HOSTS}={host:?}"
            )
        } else if !self.unreached.is_empty()
            || says(&[
                "dns error",
                "name resolution",
                "Name or service not known",
                "Connection refused",
                "onnection reset",
                "etwork is unreachable",
                "No route to host",
                "timed out",
                "error sending request",
                "NewConnectionError",
                "Could not connect",
            ])
        {
            "the package index could not be reached: check the network, or name a mirror with UV_DEFAULT_INDEX or pip's index-url"
            .to_owned()
        } else if says(&["was not found in the package registry"]) {
            "the index has no package of that name: look at how it is written".to_owned()
        } else if says(&[
            "requirements are unsatisfiable",
            "ResolutionImpossible",
            "conflicting dependencies",
        ]) {
            "these requirements contradict each other, or what is there already: ask for other versions, or begin with another environment"
                .to_owned()
        } else if says(&["No solution found", "No matching distribution", "no wheels"]) {
            format!(
                "no release of a package fits Python {version} on this machine: try another Python with CELLBLOCK_PYTHON"
            )
        } else {
            "the lines above are the installer's own".to_owned()
        }
    }
}

fn known(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("; there are: {}", names.join(", "))
}

fn list(tried: &[Rejected]) -> String {
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
