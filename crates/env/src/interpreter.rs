//! A Python that sessions can run on.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A CPython of a version that is new enough. Made by [`crate::Search`].
///
/// It is always the interpreter itself: of a pyenv shim, a link or a virtual environment, what stands
/// behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interpreter {
    /// The real binary, with every symbolic link resolved.
    pub executable: PathBuf,
    /// Its version.
    pub version: Version,
    /// Where it is installed (`/usr`, `~/.pyenv/versions/3.12.1`).
    pub base_prefix: PathBuf,
    /// The same for files that depend on the machine; nearly always equal.
    pub base_exec_prefix: PathBuf,
    /// `lib` or `lib64`.
    pub platlibdir: String,
    /// As `sysconfig` names it (`linux-x86_64`).
    pub platform: String,
    /// What compiled modules are made for (`cpython-312-x86_64-linux-gnu`).
    pub soabi: String,
    /// The standard library.
    pub stdlib: PathBuf,
    /// Its part that depends on the machine; nearly always equal.
    pub platstdlib: PathBuf,
    /// `libpython`, where the interpreter is linked against a shared one.
    pub shared_library: Option<PathBuf>,
    /// Whether it is built without the global interpreter lock.
    pub free_threaded: bool,
    /// Which parts of the standard library are there: distributions leave some out.
    pub modules: Modules,
}

impl Interpreter {
    /// Whether packages installed for the one work for the other. What parts of the standard library there
    /// are may change meanwhile.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let identity = |of: &Self| {
            (
                of.executable.clone(),
                of.version,
                of.platform.clone(),
                of.soabi.clone(),
            )
        };
        identity(self) == identity(other)
    }

    /// The directories that a process must be able to read to run it, none inside another. What the
    /// system's dynamic linker needs comes on top.
    pub fn directories(&self) -> Vec<PathBuf> {
        let wanted = [
            Some(self.base_prefix.as_path()),
            Some(self.base_exec_prefix.as_path()),
            Some(self.stdlib.as_path()),
            Some(self.platstdlib.as_path()),
            self.executable.parent(),
            self.shared_library.as_deref().and_then(Path::parent),
        ];
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in wanted.into_iter().flatten() {
            if !directories.iter().any(|known| directory.starts_with(known)) {
                directories.retain(|known| !known.starts_with(directory));
                directories.push(directory.to_owned());
            }
        }
        directories
    }
}

/// Parts of the standard library that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Modules {
    /// `ctypes` can be imported (it needs libffi).
    pub ctypes: bool,
    /// `ssl` can be imported (it needs OpenSSL).
    pub ssl: bool,
    /// `venv` is there.
    pub venv: bool,
    /// `ensurepip` is there. Debian puts it into `python3-venv`.
    pub ensurepip: bool,
}

/// A version, such as 3.12.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// 3
    pub major: u32,
    /// 12
    pub minor: u32,
    /// 1
    pub micro: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}
