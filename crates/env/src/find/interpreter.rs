//! A Python that sessions can run on, as a probe described it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A CPython that is new enough. Made by [`crate::Search`].
///
/// The value always describes the interpreter itself, never a pyenv shim, a link to it or a virtual
/// environment of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interpreter {
    /// The real binary, with every symbolic link resolved.
    pub executable: PathBuf,
    /// The version of Python.
    pub version: PythonVersion,
    /// Where the interpreter is installed (`/usr`, `~/.pyenv/versions/3.12.1`).
    pub base_prefix: PathBuf,
    /// Where its files that depend on the machine are installed; nearly always equal to `base_prefix`.
    pub base_exec_prefix: PathBuf,
    /// `lib` or `lib64`.
    pub platlibdir: String,
    /// The platform, as `sysconfig` names it (`linux-x86_64`).
    pub platform: String,
    /// The tag of compiled modules (`cpython-312-x86_64-linux-gnu`).
    pub soabi: String,
    /// The directory of the standard library.
    pub stdlib: PathBuf,
    /// The directory of its part that depends on the machine; nearly always equal to `stdlib`.
    pub platstdlib: PathBuf,
    /// The path of `libpython`, where the interpreter is linked against a shared one.
    pub shared_library: Option<PathBuf>,
    /// Whether the interpreter is built without the global interpreter lock.
    pub free_threaded: bool,
    /// The parts of the standard library that a distribution may leave out.
    pub modules: OptionalModules,
}

impl Interpreter {
    /// Whether packages installed for one interpreter work for the other. The optional modules may differ:
    /// a distribution can add them later.
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

    /// The directories that a process must be able to read to run the interpreter; none is inside another.
    /// The files of the system's dynamic linker come on top.
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
pub struct OptionalModules {
    /// `ctypes` can be imported (it needs libffi).
    pub ctypes: bool,
    /// `ssl` can be imported (it needs OpenSSL).
    pub ssl: bool,
    /// `venv` can be found.
    pub venv: bool,
    /// `ensurepip` can be found. Debian puts it into the package `python3-venv`.
    pub ensurepip: bool,
}

/// A version of Python, such as 3.12.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PythonVersion {
    /// The first number: 3.
    pub major: u32,
    /// The second number: 12.
    pub minor: u32,
    /// The third number: 1.
    pub micro: u32,
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}
