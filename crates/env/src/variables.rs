//! The environment variables that this crate acts on, and what this user may do with files.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    io::Errno,
};

/// A snapshot of environment variables.
///
/// This crate reads such a value and never the variables of the process, so that two callers (or tests) can
/// use different variables at once.
///
/// ```
/// use cellblock_env::Variables;
///
/// let variables = Variables::default().with("HOME", "/home/me").with("EMPTY", "");
/// assert_eq!(variables.get("HOME").and_then(|home| home.to_str()), Some("/home/me"));
/// assert_eq!(variables.get("EMPTY"), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// The variables of this process.
    pub fn from_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// These variables with one of them set.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// These variables without one of them.
    #[must_use]
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        self.0.remove(name.as_ref());
        self
    }

    /// The value of a variable, when it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The value of a variable as a path, when it is absolute. The XDG specification says to ignore relative ones.
    pub(crate) fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }

    /// The absolute directories of `PATH`. Relative ones are left out: the choice of a program must not
    /// depend on the working directory.
    pub(crate) fn search_path(&self) -> Vec<PathBuf> {
        let Some(path) = self.get("PATH") else {
            return Vec::new();
        };
        std::env::split_paths(path)
            .filter(|directory| directory.is_absolute())
            .collect()
    }

    /// Every executable file of that name on `PATH`, in order.
    pub(crate) fn programs(&self, name: &str) -> Vec<PathBuf> {
        self.search_path()
            .into_iter()
            .map(|directory| directory.join(name))
            .filter(|path| is_program(path))
            .collect()
    }

    /// A command that sees exactly these variables.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.0);
        command
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The outermost directory on the way to `path` that the effective user may not enter.
pub(crate) fn blocking_directory(path: &Path) -> Option<PathBuf> {
    let ancestors: Vec<_> = path.ancestors().skip(1).collect();
    ancestors
        .into_iter()
        .rev()
        .filter(|ancestor| !ancestor.as_os_str().is_empty())
        .find(|ancestor| is_denied(ancestor, Access::EXEC_OK))
        .map(Path::to_owned)
}

/// Whether the file exists and the effective user may not read it.
pub(crate) fn is_unreadable(path: &Path) -> bool {
    is_denied(path, Access::READ_OK)
}

/// Whether the file exists and the effective user may not execute it.
pub(crate) fn is_not_executable(path: &Path) -> bool {
    is_denied(path, Access::EXEC_OK)
}

/// Whether a file's content may be acted on: the file belongs to this user or to root. `sudo` with a kept
/// `HOME` must not act on files that the other user put into the cache.
pub(crate) fn is_trusted(metadata: &Metadata) -> bool {
    let owner = metadata.uid();
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// The effective user, for messages.
pub(crate) fn current_user() -> String {
    format!("uid {}", rustix::process::geteuid().as_raw())
}

fn is_denied(path: &Path, access: Access) -> bool {
    matches!(
        accessat(CWD, path, access, AtFlags::EACCESS),
        Err(Errno::ACCESS | Errno::PERM)
    )
}
