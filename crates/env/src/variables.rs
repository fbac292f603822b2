//! The environment variables that this crate acts on.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

/// A snapshot of environment variables.
///
/// Everything here reads this value and never the process itself, so that two callers (or tests) can
/// work in different surroundings at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// What this process has.
    pub fn from_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The same with one variable set.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The same without one variable.
    #[must_use]
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        self.0.remove(name.as_ref());
        self
    }

    /// The value, when it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The value as a path, when it is absolute. The XDG specification says to ignore relative ones.
    pub(crate) fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }

    /// The absolute directories of `PATH`. Relative ones are left out: what runs must not depend on
    /// the directory one happens to stand in.
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
